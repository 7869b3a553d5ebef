"""What `bench.transitions` runs on: a private embedded PostgreSQL as it is delivered (fsync and
synchronous_commit on), and in it the deals of each party. `python -m bench.stage ours|peer` fills them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import psycopg

from bench import parties, server
from bench.sellers import account_made, seller_made
from config import postgres
from config.postgres import roles
from config.supervisor import BASE_DIR

PROCESSES = 4
_PEER = "fsm_log"

# The same tables without triggers, foreign keys and checks of entries, filled with the same rows.
_REFERENCE = """
create schema reference;
create table reference.deal (like orders_deal including all) with (fillfactor = 70);
create table reference.audit (like tasks_app_auditentry including all excluding constraints);
create table reference.outbox (like tasks_app_outboxevent including all);
insert into reference.deal select * from orders_deal;
insert into reference.audit select * from tasks_app_auditentry where entity_type = 'deal';
select setval(pg_get_serial_sequence('reference.audit', 'id'), (select max(id) from reference.audit));
grant usage on schema reference to flightdeck_app;
grant select, insert, update on all tables in schema reference to flightdeck_app;
grant usage on all sequences in schema reference to flightdeck_app;
"""


@dataclass(frozen=True)
class Stage:
    """`env`: what the parties' processes need. `server`: what it runs, for the table's head."""

    env: dict[str, str]
    server: str


@contextmanager
def opened() -> Iterator[Stage]:
    """The server with everybody's deals."""
    with server.opened("bench") as on:
        running = on.running
        peer = urlsplit(running.urls.owner)._replace(path=f"/{_PEER}").geturl()
        env = {**on.env, "PEER_DATABASE_URL": peer}
        for whose in ("ours", "peer"):
            print(f"== making the deals ({whose})", flush=True)
            if whose == "peer":
                _make_peer_database(running)
            subprocess.run([sys.executable, "-m", "bench.stage", whose], check=True, cwd=BASE_DIR, env=env)
        _make_reference(running.urls.owner)
        yield Stage(env, on.words())


def _make_peer_database(running: postgres.RunningPostgres) -> None:
    with running.connect_admin() as admin:
        roles.ensure_database(admin, _PEER)
    with running.connect_admin(_PEER) as admin:
        roles.grant_inside(admin)


def _make_reference(url: str) -> None:
    with psycopg.connect(url) as owner:
        owner.execute(_REFERENCE)
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("vacuum analyze")


def fill_ours() -> None:
    """Deals of one seller, made as the product makes them: `OWN` for each process and `MANY`."""
    parties.django_ours()
    from orders.models import Deal
    from tasks_app.lifecycle.transitions import create_many
    from tasks_app.people.models import Advertiser, Team

    team = Team.objects.create(name="Bench")
    advertiser = Advertiser.objects.create(team=team, name="Bench", brand_domain="bench.example")
    seller = seller_made(name="Bench", slug="bench")
    account = account_made(advertiser, seller, "bench")
    zones = [parties.zone_of(n) for n in range(PROCESSES) for _ in range(parties.OWN)]
    zones += [parties.MANY_ZONE] * parties.MANY
    start = datetime.now(UTC)
    deals = [
        Deal(
            reference=f"BENCH-{number}",
            team=team,
            advertiser=advertiser,
            seller=seller,
            account=account,
            requested_by="system",
            currency="USD",
            start_at=start,
            end_at=start + timedelta(days=28),
            zone=zone,
        )
        for number, zone in enumerate(zones)
    ]
    create_many(deals, actor="system", reason="A bench")


def fill_peer() -> None:
    """As many deals of the peer's."""
    parties.django_peer()
    from django.core.management import call_command

    from bench.fsm_log.models import Deal

    call_command("migrate", run_syncdb=True, verbosity=0)
    now = datetime.now(UTC)
    Deal.objects.bulk_create(Deal(status_since=now) for _ in range(PROCESSES * parties.OWN))


if __name__ == "__main__":
    {"ours": fill_ours, "peer": fill_peer}[sys.argv[1]]()
