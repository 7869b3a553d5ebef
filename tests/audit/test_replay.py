"""What an entity was at any moment, from its trail alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from orders.models import Deal, DealStatus
from tasks_app import clock
from tasks_app.lifecycle.replay import Known, entity_at
from tasks_app.lifecycle.transitions import transition
from tests.audit.trails import deal_with_trail
from tests.commands.running import call
from tests.database import Database
from tests.factories import make_deal

D = DealStatus
BEGIN = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def at(hours: float) -> Callable[[], datetime]:
    return lambda: BEGIN + hours * HOUR


@pytest.fixture
def deal(committed_db: Database) -> Deal:
    """Quoted at 9, negotiating at 10, accepted at 11, cancelled at 12."""
    with clock.injected(at(0)):
        deal = make_deal()
    moves = (
        (D.NEGOTIATING, "agent:buyer", {"valid_actions": {"cpm": 1}}),
        (D.ACCEPTED, "system", {"valid_actions": {"cpm": 2}}),
        (D.CANCELLED, "agent:seller", {}),
    )
    for hours, (to, actor, changes) in enumerate(moves, start=1):
        with clock.injected(at(hours)):
            transition(deal, to, actor=actor, reason=f"at {hours}", changes=changes or None)
    return deal


def test_every_moment_is_told(deal: Deal) -> None:
    told = [
        (-1, "", 0, ""), (0, "quoted", 1, None), (0.5, "quoted", 1, None),
        (1, "negotiating", 2, "agent:buyer"), (1.9, "negotiating", 2, "agent:buyer"),
        (2, "accepted", 3, "system"), (2.5, "accepted", 3, "system"),
        (3, "cancelled", 4, "agent:seller"), (99, "cancelled", 4, "agent:seller"),
    ]  # fmt: skip
    for hours, status, seq, actor in told:
        state = entity_at("deal", deal.pk, at=at(hours)())
        assert (state.status, state.seq) == (status, seq), hours
        assert state.verification.ok
        if actor is not None:
            assert state.actor == actor
        if seq:
            assert state.since == BEGIN + (seq - 1) * HOUR
    assert entity_at("deal", deal.pk) == entity_at("deal", deal.pk, at=at(99)())


def test_columns_are_told_as_far_as_they_are_known(deal: Deal) -> None:
    first = entity_at("deal", deal.pk, at=at(0)()).columns["valid_actions"]
    assert (first.seq, first.later) == (2, True)
    assert entity_at("deal", deal.pk, at=at(1)()).columns["valid_actions"] == Known(value={"cpm": 1}, seq=2)
    assert entity_at("deal", deal.pk, at=at(2)()).columns["valid_actions"] == Known(value={"cpm": 2}, seq=3)


def test_only_what_holds_of_a_broken_trail_is_told(deal: Deal, superuser: psycopg.Connection) -> None:
    superuser.execute("update tasks_app_auditentry set body = 'x' where seq = 3")
    state = entity_at("deal", deal.pk)
    assert (state.status, state.seq) == ("negotiating", 2)
    assert state.verification.broken_at == 3
    ran = call("replay", "deal", deal.reference, "--json")
    assert (ran.code, ran.json["status"], ran.json["verified"]) == (1, "negotiating", False)


def test_the_trail_is_asked_not_the_row(superuser: psycopg.Connection) -> None:
    deal = deal_with_trail()
    superuser.execute("delete from orders_dealline")
    superuser.execute("delete from orders_deal")
    ran = call("replay", "deal", str(deal.pk), "--json")
    assert (ran.code, ran.json["status"], ran.json["entry"]) == (1, "accepted", 3)
    assert "stored is nothing" in ran.json["problem"]


def test_the_command_tells_a_person(deal: Deal) -> None:
    ran = call("replay", "deal", deal.reference, "--at", "2026-11-20T10:30:00")
    assert ran.code == 0
    assert "status  negotiating" in ran.out
    assert "by      agent:buyer" in ran.out
    assert '{"cpm": 1}' in ran.out
    before = call("replay", "deal", deal.reference, "--at", "2026-11-20T09:30:00+02:00")
    assert before.code == 0
    assert "did not exist yet" in before.out


def test_what_cannot_be_asked_is_refused(deal: Deal) -> None:
    for arguments in (
        ("invoice", "1"),
        ("deal", "DEAL-1999-000001"),
        ("deal", "019a0000-0000-7000-8000-000000000000"),
        ("job", deal.reference),
        ("deal", deal.reference, "--at", "yesterday"),
        ("deal", deal.reference, "--at", "2026-13-40T10:00:00Z"),
    ):
        assert call("replay", *arguments, "--json").code == 2, arguments
