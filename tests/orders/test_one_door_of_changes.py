"""What shows that a change was made comes through the one door too: what is older shows nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from orders.doubt import changes_in_doubt
from orders.mirror import _Due, _Told, _write_all
from orders.models import Deal, DealMirror
from orders.questions import CHANGE_NOT_SHOWN
from orders.seller_state import deal_follow
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tests.factories import make_line
from tests.operations.making import observed
from tests.orders.doors import (
    TOLD,
    change_ended_without_a_result,
    end_without_a_result,
    is_newer,
    record,
    wanted,
)
from tests.orders.late import decide, fresh, say
from tests.orders.live import before, booked, first_line, packages, says
from tests.support import undone

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
Record = dict[str, Any]
SILENT = {"media_buy_id": "mb-1"}

# --- older and newer ----------------------------------------------------------------------------------

# What is asked of the media buy, its status once that was done, and what its package shows then.
CHANGES: dict[str, tuple[Record, str, Record]] = {
    "a budget": ({"packages": [{"package_id": "pkg-1", "budget": 9000}]}, "active", {"budget": 9000.0}),
    "a cancellation": ({"canceled": True}, "canceled", {}),
}


def by_its_answer(change: Operation, record: Record, asked_at: datetime) -> None:
    """The answer was heard at `asked_at`, and is told to us now."""
    told = {**record, "affected_packages": record["packages"]}
    seen = Seen(kind="answer", status="completed", raw_status="completed", task_id="t-1", payload=told)
    with clock.injected(lambda: asked_at):
        observed(operation_id=change.pk, seen=seen, channel="poll")
    publish(operation_id=change.pk)


def by_its_webhook(change: Operation, record: Record, asked_at: datetime) -> None:
    """The seller's own time of it is `asked_at`; it is delivered now, also after its end was published."""
    told = {**record, "affected_packages": record["packages"]}
    end = Seen(kind="answer", status="completed", raw_status="completed", task_id="t-1", payload=told)
    observed(operation_id=change.pk, seen=replace(end, at=asked_at), channel="webhook")
    publish(operation_id=change.pk)


def by_its_read_back(change: Operation, record: Record, asked_at: datetime) -> None:
    reading = Operation.objects.get(purpose=f"{change.purpose}:read_back")
    with clock.injected(lambda: asked_at):
        claim_one(operation_id=reading.pk)
    told = Seen(kind="answer", status="completed", payload={"media_buys": [record]})
    observed(operation_id=reading.pk, seen=told, channel="reply")
    publish(operation_id=reading.pk)


def by_the_mirror(change: Operation, record: Record, asked_at: datetime) -> None:
    due = _Due(deal_id=change.subject_id, media_buy_id="mb-1")  # type: ignore[arg-type]
    _write_all([_Told(due=due, asked_at=asked_at, buy=record)], change.seller.slug)


def nothing(change: Operation) -> None:
    """The seller has it."""


def is_read_back(change: Operation) -> None:
    """Its answer shows nothing."""
    say(change, "completed", SILENT, task_id="t-1")


def is_in_doubt(change: Operation) -> None:
    """Neither its answer nor its read back shows anything: people are asked."""
    is_read_back(change)
    by_its_read_back(change, SILENT, clock.now())
    assert doubts()


def has_ended(change: Operation) -> None:
    """Its end was published without a result: people are asked."""
    end_without_a_result(change)
    assert doubts()


WAYS = {
    "answer": (nothing, by_its_answer),
    "webhook": (nothing, by_its_webhook),
    "late result": (has_ended, by_its_webhook),
    "read back": (is_read_back, by_its_read_back),
    "mirror": (is_in_doubt, by_the_mirror),
}


def doubts() -> list[Approval]:
    return list(Approval.objects.filter(kind=CHANGE_NOT_SHOWN, status="open"))


def is_counted(deal: Deal, what: str) -> bool:
    """Whether the change counts, here and beside what was approved."""
    deal = fresh(deal)
    line = first_line(deal)
    if what == "a cancellation":
        return deal.status == "cancelled"
    assert not deal.differs
    return line.budget == Decimal(9000)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_shown_by_what_is_newest(what: str, way: str) -> None:
    """First × later × way in × what is told of the time × asked before or after."""
    asked, status, package = CHANGES[what]
    stand, comes = WAYS[way]
    deal, since = booked(), clock.now()
    before = first_line(deal).budget
    change = wanted(deal, **asked)
    stand(change)
    Deal.objects.filter(pk=deal.pk).update(revision=None)
    DealMirror.objects.filter(pk=deal.pk).update(asked_at=None, stated_at=None)
    for told, when in product(TOLD, ("before", "after")):
        asked_at = {"before": since + timedelta(minutes=8), "after": since + timedelta(minutes=12)}[when]
        with undone(), clock.injected(lambda: since + timedelta(minutes=20)):
            known = {**record(deal, "active", TOLD[told][0], since), "packages": packages(deal)}
            deal_follow(deal_id=deal.pk, buy=known, asked_at=since + timedelta(minutes=10))
            later = record(deal, status, TOLD[told][1], since)
            comes(change, {**later, "packages": packages(deal, **package)}, asked_at)

            counts = is_newer(told, when)
            assert is_counted(deal, what) == counts, (told, when)
            if not counts:
                assert (fresh(deal).media_buy_status, first_line(deal).budget) == ("active", before)
                assert first_line(deal).confirmed_budget == before, (told, when)
                assert is_being_settled(change), (told, when)
            else:
                assert not doubts(), (told, when)


