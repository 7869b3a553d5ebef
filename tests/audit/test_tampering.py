"""Whatever a superuser changes in a stored entry is found; a consistent rewriting, by an anchor alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
import structlog
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql
from psycopg.types.json import Jsonb

from orders.models import Deal
from tasks_app.lifecycle.imports import create_imported, import_record
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity, verify_trail
from tests.audit.trails import deal_with_trail, rehash, rewrite
from tests.commands.running import Ran, call
from tests.database import Database
from tests.factories import make_deal, make_seller
from tests.rounds import rounds

pytestmark = pytest.mark.all_cases

# The row's own key is a handle that nothing refers to; it says nothing.
COLUMNS = sorted(field.column for field in AuditEntry._meta.fields if field.column != "id")


def verified(*arguments: str) -> Ran:
    return call("verify_audit", "--json", *arguments)


def flipped(value: bytes, at: int, bit: int) -> bytes:
    """One bit of one byte changed; of nothing, a byte more."""
    if not value:
        return bytes([bit])
    place = at % len(value)
    return value[:place] + bytes([value[place] ^ (1 << bit)]) + value[place + 1 :]


def other_text(value: str, at: int, bit: int) -> str:
    """One character changed; of nothing, a character more."""
    if not value:
        return "x"
    place = at % len(value)
    return value[:place] + chr(0x100 + bit) + value[place + 1 :]


CHANGED: dict[type, Callable[[Any, int, int], Any]] = {
    bytes: flipped,
    str: other_text,
    int: lambda value, at, bit: value + 1 + at % 7,
    UUID: lambda value, at, bit: UUID(bytes=flipped(value.bytes, at, bit)),
    datetime: lambda value, at, bit: value + timedelta(microseconds=at + 1),
    dict: lambda value, at, bit: Jsonb({**value, "more": at}),
}


@contextmanager
def put_back(admin: psycopg.Connection) -> Iterator[None]:
    """Afterwards every entry is what it was."""
    admin.execute("create temporary table if not exists kept as table tasks_app_auditentry")
    try:
        yield
    finally:
        admin.execute("delete from tasks_app_auditentry")
        admin.execute("insert into tasks_app_auditentry overriding system value table kept")


@settings(
    max_examples=rounds(60, 200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    seq=st.integers(1, 3),
    column=st.sampled_from(COLUMNS),
    at=st.integers(0, 10_000),
    bit=st.integers(0, 7),
)
def test_any_change_of_any_column_is_found(
    superuser: psycopg.Connection, seq: int, column: str, at: int, bit: int
) -> None:
    if not Deal.objects.exists():
        deal_with_trail()
        make_deal(seller=make_seller("Another"))
        # Somebody with every right would take this out of his way, too.
        superuser.execute("alter table tasks_app_auditentry drop constraint audit_once_per_version")
    deal = Deal.objects.get(version=3)
    where = sql.SQL(" from tasks_app_auditentry where entity_id = %s and seq = %s")
    row = superuser.execute(
        sql.SQL("select id, {}").format(sql.Identifier(column)) + where, [deal.pk, seq]
    ).fetchone()
    assert row is not None
    with put_back(superuser):
        superuser.execute(
            sql.SQL("update tasks_app_auditentry set {} = %s where id = %s").format(sql.Identifier(column)),
            [CHANGED[type(row[1])](row[1], at, bit), row[0]],
        )
        ran = verified()
        assert ran.code == 1, (column, ran.out)
        assert str(deal.pk) in {found["id"] for found in ran.json["problems"]}
    assert verified().code == 0


BYTES = ("body", "hash", "prev_hash")
LETTERS = ("from_status", "to_status", "actor", "reason", "trace_id")


def test_every_single_byte_counts(superuser: psycopg.Connection) -> None:
    """Not places by chance: each byte of what is hashed, of the hashes, each letter of the columns."""
    with structlog.contextvars.bound_contextvars(request_id="req-7"):
        deal = deal_with_trail()
    tried = 0
    for entry in AuditEntry.objects.filter(entity_id=deal.pk):
        for column in (*BYTES, *LETTERS):
            value = getattr(entry, column)
            change = other_text if isinstance(value, str) else flipped
            held = value if isinstance(value, str) else bytes(value)
            for place in range(max(1, len(held))):
                _put(superuser, entry, column, change(held, place, place % 8))
                assert not verify_entity("deal", deal.pk).ok, (entry.seq, column, place)
                tried += 1
            _put(superuser, entry, column, held)
    assert verify_entity("deal", deal.pk).ok
    assert tried > 3 * 200


def _put(admin: psycopg.Connection, entry: AuditEntry, column: str, value: object) -> None:
    statement = sql.SQL("update tasks_app_auditentry set {} = %s where id = %s")
    admin.execute(statement.format(sql.Identifier(column)), [value, entry.pk])


def test_what_is_wrong_is_named_with_the_first_entry(superuser: psycopg.Connection) -> None:
    deal = deal_with_trail()
    superuser.execute("update tasks_app_auditentry set actor = 'agent:x', reason = '' where seq >= 2")
    (found,) = verified().json["problems"]
    assert found == {
        "entity": "deal",
        "id": str(deal.pk),
        "entry": 2,
        "problem": "entry 2: its columns differ from its bytes: actor, reason",
    }


def test_a_column_emptied_against_the_schema_is_found(superuser: psycopg.Connection) -> None:
    deal = deal_with_trail()
    for column in COLUMNS:
        if column in ("entity_type", "entity_id"):
            continue
        with put_back(superuser):
            name = sql.Identifier(column)
            superuser.execute(sql.SQL("alter table tasks_app_auditentry alter {} drop not null").format(name))
            superuser.execute(sql.SQL("update tasks_app_auditentry set {} = null where seq = 2").format(name))
            assert verified().code == 1, column
            assert not verify_entity("deal", deal.pk).ok, column


def test_entries_of_a_kind_that_nobody_knows_are_found(superuser: psycopg.Connection) -> None:
    make_deal()
    superuser.execute(
        "insert into tasks_app_auditentry (entity_type, entity_id, seq, from_status, to_status, at, actor,"
        " reason, metadata, changes, trace_id, format_version, body, prev_hash, hash)"
        " select 'invoice', entity_id, seq, from_status, to_status, at, actor, reason, metadata, changes,"
        " trace_id, format_version, body, prev_hash, hash from tasks_app_auditentry limit 1"
    )
    (found,) = verified().json["problems"]
    assert found["entity"] == "invoice"


def test_an_entity_without_a_trail_is_found(superuser: psycopg.Connection) -> None:
    deal = make_deal()
    superuser.execute("delete from tasks_app_auditentry")
    for arguments in ((), ("--entity", "deal"), ("--entity", f"deal:{deal.reference}")):
        (found,) = verified(*arguments).json["problems"]
        assert found["problem"] == "replayed to nothing in 0 entries, stored is quoted at 1"


def test_a_move_that_is_not_declared_is_found_in_a_perfect_chain(superuser: psycopg.Connection) -> None:
    deal = deal_with_trail()
    rewrite(superuser, deal, seq=3, to_status="completed")
    superuser.execute("update orders_deal set status = 'completed'")
    (found,) = verified().json["problems"]
    assert found["problem"] == "entry 3: negotiating → completed is no declared edge"


@pytest.mark.parametrize("nobody", ["nobody", "", "human:"])
def test_a_move_by_nobody_is_found_in_a_perfect_chain(superuser: psycopg.Connection, nobody: str) -> None:
    rewrite(superuser, deal_with_trail(), seq=2, actor=nobody)
    (found,) = verified().json["problems"]
    assert found["problem"] == f"entry 2: {nobody!r} is no actor"


def test_an_entry_rewritten_consistently_is_found_by_the_next(superuser: psycopg.Connection) -> None:
    """Each entry for itself agrees with its bytes and hash: it is the link that tells."""
    deal = deal_with_trail()
    rewrite(superuser, deal, seq=2, only=True, actor="agent:other")
    (found,) = verified().json["problems"]
    assert (found["entry"], found["problem"]) == (3, "entry 3: it does not follow the entry before")
    assert verify_entity("deal", deal.pk).problem == found["problem"]


def test_a_recorded_import_begins_where_it_likes(committed_db: Database) -> None:
    deal = make_deal()
    columns = {field.attname: getattr(deal, field.attname) for field in Deal._meta.concrete_fields}
    legacy = Deal(**{**columns, "id": Deal._meta.pk.get_default(), "reference": "DEAL-X", "status": "booked"})
    with transaction.atomic():
        row = import_record(source="legacy.db", actor="system", rows=1)
        create_imported(legacy, actor="system", reason="Imported", import_row=row)
    assert verified().code == 0
    assert verify_entity("deal", legacy.pk).ok


def anchored(path: str) -> list[str]:
    """The problems that comparing with an anchor finds, after verification alone found none."""
    assert verified().code == 0
    return [found["problem"] for found in verified("--anchor", path).json["problems"]]


REWRITTEN: dict[str, tuple[Callable[[psycopg.Connection, Deal], object], str]] = {
    "an entry in the middle, and every hash after it": (
        lambda admin, deal: rewrite(admin, deal, seq=2, actor="agent:other"),
        "entry 3: it had another hash when it was anchored",
    ),
    "the last entry": (
        lambda admin, deal: rewrite(admin, deal, seq=3, reason="Another"),
        "entry 3: it had another hash when it was anchored",
    ),
    "the last entry taken away": (
        lambda admin, deal: (
            admin.execute("delete from tasks_app_auditentry where entity_id = %s and seq = 3", [deal.pk]),
            admin.execute(
                "update orders_deal set status = 'negotiating', version = 2 where id = %s", [deal.pk]
            ),
        ),
        "2 entries, there were 3 when it was anchored",
    ),
    "the entity and all its entries": (
        lambda admin, deal: (
            admin.execute("delete from tasks_app_auditentry where entity_id = %s", [deal.pk]),
            admin.execute("delete from orders_dealline where deal_id = %s", [deal.pk]),
            admin.execute("delete from orders_deal where id = %s", [deal.pk]),
        ),
        "no entries, there were 3 when it was anchored",
    ),
}


@pytest.mark.parametrize("what", REWRITTEN)
def test_a_consistent_rewriting_shows_against_an_anchor_alone(
    superuser: psycopg.Connection, anchor_key: Any, tmp_path: Any, what: str
) -> None:
    deal, kept = deal_with_trail(), str(tmp_path / "anchor.jsonl")
    assert call("audit_anchor", "--out", kept).code == 0
    assert anchored(kept) == []
    rewriting, problem = REWRITTEN[what]

    rewriting(superuser, deal)

    assert anchored(kept) == [problem]
    assert verified("--anchor", kept).code == 1
    (found,) = verified("--anchor", kept, "--entity", f"deal:{deal.pk}").json["problems"]
    assert (found["id"], found["problem"]) == (str(deal.pk), problem)


def test_what_was_added_since_needs_no_anchor(
    superuser: psycopg.Connection, anchor_key: Any, tmp_path: Any
) -> None:
    """A rewriting of what came after the anchor is not shown by it: anchor often."""
    kept = str(tmp_path / "anchor.jsonl")
    call("audit_anchor", "--out", kept)
    deal = deal_with_trail()
    assert anchored(kept) == []
    rewrite(superuser, deal, seq=3, reason="Another")
    assert anchored(kept) == []


def test_a_broken_trail_is_not_anchored(
    superuser: psycopg.Connection, anchor_key: Any, tmp_path: Any
) -> None:
    deal_with_trail()
    superuser.execute("update tasks_app_auditentry set reason = '' where seq = 3")
    ran = call("audit_anchor", "--json", "--out", str(tmp_path / "anchor.jsonl"))
    assert ran.code == 1
    assert "nothing was signed" in json.loads(ran.out)["error"]
    assert not (tmp_path / "anchor.jsonl").exists()


def test_a_chain_made_consistent_again_verifies(superuser: psycopg.Connection) -> None:
    """That is why there are anchors; and it shows that the tests above rewrite well."""
    deal = deal_with_trail()
    before = [bytes(entry.hash) for entry in AuditEntry.objects.order_by("seq")]
    rehash(superuser, deal)
    assert [bytes(entry.hash) for entry in AuditEntry.objects.order_by("seq")] == before
    rewrite(superuser, deal, seq=1, reason="Another")
    assert [found.verification.ok for found in verify_trail()] == [True]
    assert all(bytes(e.hash) not in before for e in AuditEntry.objects.all())


FORGED = {
    "an entry before the first": ("deal", 0, "system"),
    "an entry of no entity": ("invoice", 1, "system"),
    "an entry under a name that is no actor's": ("deal", 2, "nobody"),
    "an entry that follows nothing": ("deal", 2, "system"),
}


@pytest.mark.parametrize("what", FORGED)
def test_an_entry_put_in_with_every_right_is_found(superuser: psycopg.Connection, what: str) -> None:
    """The application cannot even try (tests/enforcement/test_forgery.py)."""
    deal, (kind, seq, actor) = make_deal(), FORGED[what]
    superuser.execute("update orders_deal set status = 'accepted', version = 2 where %s = 2", [seq])
    superuser.execute(
        "insert into tasks_app_auditentry (entity_type, entity_id, seq, from_status, to_status, at,"
        " actor, reason, metadata, changes, trace_id, format_version, body, prev_hash, hash)"
        " values (%s, %s, %s, 'quoted', 'accepted', now(), %s, 'Forged', '{}', '{}', '', 1, 'x', '',"
        " sha256('x'))",
        [kind, deal.pk, seq, actor],
    )
    assert verified().code == 1
