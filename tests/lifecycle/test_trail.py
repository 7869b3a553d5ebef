"""The trail: races leave one winner, tampering is found, the application cannot touch what is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import psycopg
import pytest
from django.db import DatabaseError, connection, transaction
from psycopg import errors

from orders.models import Deal, DealStatus
from tasks_app.lifecycle.errors import StaleVersionError, TransitionError
from tasks_app.lifecycle.models import AuditEntry, OutboxEvent
from tasks_app.lifecycle.transitions import create, transition
from tasks_app.lifecycle.verify import verify_all, verify_entity
from tasks_app.operations.models import Observation
from tests.database import Database, TestServer
from tests.factories import make_deal, make_seller
from tests.lifecycle.entities import make_job, make_operation, trail
from tests.lifecycle.threads import at_once
from tests.rounds import rounds

RACES = rounds(15, 50)


def quoted_deals(count: int) -> list[Deal]:
    """Like the first, but for their names."""
    first = make_deal()
    deals = [first]
    for number in range(1, count):
        deal = Deal.objects.get(pk=first.pk)
        deal.pk, deal.reference = Deal._meta.pk.get_default(), f"DEAL-RACE-{number}"
        deal._state.adding = True
        create(deal, actor="system", reason="A test")
        deals.append(deal)
    return deals


def moving(deal: Deal, to: str, *, actor: str) -> Callable[[], int]:
    mine = Deal.objects.get(pk=deal.pk)
    return lambda: transition(mine, to, actor=actor, reason=f"{actor} says so")


def test_of_two_rivals_exactly_one_wins(committed_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks_app.lifecycle.guards._guards", {})
    winners = []
    for deal in quoted_deals(RACES):
        transition(deal, DealStatus.ACCEPTED, actor="system")
        transition(deal, DealStatus.BOOKING, actor="system")
        answers = at_once(
            moving(deal, DealStatus.BOOKED, actor="agent:seller"),
            moving(deal, DealStatus.FAILED, actor="agent:watchdog"),
        )
        assert {type(answer) for answer in answers} == {int, StaleVersionError}, answers
        won = (DealStatus.BOOKED, DealStatus.FAILED)[[type(a) for a in answers].index(int)]
        stored = Deal.objects.get(pk=deal.pk)
        last = trail(deal)[-1]
        assert (stored.status, stored.version, last.seq, last.to_status) == (won, 4, 4, won)
        assert last.actor == {"booked": "agent:seller", "failed": "agent:watchdog"}[won]
        assert OutboxEvent.objects.filter(entity_id=deal.pk, seq=4).get().type == f"deal.{won}"
        assert verify_entity("deal", deal.pk).ok
        winners.append(won)
    assert len(winners) == RACES


def test_a_rival_that_commits_first_wins_though_we_read_before(committed_db: Database) -> None:
    """The rival at the named point: between our reading and our writing."""
    deal = make_deal()
    with transaction.atomic():
        mine = Deal.objects.get(pk=deal.pk)
        (rival,) = at_once(moving(deal, DealStatus.NEGOTIATING, actor="system"))
        assert rival == 2
        with pytest.raises(StaleVersionError):
            transition(mine, DealStatus.ACCEPTED, actor="system")
    assert [entry.to_status for entry in trail(deal)] == ["quoted", "negotiating"]


def test_verification_is_not_upset_by_a_transition_meanwhile(committed_db: Database) -> None:
    deals = [make_deal(seller=make_seller(f"Seller {n}"), account=False) for n in range(3)]
    found = []
    for pk, verification in verify_all("deal"):
        found.append((pk, verification.ok))
        for deal in deals:
            stored = Deal.objects.get(pk=deal.pk)
            to = DealStatus.QUOTED if stored.status == DealStatus.NEGOTIATING else DealStatus.NEGOTIATING
            transition(stored, to, actor="system")
    assert sorted(found) == sorted((deal.pk, True) for deal in deals)
    assert all(verify_entity("deal", deal.pk).ok for deal in deals)


@pytest.fixture
def owner(committed_db: Database, database_server: TestServer) -> Iterator[psycopg.Connection]:
    """Somebody with every right on the database, who has switched the triggers off."""
    with database_server.connect_admin(committed_db.name) as admin:
        admin.execute("set session_replication_role = replica")
        yield admin


def with_a_trail(deal: Deal) -> Deal:
    transition(deal, DealStatus.NEGOTIATING, actor="agent:buyer", metadata={"try": 1, "exact": True})
    transition(deal, DealStatus.ACCEPTED, actor="system", changes={"valid_actions": {"cpm": 0.1, "n": 1}})
    assert verify_entity("deal", deal.pk).ok
    return deal


ENTRY = "update tasks_app_auditentry set "
# What is done to a trail of three entries, and what verification says of it.
TAMPERED = {
    "a byte of the body": (
        ENTRY + "body = set_byte(body, 40, get_byte(body, 40) # 1) where {second}",
        "do not have its hash",
    ),
    "a name in the body": (
        ENTRY + "body = convert_to(replace(convert_from(body, 'UTF8'), 'agent:buyer', 'agent:other'), 'UTF8')"
        " where {second}",
        "do not have its hash",
    ),
    "body and hash": (
        "with forged as (select id, set_byte(body, 60, get_byte(body, 60) # 1) as body"
        " from tasks_app_auditentry where {second}) update tasks_app_auditentry a"
        " set body = f.body, hash = sha256(f.body) from forged f where a.id = f.id",
        "entry (2|3)",
    ),
    "the hash": (ENTRY + "hash = sha256('') where {second}", "do not have its hash"),
    "the hash before": (ENTRY + "prev_hash = '' where {second}", "does not follow"),
    "who": (ENTRY + "actor = 'system' where {second}", "columns differ"),
    "when": (ENTRY + "at = at + interval '1 microsecond' where {second}", "columns differ"),
    "why": (ENTRY + "reason = reason || ' ' where {second}", "columns differ"),
    "a number, a little": (
        ENTRY + "changes = replace(changes::text, '0.1', '0.10000000000000000001')::jsonb where {third}",
        "columns differ",
    ),
    "true for one": (
        ENTRY + "metadata = replace(metadata::text, '1', 'true')::jsonb where {second}",
        "columns differ",
    ),
    "the trace": (ENTRY + "trace_id = 'other' where {second}", "columns differ"),
    "from": (ENTRY + "from_status = 'accepted' where {second}", "it leaves accepted"),
    "to": (ENTRY + "to_status = 'expired' where {second}", "columns differ"),
    "an entry in the middle": ("delete from tasks_app_auditentry where {second}", "its number is 3"),
    "the last entry": ("delete from tasks_app_auditentry where {third}", "replayed to negotiating in 2"),
    "the first entry": ("delete from tasks_app_auditentry where {first}", "its number is 2"),
    "every entry": ("delete from tasks_app_auditentry where entity_id = '{id}'", "replayed to nothing"),
    "the status alone": ("update orders_deal set status = 'booked' where id = '{id}'", "stored is booked"),
    "the version alone": ("update orders_deal set version = 4 where id = '{id}'", "at 4"),
    "status and last entry": (
        "with gone as (delete from tasks_app_auditentry where {third})"
        " update orders_deal set status = 'negotiating' where id = '{id}'",
        "stored is negotiating at 3",
    ),
}


def test_tampering_is_found(owner: psycopg.Connection) -> None:
    deals = dict(zip(TAMPERED, quoted_deals(len(TAMPERED)), strict=True))
    untouched = with_a_trail(make_deal(seller=make_seller("Another")))
    for what, (statement, problem) in TAMPERED.items():
        deal = with_a_trail(deals[what])
        places = {
            name: f"entity_type = 'deal' and entity_id = '{deal.pk}' and seq = {seq}"
            for seq, name in enumerate(("first", "second", "third"), start=1)
        }
        assert owner.execute(statement.format(id=deal.pk, **places)).rowcount >= 1, what
        verification = verify_entity("deal", deal.pk)
        assert not verification.ok, what
        assert re.search(problem, verification.problem), f"{what}: {verification.problem}"
    assert [pk for pk, verification in verify_all("deal") if verification.ok] == [untouched.pk]


def test_an_entity_that_vanished_is_missed(owner: psycopg.Connection) -> None:
    deal = with_a_trail(make_deal())
    make_job()
    owner.execute("delete from orders_dealline where deal_id = %s", [deal.pk])
    owner.execute("delete from orders_deal where id = %s", [deal.pk])
    ((pk, verification),) = verify_all("deal")
    assert (pk, verification.ok) == (deal.pk, False)
    assert "stored is nothing" in verification.problem
    assert all(v.ok for _, v in verify_all("job"))


def test_the_status_cannot_be_moved_without_its_entry(owner: psycopg.Connection) -> None:
    """The server-side function refuses a chain with a hole, and takes the status back with it."""
    deal = make_deal()
    owner.execute("update orders_deal set version = 5 where id = %s", [deal.pk])
    skipping = Deal.objects.get(pk=deal.pk)
    with pytest.raises(DatabaseError, match="has no entry 5"):
        transition(skipping, DealStatus.ACCEPTED, actor="system")
    assert Deal.objects.get(pk=deal.pk).status == "quoted"


APPEND_ONLY = {"tasks_app_auditentry": "audit_rows", "tasks_app_observation": "observation_rows"}
CHANGES = ("update {0} set id = id", "delete from {0}", "truncate {0}")


def test_the_application_only_appends(committed_db: Database) -> None:
    operation = make_operation()
    Observation.objects.create(operation=operation, channel="reply", kind="answer", digest="")
    ways_out = (
        "alter table {0} disable trigger all",
        "drop table {0}",
        "drop trigger {1} on {0}",
        "drop function fd_append_only() cascade",
        "set session_replication_role = replica",
        "insert into {0} select * from {0} on conflict do nothing; delete from {0}",
    )
    for statement in [s.format(*pair) for s in (*CHANGES, *ways_out) for pair in APPEND_ONLY.items()]:
        with connection.cursor() as cursor, pytest.raises(DatabaseError) as refused:
            cursor.execute(statement)
        assert isinstance(refused.value.__cause__, errors.InsufficientPrivilege), statement
        # By its rights, before any trigger is asked.
        assert "append-only" not in str(refused.value), statement
    assert AuditEntry.objects.exists()
    assert Observation.objects.exists()


def test_the_owner_must_switch_the_triggers_off_first(committed_db: Database) -> None:
    operation = make_operation()
    Observation.objects.create(operation=operation, channel="reply", kind="answer", digest="")
    with psycopg.connect(committed_db.urls.owner, autocommit=True) as owns:
        for statement in [s.format(table) for s in CHANGES for table in APPEND_ONLY]:
            with pytest.raises(errors.InsufficientPrivilege, match="append-only"):
                owns.execute(statement)


def test_of_two_in_one_commit_both_or_neither(committed_db: Database) -> None:
    one, other = make_deal(), make_job()

    @transaction.atomic
    def both() -> None:
        transition(one, DealStatus.ACCEPTED, actor="system")
        transition(other, "COMPLETED", actor="system")

    with pytest.raises(TransitionError):
        both()
    assert Deal.objects.get(pk=one.pk).status == "quoted"
    assert len(trail(one)) == 1