def is_being_settled(change: Operation) -> bool:
    """Somebody is asked about it, or its seller is."""
    reading = Operation.objects.filter(purpose=f"{change.purpose}:read_back", published_at=None)
    return bool(doubts()) or reading.exists()


def test_people_are_told_that_what_shows_it_is_old_and_the_seller_is_asked_what_holds() -> None:
    deal = booked()
    says(deal, "active", revision=7, packages=packages(deal))
    change = wanted(deal, canceled=True)
    is_read_back(change)
    by_its_read_back(change, {**SILENT, "status": "canceled", "revision": 2}, clock.now())

    (asked,) = doubts()
    assert "older than what the seller told" in asked.evidence["not_shown_in_words"]
    assert DealMirror.objects.get(pk=deal.pk).due_at <= clock.now()
    assert (fresh(deal).status, fresh(deal).revision) == ("delivering", 7)


def test_what_only_an_old_answer_shows_waits_its_turn() -> None:
    """Another change is asked about; the answer to this one was old, and its read back does not show it."""
    deal = booked()
    says(deal, "active", revision=7, packages=packages(deal))
    first = wanted(deal, packages=[{"package_id": "pkg-1", "budget": 9000}])
    is_in_doubt(first)
    second = wanted(deal, task="t-2", paused=True)
    say(second, "completed", {**SILENT, "media_buy_status": "paused", "revision": 2}, task_id="t-2")
    by_its_read_back(second, {**SILENT, "media_buy_status": "active", "revision": 8}, clock.now())
    assert [one.evidence["operation_id"] for one in doubts()] == [str(first.pk)]

    decide(CHANGE_NOT_SHOWN, "reject")
    assert [one.evidence["operation_id"] for one in doubts()] == [str(second.pk)]


@pytest.mark.parametrize("told", [{"revision": 2}, {"status_as_of": True}], ids=["revision", "time"])
@pytest.mark.parametrize("shows", [True, False], ids=["what holds shows it", "what holds does not"])
def test_what_only_an_old_read_back_shows_waits_its_turn(told: Record, shows: bool) -> None:
    """Another change is asked about; the read back of this one shows it, and is older than what is known."""
    deal = booked()
    known = {"revision": 7, **({"status_as_of": clock.now().isoformat()} if "status_as_of" in told else {})}
    says(deal, "active", packages=packages(deal), **known)
    first = wanted(deal, packages=[{"package_id": "pkg-1", "budget": 9000}])
    is_in_doubt(first)
    second = wanted(deal, task="t-2", paused=True)
    say(second, "completed", SILENT, task_id="t-2")
    if "status_as_of" in told:
        told = {"revision": 7, "status_as_of": before(3600).isoformat()}
    by_its_read_back(second, {**SILENT, "media_buy_status": "paused", **told}, clock.now())
    assert [one.evidence["operation_id"] for one in doubts()] == [str(first.pk)]
    assert changes_in_doubt(fresh(deal)) == [first, second]

    decide(CHANGE_NOT_SHOWN, "reject")
    (asked,) = doubts()
    assert asked.evidence["operation_id"] == str(second.pk)
    assert "older than what the seller told" in asked.evidence["not_shown_in_words"]
    assert DealMirror.objects.get(pk=deal.pk).due_at <= clock.now(), "what holds is read at once"

    holds = {"media_buy_status": "paused" if shows else "active", "revision": 8}
    by_the_mirror(second, {**SILENT, **holds, "packages": packages(deal)}, clock.now())
    assert bool(doubts()) != shows
    if shows:
        assert not changes_in_doubt(fresh(deal))
    else:
        decide(CHANGE_NOT_SHOWN, "reject")
        assert not doubts(), "each is asked about once"


def test_a_change_that_counts_is_not_asked_about_again() -> None:
    deal = booked()
    says(deal, "active", revision=7, packages=packages(deal))
    first = wanted(deal, packages=[{"package_id": "pkg-1", "budget": 9000}])
    is_in_doubt(first)
    second = wanted(deal, task="t-2", paused=True)
    say(second, "completed", SILENT, task_id="t-2")
    by_its_read_back(second, {**SILENT, "media_buy_status": "paused", "revision": 8}, clock.now())
    says(deal, "paused", revision=9, packages=packages(deal))

    assert changes_in_doubt(fresh(deal)) == [first]
    with pytest.raises(DecisionRefusedError, match="asked anew"):  # the deal has moved
        decide(CHANGE_NOT_SHOWN, "reject")
    decide(CHANGE_NOT_SHOWN, "reject")
    assert not doubts()


