"""A change in doubt that people are not asked about yet, for another is asked about or it is read back: what
shows it lets it count, whichever way that comes, and it is no departure of its seller's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from orders.doubt import changes_in_doubt
from orders.models import Deal
from orders.questions import CHANGE_NOT_SHOWN, DIFFERENT, LATE_CHANGE
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approvals_expire_due
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller
from tests.factories import make_line
from tests.orders.doors import wanted
from tests.orders.late import decide, fresh, overdue, say
from tests.orders.live import booked, packages, says
from tests.orders.test_one_door_of_changes import (
    SILENT,
    by_its_read_back,
    by_the_mirror,
    doubts,
)

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
Values = dict[str, Any]
WAITING = {"packages": [{"package_id": "pkg-2", "budget": 40_000}]}


def two() -> tuple[Deal, Operation]:
    """A deal of two packages, of which people are asked about a change of the first."""
    lines = (make_line(budget=Decimal(10_000)), make_line(product_id="b", budget=Decimal(50_000)))
    deal = booked(lines=lines)
    first = wanted(deal, packages=[{"package_id": "pkg-1", "budget": 9_000}])
    say(first, "completed", SILENT, task_id="t-1")
    by_its_read_back(first, SILENT, clock.now())
    return fresh(deal), first


def is_read_back(deal: Deal) -> Operation:
    change = wanted(deal, task="t-2", **WAITING)
    say(change, "completed", SILENT, task_id="t-2")
    return change


def waits_in_line(deal: Deal) -> Operation:
    change = is_read_back(deal)
    by_its_read_back(change, SILENT, clock.now())
    return change


def shown(deal: Deal) -> Values:
    """The whole media buy, with the waiting change of it done."""
    first, second = packages(deal)
    return {**SILENT, "media_buy_status": "paused", "packages": [first, {**second, "budget": 40_000.0}]}


def another(deal: Deal) -> Operation:
    return wanted(fresh(deal), task="t-3", paused=True)


def _answered(deal: Deal, channel: str) -> None:
    told = {**shown(deal), "affected_packages": shown(deal)["packages"]}
    say(another(deal), "completed", told, channel=channel, task_id="t-3")


def by_anothers_answer(deal: Deal, _change: Operation) -> None:
    _answered(deal, "poll")


def by_anothers_webhook(deal: Deal, _change: Operation) -> None:
    _answered(deal, "webhook")


def by_anothers_read_back(deal: Deal, _change: Operation) -> None:
    change = another(deal)
    say(change, "completed", SILENT, task_id="t-3")
    by_its_read_back(change, shown(deal), clock.now())


def by_mirror(deal: Deal, change: Operation) -> None:
    by_the_mirror(change, shown(deal), clock.now())


def by_a_reading(deal: Deal, _change: Operation) -> None:
    """As reconciliation and a booking's own step take it."""
    says(deal, "paused", packages=shown(deal)["packages"])


STANDS: dict[str, Callable[[Deal], Operation]] = {
    "it waits in line": waits_in_line,
    "it is read back": is_read_back,
}
COMES: dict[str, Callable[[Deal, Operation], None]] = {
    "the mirror": by_mirror,
    "a reading": by_a_reading,
    "another's answer": by_anothers_answer,
    "another's webhook": by_anothers_webhook,
    "another's read back": by_anothers_read_back,
}


def second_line(deal: Deal) -> Decimal:
    return deal.lines.get(position=2).budget


@pytest.mark.parametrize("comes", COMES)
@pytest.mark.parametrize("stands", STANDS)
def test_what_is_shown_counts_and_is_no_departure(stands: str, comes: str) -> None:
    deal, first = two()
    change = STANDS[stands](deal)
    assert changes_in_doubt(fresh(deal)) == [first, change]

    COMES[comes](deal, change)

    assert (second_line(deal), fresh(deal).differs) == (Decimal(40_000), False)
    assert changes_in_doubt(fresh(deal)) == [first]
    assert not Approval.objects.filter(kind=DIFFERENT).exists(), "nobody was asked, not for a moment"
    assert [one.evidence["operation_id"] for one in doubts()] == [str(first.pk)]
    while doubts():
        with suppress(DecisionRefusedError):  # asked anew: the deal has moved
            decide(CHANGE_NOT_SHOWN, "reject")
    asked = Approval.objects.filter(kind=CHANGE_NOT_SHOWN).values_list("evidence__operation_id", flat=True)
    assert set(asked) == {str(first.pk)}, "nor asked about it in its turn"


@pytest.mark.parametrize("shows", [SILENT, None], ids=["shows nothing", "shows it"])
def test_its_read_back_that_comes_after_asks_nobody(shows: Values | None) -> None:
    deal, first = two()
    change = is_read_back(deal)
    by_mirror(deal, change)
    by_its_read_back(change, shown(deal) if shows is None else shows, clock.now())
    assert (second_line(deal), changes_in_doubt(fresh(deal))) == (Decimal(40_000), [first])
    assert len(doubts()) == 1


