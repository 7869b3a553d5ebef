"""Status changes a second with audit, event and rules on: `make bench-transitions`.

Three parties make the same move, one commit each, in turn, in short slices: `transition()` as the
application's role; psycopg with prepared statements and without any rule, statement by statement; django-
fsm-2 with django-fsm-log. Each runs in a process of its own and walks its own deals between `quoted` and
`negotiating`.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import cycle
from typing import Any
from uuid import UUID

import psycopg

from bench import child, data, server
from bench.figures import ROUNDS, Figures

_SLICES, _SLICE_S = 16, 0.3  # of each party in a round
_DEALS, _WARM = 500, 1000
_MOVES = {"quoted": "negotiating", "negotiating": "quoted"}
_REASON = "A bench"
# The same tables without triggers, foreign keys and checks, with the same rows.
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
_LOCK = "select status, version from reference.deal where id = %s for no key update"
_LAST = "select hash from reference.audit where entity_type = 'deal' and entity_id = %s and seq = %s"
_MOVE = "update reference.deal set status = %s, version = %s, status_since = %s where id = %s"
_ENTRY = """
insert into reference.audit (entity_type, entity_id, seq, from_status, to_status, at, actor, reason, metadata,
                             changes, trace_id, format_version, body, prev_hash, hash)
values ('deal', %s, %s, %s, %s, %s, 'agent:bench', %s, '{}', '{}', '', 1, %s, %s, %s)
"""
_EVENT = """
insert into reference.outbox (type, entity_type, entity_id, seq, payload, at)
values (%s, 'deal', %s, %s, %s, %s)
"""


def main() -> int:
    """Measure all parties in turn."""
    figures = Figures()
    with server.opened("bench") as on, ExitStack() as closing:
        on.run("-m", "bench.transitions", "fill")
        with psycopg.connect(on.running.urls.owner, autocommit=True) as owner:
            owner.execute(_REFERENCE)
            owner.execute("vacuum analyze")
        env = {**on.env, "PEER_DATABASE_URL": on.database("fsm_log")}
        parties = {
            name: closing.enter_context(child.Child("bench.transitions", name, env=env)) for name in _PARTIES
        }
        for number in range(ROUNDS):
            _round(parties, number, figures)
    figures.tell("ratio_1", "fsm_log_ratio_1", "ours_per_s")
    return 0


def _round(parties: dict[str, child.Child], number: int, figures: Figures) -> None:
    moves = dict.fromkeys(parties, 0)
    for turn in range(number, number + _SLICES):
        names = list(parties)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            moves[name] += parties[name].ask("run", _SLICE_S)
    for name, count in moves.items():
        figures.add(f"{name}_per_s", count / (_SLICES * _SLICE_S))
    figures.add("ratio_1", moves["ours"] / moves["reference"])
    figures.add("fsm_log_ratio_1", moves["ours"] / moves["fsm_log"])


def fill() -> None:
    """Create the deals that both sides walk."""
    server.django_setup()
    advertiser = data.create_advertiser()
    data.create_deals(data.create_account(advertiser, data.create_seller("bench")), _DEALS, prefix="BENCH")


def ours() -> Callable[[], None]:
    """Return what makes the next move, by `transition()`."""
    server.django_setup()
    from orders.models import Deal
    from tasks_app.lifecycle.transitions import transition

    deals = cycle(Deal.objects.order_by("pk"))

    def move() -> None:
        deal = next(deals)
        transition(deal, _MOVES[deal.status], actor="agent:bench", reason=_REASON)

    return move


def reference() -> Callable[[], None]:
    """Return what makes the next move, statement by statement."""
    connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    cursor = connection.cursor()
    cursor.execute("select id, status, version from reference.deal order by id")
    deals = cycle([list(row) for row in cursor.fetchall()])

    def run(statement: str, *values: object) -> psycopg.Cursor[Any]:
        return cursor.execute(statement.encode(), values, prepare=True)

    def move() -> None:
        deal = next(deals)
        pk, status, version = deal
        to, at = _MOVES[status], datetime.now(UTC)
        with connection.transaction():
            if run(_LOCK, pk).fetchone() != (status, version):
                raise SystemExit("somebody else moved the deal")
            (previous,) = run(_LAST, pk, version).fetchone() or (b"",)
            body = _body(pk, version + 1, status, to, at, previous)
            run(_MOVE, to, version + 1, at, pk)
            digest = hashlib.sha256(body).digest()
            run(_ENTRY, pk, version + 1, status, to, at, _REASON, body, previous, digest)
            payload = json.dumps({"from": status, "to": to, "actor": "agent:bench"})
            run(_EVENT, f"deal.{to}", pk, version + 1, payload, at)
        deal[1:] = to, version + 1

    return move


def fsm_log() -> Callable[[], None]:
    """Return what makes the next move, by django-fsm-2 and django-fsm-log in one transaction."""
    import django
    import environ
    from django.conf import settings

    database = {**environ.Env.db_url_config(os.environ["PEER_DATABASE_URL"]), "CONN_MAX_AGE": None}
    apps = ["django.contrib.contenttypes", "django.contrib.auth", "django_fsm_log", "bench.fsm_log"]
    field = "django.db.models.BigAutoField"
    settings.configure(
        DATABASES={"default": database}, INSTALLED_APPS=apps, DEFAULT_AUTO_FIELD=field, USE_TZ=True
    )
    django.setup()
    from django.core.management import call_command
    from django.db import transaction

    from bench.fsm_log.models import Deal

    call_command("migrate", run_syncdb=True, verbosity=0)
    deals = cycle(Deal.objects.bulk_create(Deal(status_since=datetime.now(UTC)) for _ in range(_DEALS)))

    def move() -> None:
        deal = next(deals)
        with transaction.atomic():
            (deal.negotiate if deal.status == "quoted" else deal.requote)(description=_REASON)
            deal.version += 1
            deal.status_since = datetime.now(UTC)
            deal.save(update_fields=["status", "version", "status_since"])

    return move


_PARTIES: dict[str, Callable[[], Callable[[], None]]] = {
    "ours": ours,
    "reference": reference,
    "fsm_log": fsm_log,
}


def _body(pk: UUID, seq: int, status: str, to: str, at: datetime, previous: bytes) -> bytes:
    """Return the bytes that are hashed, as `fd_body` makes them."""
    micros = str(int(at.timestamp()) * 1_000_000 + at.microsecond)
    fields = ("1", "deal", str(pk), str(seq), status, to, micros, "agent:bench", _REASON, "{}", "{}", "")
    return "".join(f"{len(text)}:{text}," for text in (*fields, previous.hex())).encode()


def _serve(move: Callable[[], None]) -> None:
    for _ in range(_WARM):
        move()

    def run(seconds: float) -> int:
        moves, until = 0, time.perf_counter() + seconds
        while time.perf_counter() < until:
            move()
            moves += 1
        return moves

    child.serve({"run": run})


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(main())
    fill() if sys.argv[1] == "fill" else _serve(_PARTIES[sys.argv[1]]())