def test_the_revisions_of_another_media_buy_say_nothing() -> None:
    """What is cancelled is not the one that the deal holds: what is known of that is no measure."""
    deal = booked()
    change = wanted(deal, canceled=True)
    says(deal, "active", revision=7, packages=packages(deal))
    Deal.objects.filter(pk=deal.pk).update(media_buy_id="mb-other")
    told = {**SILENT, "media_buy_status": "canceled", "revision": 2}
    say(change, "completed", told, task_id="t-1")

    assert not Operation.objects.filter(purpose=f"{change.purpose}:read_back").exists()
    assert not doubts()


def test_a_late_answer_about_one_package_says_nothing_of_the_others() -> None:
    deal = booked(lines=(make_line(), make_line()))
    named = [{"package_id": "pkg-1", "budget": 9000}]
    change, later = change_ended_without_a_result(deal, packages=named)
    with clock.injected(lambda: later):
        assert doubts()
        one = [{"package_id": "pkg-1", "budget": 9000.0}]
        whole = Seen(
            kind="answer",
            status="completed",
            raw_status="completed",
            task_id="t-1",
            payload={**SILENT, "affected_packages": one},
        )
        observed(operation_id=change.pk, seen=whole, channel="webhook")

    assert not doubts()
    assert not fresh(deal).differs
    assert deal.lines.get(position=2).confirmed_budget == deal.lines.get(position=2).budget


# --- every door ---------------------------------------------------------------------------------------

# What takes a seller's record into a deal, by who calls it; beside each what keeps older news out.
_TAKES = {
    "compare",
    "columns_if_newest",
    "deal_adopt",
    "deal_confirm",
    "deal_follow",
    "deal_refresh",
    "deal_take",
    "change_take",
    "_done",
    "_compare_live",
}
DOORS = {
    # They ask themselves whether it is older (test_the_newest_stands_whatever_brings_it).
    ("orders.seller_state._take", "compare"): "asks",
    ("orders.mirror._write", "deal_follow"): "asks",
    ("orders.reconcile.media_buy_settle", "deal_follow"): "asks",
    ("orders.actions.read_back", "deal_follow"): "asks",
    ("orders.outcomes._learnt", "deal_refresh"): "asks",
    ("orders.changed.change_compare", "deal_refresh"): "asks",
    ("orders.changed._read_back", "deal_follow"): "asks",
    ("orders.changed._done", "columns_if_newest"): "asks",
    # What shows a change (test_a_change_is_shown_by_what_is_newest).
    ("orders.changed._by_its_answer", "_done"): "answer, webhook",
    ("orders.changed._read_back", "_done"): "read back",
    ("orders.changed._cancellations_shown", "_done"): "mirror, late result",
    ("orders.changed.change_look_again", "compare"): "mirror, late result",
    # Of what is compared, which is the newest (test_changes_waiting.py).
    ("orders.not_shown.changes_count", "change_take"): "by its callers",
    ("orders.changed._done", "change_take"): "by its callers",
    ("orders.changed._compare_live", "compare"): "by its callers",
    # Nothing is told: what is known is compared anew (test_awaited.py).
    ("orders.changed._awaited_no_more", "_compare_live"): "nothing",
    # A person's word (test_what_a_person_takes_is_taken_although_the_mirror_has_read_since).
    ("orders.conflicts._take", "deal_take"): "person",
    ("orders.conflicts._take", "deal_adopt"): "person",
    ("orders.changed._decided", "_done"): "person",
    ("orders.changed._decided", "_compare_live"): "person",
    ("orders.seller_state.deal_take", "deal_refresh"): "person",
    ("orders.seller_state.deal_take", "compare"): "person",
    ("orders.late._kept", "deal_confirm"): "person",
    ("orders.late._kept", "deal_adopt"): "person",
    # The first that is told of a media buy.
    ("orders.outcomes._bought", "deal_confirm"): "first",
    ("orders.booking.deal_adopt", "deal_confirm"): "first",
    ("orders.booking.deal_confirm", "compare"): "first",
}


def callers() -> Iterator[tuple[str, str]]:
    root = Path(__file__).parents[2]
    for path in sorted([*(root / "orders").rglob("*.py"), *(root / "campaigns").rglob("*.py")]):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for call in ast.walk(function):
                    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                        yield f"{module}.{function.name}", call.func.id


@pytest.mark.rule
def test_every_door_is_known() -> None:
    """Who takes a seller's record into a deal by another way says here what keeps older news out."""
    found = {(caller, taken) for caller, taken in callers() if taken in _TAKES}
    assert found == set(DOORS)
