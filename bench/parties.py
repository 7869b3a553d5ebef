"""One process of a party of `bench.transitions`: it reads orders from its input, answers with JSON lines.

`python -m bench.parties PARTY NUMBER`. Orders: `run SECONDS` walks its own deals quoted → negotiating →
quoted for that long, `changes SECONDS` does it with two columns that move with the status, `many` moves the
10,000 rows of the set-based case once. The parties do the same job, one audited status change in one commit,
each in its own way.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import cycle
from typing import Any, Protocol
from uuid import UUID

# Deals of each process, and of the set-based case; they differ in their zone alone.
OWN = 500
MANY = 10_000
MANY_ZONE = "UTC"
QUOTED, NEGOTIATING = "quoted", "negotiating"
REASON = {QUOTED: "A counter-offer came", NEGOTIATING: "The buyer opens negotiation"}
_WARM = 1000


class Party(Protocol):
    """Moves one deal of its own to the other of the two statuses, in a commit of its own."""

    def deals(self) -> list[Any]: ...

    def move(self, deal: Any) -> None: ...


class Ours:
    """`transition()` as the application's role, everything on."""

    def __init__(self, number: int) -> None:
        django_ours()
        self._number = number

    def deals(self) -> list[Any]:
        from orders.models import Deal

        return list(Deal.objects.filter(zone=zone_of(self._number)))

    def move(self, deal: Any) -> None:
        from tasks_app.lifecycle.transitions import transition

        transition(deal, other(deal.status), actor="agent:bench", reason=REASON[other(deal.status)])

    def change(self, deal: Any) -> None:
        from tasks_app.lifecycle.transitions import transition

        to, changes = other(deal.status), {"revision": deal.version, "media_buy_status": deal.status}
        transition(deal, to, actor="agent:bench", reason=REASON[to], changes=changes)

    def many(self) -> int:
        from orders.models import Deal
        from tasks_app.lifecycle.transitions import transition_many

        rows = Deal.objects.filter(zone=MANY_ZONE)
        status = rows.values_list("status", flat=True)[0]
        return transition_many(rows, other(status), actor="agent:bench")


class Reference:
    """psycopg with prepared statements, no triggers: the statements one by one, in one transaction."""

    LOCK = "select status, version from reference.deal where id = %s for no key update"
    MOVE = "update reference.deal set status = %s, version = %s, status_since = %s where id = %s"
    LOCK_CHANGED = (
        "select status, version, revision, media_buy_status from reference.deal where id = %s"
        " for no key update"
    )
    MOVE_CHANGED = (
        "update reference.deal set status = %s, version = %s, status_since = %s, revision = %s,"
        " media_buy_status = %s where id = %s"
    )
    LAST = "select hash from reference.audit where entity_type = 'deal' and entity_id = %s and seq = %s"
    ENTRY = (
        "insert into reference.audit (entity_type, entity_id, seq, from_status, to_status, at, actor, reason,"
        " metadata, changes, trace_id, format_version, body, prev_hash, hash)"
        " values ('deal', %s, %s, %s, %s, %s, %s, %s, '{}', %s, '', 1, %s, %s, %s)"
    )
    EVENT = (
        "insert into reference.outbox (type, entity_type, entity_id, seq, payload, at)"
        " values (%s, 'deal', %s, %s, %s, %s)"
    )

    def __init__(self, number: int) -> None:
        import psycopg

        self._number = number
        self._connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
        self._cursor = self._connection.cursor()

    def deals(self) -> list[Any]:
        self._cursor.execute(
            "select id, status, version from reference.deal where zone = %s", [zone_of(self._number)]
        )
        return [list(row) for row in self._cursor.fetchall()]

    def move(self, deal: list[Any]) -> None:
        (pk, frm, version), to = deal, other(deal[1])
        run = self._cursor.execute
        with self._connection.transaction():
            if run(self.LOCK, [pk], prepare=True).fetchone() != (frm, version):
                raise RuntimeError("somebody else moved it")
            at = datetime.now(UTC)
            run(self.MOVE, [to, version + 1, at, pk], prepare=True)
            self._record(deal, to, at, "{}")
        deal[1:] = to, version + 1

    def change(self, deal: list[Any]) -> None:
        (pk, frm, version), to = deal, other(deal[1])
        run = self._cursor.execute
        with self._connection.transaction():
            found = run(self.LOCK_CHANGED, [pk], prepare=True).fetchone()
            if found is None or found[:2] != (frm, version):
                raise RuntimeError("somebody else moved it")
            at = datetime.now(UTC)
            run(self.MOVE_CHANGED, [to, version + 1, at, version, frm, pk], prepare=True)
            changes = {"revision": [found[2], version], "media_buy_status": [found[3], frm]}
            self._record(deal, to, at, json.dumps(changes))
        deal[1:] = to, version + 1

    def _record(self, deal: list[Any], to: str, at: datetime, changes: str) -> None:
        """The entry, chained to the one before, and the event."""
        (pk, frm, version), run = deal, self._cursor.execute
        (previous,) = run(self.LAST, [pk, version], prepare=True).fetchone() or (b"",)
        body = entry_body(pk, version + 1, frm, to, at, previous, changes)
        digest = hashlib.sha256(body).digest()
        entry = [pk, version + 1, frm, to, at, "agent:bench", REASON[to], changes, body, previous, digest]
        run(self.ENTRY, entry, prepare=True)
        payload = json.dumps({"from": frm, "to": to, "actor": "agent:bench"})
        run(self.EVENT, [f"deal.{to}", pk, version + 1, payload, at], prepare=True)