def test_what_is_asked_about_is_withdrawn_and_the_next_asked() -> None:
    deal, first = two()
    change = waits_in_line(deal)
    one, other = packages(deal)
    told = {**SILENT, "media_buy_status": "active", "packages": [{**one, "budget": 9_000.0}, other]}
    by_the_mirror(first, told, clock.now())
    assert [one.evidence["operation_id"] for one in doubts()] == [str(change.pk)]
    assert not Approval.objects.filter(kind=DIFFERENT).exists()
    decide(CHANGE_NOT_SHOWN, "reject")  # asked after what was compared: it holds


def test_all_that_one_record_shows_counts_at_once() -> None:
    deal, first = two()
    waits_in_line(deal)
    one, other = packages(deal)
    each = [{**one, "budget": 9_000.0}, {**other, "budget": 40_000.0}]
    by_the_mirror(first, {**SILENT, "media_buy_status": "active", "packages": each}, clock.now())
    assert [line.budget for line in deal.lines.order_by("position")] == [9_000, 40_000]
    assert (doubts(), changes_in_doubt(fresh(deal))) == ([], [])
    assert not Approval.objects.filter(kind=DIFFERENT).exists()


def test_one_that_came_late_is_counted_by_people_alone() -> None:
    deal, _ = two()
    change = wanted(deal, task="t-2", **WAITING)
    overdue(change)
    say(change, "completed", SILENT, task_id="t-2")
    by_mirror(deal, change)
    assert second_line(deal) == Decimal(50_000)
    assert Approval.objects.filter(kind=LATE_CHANGE, status="open").exists()


@pytest.mark.parametrize(
    "asked", [{"name": "Spring"}, {"packages": [{"package_id": "pkg-1", "pacing": "asap"}]}]
)
def test_what_a_record_says_nothing_of_it_does_not_show(asked: Values) -> None:
    deal = booked()
    change = wanted(deal, **asked)
    (own,) = packages(deal, pacing="even")
    say(change, "completed", SILENT, task_id="t-1")
    by_its_read_back(change, {**SILENT, "name": "Autumn", "packages": [own]}, clock.now())
    assert len(doubts()) == 1
    by_the_mirror(change, {**SILENT, "media_buy_status": "active", "packages": packages(deal)}, clock.now())
    assert len(doubts()) == 1, "it was told otherwise, and nothing since"


BUDGETS = (12_000, 15_000, 17_000)  # of one package, each in a change of its own that nothing shows
ANSWERS = [answers for many in (2, 3) for answers in product(("approve", "reject"), repeat=many)]


@pytest.mark.parametrize("answers", ANSWERS, ids="-".join)
def test_of_several_changes_of_one_package_the_newest_that_people_take_as_done_counts(
    answers: tuple[str, ...],
) -> None:
    deal = _with_changes_of_one_package(len(answers))
    for budget, answer in zip(BUDGETS, answers, strict=False):
        (asked,) = doubts()
        assert [one["budget"] for one in asked.evidence["change"]["packages"]] == [budget]
        decide(CHANGE_NOT_SHOWN, answer)
    taken = [budget for budget, answer in zip(BUDGETS, answers, strict=False) if answer == "approve"]
    assert (doubts(), [line.budget for line in deal.lines.all()]) == ([], [(taken or [10_000])[-1]])


@pytest.mark.parametrize("many", [1, 2, 3])
def test_what_is_asked_anew_can_be_decided(many: int) -> None:
    """Since it was asked the deal has come to something else: who decides is shown that, and decides then."""
    deal = _with_changes_of_one_package(many)
    Deal.objects.filter(pk=deal.pk).update(media_buy_status="active")
    with pytest.raises(DecisionRefusedError, match="asked anew"):
        decide(CHANGE_NOT_SHOWN, "approve")
    for _ in range(many):
        decide(CHANGE_NOT_SHOWN, "approve")
    assert (doubts(), [line.budget for line in deal.lines.all()]) == ([], [BUDGETS[many - 1]])


def test_what_nobody_decided_in_time_is_asked_again_as_it_was() -> None:
    deal = _with_changes_of_one_package(3)
    (before,) = doubts()
    with clock.injected(lambda: before.due_at):
        assert approvals_expire_due() == 1
    (after,) = doubts()
    shown = [(one.evidence["operation_id"], one.evidence["change"], one.amount) for one in (before, after)]
    assert (shown[0], deal.lines.get().budget) == (shown[1], 10_000)


def _with_changes_of_one_package(many: int) -> Deal:
    deal = booked(lines=(make_line(budget=Decimal(10_000)),))
    Seller.objects.update(slots=9, tools=["create_media_buy", "update_media_buy"])
    changes = [
        (f"t-{budget}", wanted(fresh(deal), task=f"t-{budget}", packages=[_at(budget)]))
        for budget in BUDGETS[:many]
    ]
    for task, change in changes:
        say(change, "completed", SILENT, task_id=task)
    return deal


def _at(budget: int) -> Values:
    return {"package_id": "pkg-1", "budget": budget}
