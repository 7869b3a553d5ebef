"""A report of what was decided together: kept as it goes, for who decided, each in its own commit."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, OperationalError, connection, transaction

from tasks_app import ids
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.records import DecisionBatch, DecisionBatchItem
from tasks_app.approvals.together import MOST, batch_decide, batch_of, report_of
from tests.approvals.conftest import Desk
from tests.database import Database
from tests.factories import make_team, make_user
from tests.owning import as_the_product

db = pytest.mark.django_db


def shown(*approvals: Approval) -> dict[Any, str]:
    return {one.pk: one.evidence_digest for one in approvals}


@db
def test_each_is_reported_as_it_ended(desk: Desk) -> None:
    user = make_user("Approver")
    good, own = desk.ask(subject_id=ids.new_id()), desk.ask(subject_id=ids.new_id(), requested_by=user)
    theirs = desk.ask(subject_id=ids.new_id(), team=make_team("Elsewhere"))
    nothing = ids.new_id()
    wanted = {**shown(good, own, theirs), nothing: "0" * 64}

    batch = batch_decide(shown=wanted, user=user, verdict="approve", comment="All fine")

    report = report_of(batch, user)
    assert [(one.approval_id, one.code) for one in report] == [
        (good.pk, ""),
        (own.pk, "own_request"),
        (theirs.pk, "not_found"),
        (nothing, "not_found"),
    ]
    assert [one.approval for one in report] == [good, own, None, None], "others' are not shown"
    assert Decision.objects.get().comment == "All fine"
    assert batch_of(user, batch.pk) == batch
    assert batch_of(make_user("Administrator"), batch.pk) is None


@db
def test_without_a_digest_nothing_was_shown(desk: Desk) -> None:
    approval = desk.ask()
    batch = batch_decide(shown={approval.pk: ""}, user=make_user("Approver"), verdict="approve")
    assert [item.code for item in batch.items.all()] == ["digest"]
    assert not Decision.objects.exists()


@db
@pytest.mark.parametrize(("count", "verdict"), [(0, "approve"), (MOST + 1, "approve"), (1, "maybe")])
def test_a_batch_is_of_so_many_and_says_a_verdict(desk: Desk, count: int, verdict: str) -> None:
    with pytest.raises(ValueError):
        batch_decide(
            shown={ids.new_id(): "x" for _ in range(count)}, user=make_user("Approver"), verdict=verdict
        )
    assert not DecisionBatch.objects.exists()


def test_what_was_not_reached_is_said(
    committed_db: Database, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks_app.approvals.together.connection_lost", lambda: True)
    user = make_user("Approver")
    approvals = [desk.ask(subject_id=ids.new_id()) for _ in range(3)]

    def away() -> None:
        if Decision.objects.count() == 2:
            raise OperationalError("the connection is lost")

    desk.effect = away
    with pytest.raises(OperationalError):
        batch_decide(shown=shown(*approvals), user=user, verdict="approve")

    report = report_of(DecisionBatch.objects.get(), user)
    assert [one.code for one in report] == ["", "not_reached", "not_reached"]
    assert Decision.objects.get().approval == approvals[0]


def test_one_that_somebody_else_holds_too_long_is_refused_and_the_others_are_decided(
    committed_db: Database, desk: Desk
) -> None:
    user = make_user("Approver")
    held, free = desk.ask(subject_id=ids.new_id()), desk.ask(subject_id=ids.new_id())
    with psycopg.connect(committed_db.urls.app) as other, connection.cursor() as cursor:
        other.execute("select from tasks_app_approval where id = %s for no key update", [held.pk])
        cursor.execute("set lock_timeout = '200ms'")
        batch = batch_decide(shown=shown(held, free), user=user, verdict="approve")
        cursor.execute("reset lock_timeout")

    refused, recorded = report_of(batch, user)
    assert (refused.approval_id, refused.code) == (held.pk, "impossible")
    assert "decide again" in refused.message
    assert (recorded.approval_id, recorded.code, recorded.left) == (free.pk, "", "approved")
    again = batch_decide(shown=shown(held), user=user, verdict="approve")
    assert [one.code for one in report_of(again, user)] == [""]


@db
@pytest.mark.parametrize(("error", "again"), [("deadlock_detected", True), ("disk_full", False)])
def test_one_that_the_database_fails_is_refused_and_the_others_are_decided(
    desk: Desk, error: str, again: bool
) -> None:
    """To decide again helps where somebody else was at it, and nowhere else."""
    user = make_user("Approver")
    first, second = desk.ask(subject_id=ids.new_id()), desk.ask(subject_id=ids.new_id())
    effects = iter([lambda: _failing(error), lambda: None])
    desk.effect = lambda: next(effects)()

    done = report_of(batch_decide(shown=shown(first, second), user=user, verdict="approve"), user)

    assert [one.code for one in done] == ["impossible", ""]
    assert ("decide again" in done[0].message) == again
    assert Decision.objects.get().approval == second


def _failing(error: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"do $$ begin raise exception 'it failed' using errcode = '{error}'; end $$")


@db
def test_a_report_is_never_rewritten(desk: Desk) -> None:
    batch_decide(shown=shown(desk.ask()), user=make_user("Approver"), verdict="approve")
    denied = pytest.raises(DatabaseError, match="permission denied")
    with as_the_product(), denied, transaction.atomic():
        DecisionBatchItem.objects.update(code="own_request")