class FsmLog:
    """django-fsm-2 with django-fsm-log, in one transaction: no chain, no event, no check in the database."""

    def __init__(self, number: int) -> None:
        django_peer()
        self._number = number

    def deals(self) -> list[Any]:
        from bench.fsm_log.models import Deal

        first = self._number * OWN
        return list(Deal.objects.order_by("pk")[first : first + OWN])

    def move(self, deal: Any) -> None:
        from django.db import transaction

        to = other(deal.status)
        with transaction.atomic():
            (deal.negotiate if to == NEGOTIATING else deal.requote)(description=REASON[to])
            deal.version += 1
            deal.status_since = datetime.now(UTC)
            deal.save(update_fields=["status", "version", "status_since"])


PARTIES: dict[str, Callable[[int], Party]] = {"ours": Ours, "reference": Reference, "fsm_log": FsmLog}


def main() -> int:
    name, number = sys.argv[1], int(sys.argv[2])
    party = PARTIES[name](number)
    deals = cycle(party.deals())
    for _ in range(_WARM):
        party.move(next(deals))
    _answer({"ready": name})
    for order in sys.stdin:
        command, *rest = order.split()
        if command == "run":
            _answer(_run(party.move, deals, float(rest[0])))
        elif command == "changes":
            _answer(_run(party.change, deals, float(rest[0])))  # type: ignore[attr-defined]  # not the peer
        elif command == "many":
            _answer(_timed(party.many))  # type: ignore[attr-defined]  # ours alone is asked
    return 0


def _run(move: Callable[[Any], None], deals: Iterator[Any], seconds: float) -> dict[str, float]:
    def walk() -> int:
        moves, until = 0, time.perf_counter() + seconds
        while time.perf_counter() < until:
            move(next(deals))
            moves += 1
        return moves

    return _timed(walk)


def _timed(work: Callable[[], int]) -> dict[str, float]:
    began = time.perf_counter()
    moves = work()
    return {"moves": moves, "seconds": time.perf_counter() - began}


def _answer(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def other(status: str) -> str:
    return NEGOTIATING if status == QUOTED else QUOTED


def zone_of(number: int) -> str:
    """What marks the deals of one process."""
    return f"Etc/GMT+{number + 1}"


def entry_body(pk: UUID, seq: int, frm: str, to: str, at: datetime, previous: bytes, changes: str) -> bytes:
    """The bytes that are hashed, as fd_audit_append makes them."""
    micros = int(at.timestamp()) * 1_000_000 + at.microsecond
    fields = ("1", "deal", str(pk), str(seq), frm, to, str(micros), "agent:bench", REASON[to])
    everything = (*fields, "{}", changes, "", previous.hex())
    return "".join(f"{len(text.encode())}:{text}," for text in everything).encode()


def django_ours() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()


def django_peer() -> None:
    """The peer in a Django of its own, with a connection that stays open."""
    import django
    import environ
    from django.conf import settings

    database = {**environ.Env.db_url_config(os.environ["PEER_DATABASE_URL"]), "CONN_MAX_AGE": None}
    settings.configure(
        DATABASES={"default": database},
        INSTALLED_APPS=[
            "django.contrib.contenttypes",
            "django.contrib.auth",
            "django_fsm_log",
            "bench.fsm_log",
        ],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
    )
    django.setup()


if __name__ == "__main__":
    sys.exit(main())
