"""What counts as approved once people accepted a total that a seller stated beside changes on their way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest

from orders.amounts import amount_after, approved_after, deal_amounts
from orders.models import Deal, DealLine
from orders.questions import CHANGE_NOT_SHOWN, DIFFERENT
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.lifecycle.transitions import note
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller
from tests.factories import make_line
from tests.orders.awaited import ENDS, Kind, Values, asked, budget, by_the_mirror, by_total, two
from tests.orders.doors import wanted
from tests.orders.late import decide, fresh, give_up, overdue, say
from tests.orders.live import booked, packages, says

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


@pytest.mark.parametrize("kind", [budget, by_total])
def test_what_is_accepted_beside_it_counts_without_it(kind: Kind) -> None:
    deal = two()
    change, told = kind(deal)
    operation = wanted(deal, **change)
    first, second = told["packages"]
    told = {**told, "packages": [first, {**second, "targeting_overlay": {"geo_countries": ["DK"]}}]}
    by_the_mirror(deal, told)
    decide(DIFFERENT, "approve")
    assert deal_amounts(fresh(deal)).approved == 60_000
    answer = {"media_buy_id": "mb-1", "revision": 3, **told}
    say(operation, "completed", {**answer, "affected_packages": told["packages"]}, task_id="t-1")
    amounts = deal_amounts(fresh(deal))
    assert (asked(), amounts.approved, amounts.committed) == ([], 62_000, 62_000)


def _total_taken(total: int, *changes: Values) -> tuple[Deal, list[Operation], list[Values]]:
    """A deal whose one amount people accepted, as stated while these changes of it were on their way."""
    deal = two()
    without = by_total(deal)[1]["packages"]
    rows = [wanted(fresh(deal), task=f"t-{n}", packages=[one]) for n, one in enumerate(changes, 1)]
    by_the_mirror(deal, {"packages": without, "total_budget": total})
    assert asked() == [(DIFFERENT, [("total_budget", str(total))])]
    decide(DIFFERENT, "approve")
    return fresh(deal), rows, without


def _states(deal: Deal, told: list[Values], total: int, revision: int) -> Decimal:
    """What counts as approved once its seller has stated this total."""
    says(fresh(deal), "pending_start", revision=revision, packages=told, total_budget=total)
    return deal_amounts(fresh(deal)).approved


RISE = {"package_id": "pkg-1", "budget": 12_000}  # by 2,000


@pytest.mark.parametrize("is_read_before", [False, True])
def test_a_total_accepted_while_a_rise_is_on_its_way_may_be_with_it(is_read_before: bool) -> None:
    deal, (rise,), told = _total_taken(65_000, RISE)
    assert deal_amounts(deal).approved == 65_000
    if is_read_before:
        assert (_states(deal, told, 65_000, 3), asked()) == (65_000, [])
    answer = {"media_buy_id": "mb-1", "revision": 4, "total_budget": 65_000}
    say(rise, "completed", {**answer, "affected_packages": told[:1]}, task_id="t-1")
    assert (asked(), deal_amounts(fresh(deal)).approved) == ([], 65_000)
    assert (_states(deal, told, 65_000, 5), asked()) == (65_000, [])
    assert (_states(deal, told, 67_000, 6), asked()) == (65_000, [(DIFFERENT, [("total_budget", "67000")])])


def test_it_is_more_than_was_accepted_before_the_rise_is_done_too() -> None:
    deal, _, told = _total_taken(65_000, RISE)
    assert (_states(deal, told, 67_000, 3), asked()) == (65_000, [(DIFFERENT, [("total_budget", "67000")])])


@pytest.mark.parametrize("ends", ENDS)
def test_it_stands_when_the_rise_comes_to_nothing(ends: Callable[[Operation], None]) -> None:
    deal, (rise,), told = _total_taken(65_000, RISE)
    ends(rise)
    assert deal_amounts(fresh(deal)).approved == 65_000
    assert _states(deal, told, 65_000, 3) == 65_000
    assert [kind for kind, _ in asked() if kind == DIFFERENT] == []


def _is_done(rise: Operation, told: list[Values], total: int, task: str = "t-1") -> None:
    """The seller says so; the total is now this."""
    answer = {"media_buy_id": "mb-1", "revision": 6, "total_budget": total}
    say(rise, "completed", {**answer, "affected_packages": told[:1]}, task_id=task)


def test_a_cut_that_is_sent_later_and_fails_leaves_it_with_the_rise() -> None:
    deal, (rise,), told = _total_taken(65_000, RISE)
    cut = wanted(deal, task="t-2", packages=[{"package_id": "pkg-2", "budget": 45_000}])
    assert _states(deal, told, 65_000, 3) == 65_000
    say(cut, "failed", task_id="t-2")
    _is_done(rise, told, 67_000)
    assert (deal_amounts(fresh(deal)).approved, [kind for kind, _ in asked()]) == (65_000, [DIFFERENT])


def test_a_cut_that_it_may_be_with_and_that_fails_makes_it_no_more() -> None:
    cut = {"package_id": "pkg-2", "budget": 47_000}
    deal, (rise, cutting), told = _total_taken(65_000, RISE, cut)
    say(cutting, "failed", task_id="t-2")
    _is_done(rise, told, 67_000)
    assert (deal_amounts(fresh(deal)).approved, [kind for kind, _ in asked()]) == (65_000, [DIFFERENT])


def test_a_rise_that_people_wait_for_past_its_deadline_may_still_be_with_it() -> None:
    deal, (rise,), told = _total_taken(65_000, RISE)
    overdue(rise)
    _states(deal, told, 65_000, 3)
    decide("overdue", "approve")
    _is_done(rise, told, 67_000)
    decide("late_change", "approve")
    assert (deal_amounts(fresh(deal)).approved, [kind for kind, _ in asked()]) == (65_000, [DIFFERENT])


def _taken_as_done(times: int) -> int:
    """How often people say of a change that nothing shows that it was done: what was shown may have changed,
    and is asked anew; or nothing is asked any more."""
    decided = 0
    for _ in range(times):
        with suppress(DecisionRefusedError, Approval.DoesNotExist):
            decide(CHANGE_NOT_SHOWN, "approve")
            decided += 1
    return decided


def test_of_one_in_doubt_and_a_newer_one_of_its_package_neither_raises_it() -> None:
    deal = two()
    without = by_total(deal)[1]["packages"]
    Seller.objects.update(tools=["create_media_buy", "update_media_buy"])
    older = wanted(fresh(deal), task="t-1", packages=[RISE])
    say(older, "completed", {"media_buy_id": "mb-1"}, task_id="t-1")
    newer = wanted(fresh(deal), task="t-2", packages=[{"package_id": "pkg-1", "budget": 15_000}])
    says(fresh(deal), "pending_start", revision=3, packages=without, total_budget=69_000)
    decide(DIFFERENT, "approve")
    say(newer, "completed", {"media_buy_id": "mb-1", "revision": 4}, task_id="t-2")
    assert _taken_as_done(4) == 2
    assert _states(deal, without, 72_000, 8) == 69_000
    assert DIFFERENT in [kind for kind, _ in asked()]


def test_a_total_ahead_of_packages_that_state_their_own_may_be_with_it() -> None:
    deal = two()
    rise = wanted(deal, packages=[RISE])
    by_the_mirror(deal, {"packages": packages(deal), "total_budget": 65_000})
    decide(DIFFERENT, "approve")
    told = {"packages": packages(deal, budget=12_000.0), "total_budget": 65_000}
    answer = {"media_buy_id": "mb-1", "revision": 4, **told, "affected_packages": told["packages"]}
    say(rise, "completed", answer, task_id="t-1")
    assert asked() == []
    says(fresh(deal), "pending_start", revision=5, **{**told, "total_budget": 67_000})
    assert (deal_amounts(fresh(deal)).approved, [kind for kind, _ in asked()]) == (65_000, [DIFFERENT])


def test_a_rise_after_one_that_failed_adds_to_it() -> None:
    deal, (failing,), told = _total_taken(65_000, RISE)
    say(failing, "failed", task_id="t-1")
    rise = wanted(fresh(deal), task="t-9", packages=[RISE])
    _states(deal, told, 65_000, 3)
    _is_done(rise, told, 67_000, task="t-9")
    assert (_states(deal, told, 67_000, 7), asked()) == (67_000, [])


def test_a_rise_that_was_sent_after_the_question_adds_to_it() -> None:
    deal = two()
    without = by_total(deal)[1]["packages"]
    by_the_mirror(deal, {"packages": without, "total_budget": 65_000})
    rise = wanted(fresh(deal), packages=[RISE])
    decide(DIFFERENT, "approve")
    assert deal_amounts(fresh(deal)).approved == 65_000
    _is_done(rise, without, 67_000)
    assert (_states(deal, without, 67_000, 7), asked()) == (67_000, [])


def _unpriced(deal: Deal, **targeting: Any) -> list[Values]:
    """Its packages as a seller states them that has one amount for all, the second of them targeted so."""
    DealLine.objects.filter(deal=deal).update(confirmed_budget=None)
    first, second = [{name: v for name, v in one.items() if name != "budget"} for one in packages(deal)]
    return [first, {**second, "targeting_overlay": targeting}]


def test_what_is_accepted_beside_a_cut_that_shows_is_without_it() -> None:
    deal = two()
    told = _unpriced(deal, geo_countries=["DK"])
    wanted(deal, packages=[{"package_id": "pkg-1", "budget": 8_000}])
    by_the_mirror(deal, {"packages": told, "total_budget": 58_000})
    decide(DIFFERENT, "approve")
    assert (deal_amounts(fresh(deal)).approved, asked()) == (60_000, [])


def test_what_is_accepted_beside_one_rise_of_two_that_shows_is_without_it() -> None:
    deal = two()
    told = _unpriced(deal, geo_countries=["DK"])
    wanted(deal, packages=[RISE])
    wanted(fresh(deal), task="t-2", packages=[{"package_id": "pkg-2", "budget": 53_000}])
    by_the_mirror(deal, {"packages": told, "total_budget": 62_000})
    decide(DIFFERENT, "approve")
    assert deal_amounts(fresh(deal)).approved == 60_000
    assert (_states(deal, told, 62_000, 3), asked()) == (60_000, [])
    assert (_states(deal, told, 65_000, 4), asked()) == (60_000, [])


def test_a_rise_that_was_sent_after_it_was_accepted_adds_to_it() -> None:
    deal, _, told = _total_taken(65_000)
    rise = wanted(deal, packages=[RISE])
    assert (_states(deal, told, 65_000, 3), asked()) == (65_000, [])
    answer = {"media_buy_id": "mb-1", "revision": 4, "total_budget": 67_000}
    say(rise, "completed", {**answer, "affected_packages": told[:1]}, task_id="t-1")
    assert (_states(deal, told, 67_000, 5), asked()) == (67_000, [])


def test_of_two_on_their_way_neither_raises_it() -> None:
    other = {"package_id": "pkg-2", "budget": 53_000}
    deal, (first, second), told = _total_taken(69_000, RISE, other)
    Seller.objects.update(tools=["create_media_buy", "update_media_buy"])
    for task, row in (("t-2", second), ("t-1", first)):
        say(row, "completed", {"media_buy_id": "mb-1"}, task_id=task)
        decide(CHANGE_NOT_SHOWN, "approve")
        assert (asked(), deal_amounts(fresh(deal)).approved) == ([], 69_000)
    assert (_states(deal, told, 69_000, 9), asked()) == (69_000, [])


@pytest.mark.parametrize("is_read_before", [False, True])
def test_a_total_beside_a_package_that_shows_a_rise_counts_it_once(is_read_before: bool) -> None:
    deal = two()
    change, told = budget(deal)
    rise = wanted(deal, **change)
    told = {**told, "total_budget": 65_000}
    by_the_mirror(deal, told)
    decide(DIFFERENT, "approve")
    assert deal_amounts(fresh(deal)).approved == 65_000
    if is_read_before:
        says(fresh(deal), "pending_start", revision=3, **told)
        assert (asked(), deal_amounts(fresh(deal)).approved) == ([], 65_000)
    answer = {"media_buy_id": "mb-1", "revision": 4, **told}
    say(rise, "completed", {**answer, "affected_packages": told["packages"]}, task_id="t-1")
    says(fresh(deal), "pending_start", revision=5, **told)
    assert (asked(), deal_amounts(fresh(deal)).approved) == ([], 65_000)


def test_a_cut_on_its_way_makes_it_no_more_than_was_shown() -> None:
    deal, (cut,), told = _total_taken(65_000, {"package_id": "pkg-1", "budget": 8_000})
    assert deal_amounts(deal).approved == 65_000
    answer = {"media_buy_id": "mb-1", "revision": 4, "total_budget": 63_000}
    say(cut, "completed", {**answer, "affected_packages": told[:1]}, task_id="t-1")
    assert (asked(), deal_amounts(fresh(deal)).approved) == ([], 63_000)


@pytest.mark.parametrize("to", [12_000, 8_000])
def test_what_is_accepted_beside_it_later_is_counted_as_it_was_shown(to: int) -> None:
    deal = two()
    change = wanted(deal, packages=[{"package_id": "pkg-1", "budget": to}])
    by_the_mirror(deal, {"packages": packages(deal), "total_budget": 65_000})
    decide(DIFFERENT, "approve")
    first, second = packages(deal, budget=float(to))
    told = {
        "packages": [first, {**second, "targeting_overlay": {"geo_countries": ["DK"]}}],
        "total_budget": 65_000,
    }
    says(fresh(deal), "pending_start", revision=3, **told)
    assert Approval.objects.get(kind=DIFFERENT, status="open").amount == 65_000
    decide(DIFFERENT, "approve")
    assert deal_amounts(fresh(deal)).approved == 65_000
    says(fresh(deal), "pending_start", revision=4, **told)
    assert (asked(), deal_amounts(fresh(deal)).approved) == ([], 65_000)
    say(change, "failed", task_id="t-1")
    assert deal_amounts(fresh(deal)).approved == 65_000


@pytest.mark.parametrize("is_overdue", [False, True])
def test_a_rise_that_people_gave_up_or_waited_too_long_for_before_may_be_with_it(is_overdue: bool) -> None:
    deal = two()
    told = by_total(deal)[1]["packages"]
    rise = wanted(fresh(deal), packages=[RISE])
    (overdue if is_overdue else give_up)(rise)
    by_the_mirror(deal, {"packages": told, "total_budget": 65_000})
    decide(DIFFERENT, "approve")
    if is_overdue:
        decide("overdue", "approve")
    _is_done(rise, told, 67_000)
    decide("late_change", "approve")
    assert (deal_amounts(fresh(deal)).approved, [kind for kind, _ in asked()]) == (65_000, [DIFFERENT])


def _takes(kind: str) -> None:
    """People approve it; where what they were shown has changed it is asked anew."""
    with suppress(DecisionRefusedError):
        decide(kind, "approve")
        return
    decide(kind, "approve")


@pytest.mark.parametrize(("is_in_doubt_before", "approved"), [(True, 65_000), (False, 67_000)])
def test_one_in_doubt_may_be_with_it_where_it_was_sent_before_it_was_stated(
    is_in_doubt_before: bool, approved: int
) -> None:
    deal = two()
    told = by_total(deal)[1]["packages"]
    Seller.objects.update(tools=["create_media_buy", "update_media_buy"])

    def in_doubt() -> None:
        rise = wanted(fresh(deal), packages=[RISE])
        say(rise, "completed", {"media_buy_id": "mb-1"}, task_id="t-1")

    if is_in_doubt_before:
        in_doubt()
    says(fresh(deal), "pending_start", revision=3, packages=told, total_budget=65_000)
    if not is_in_doubt_before:
        in_doubt()
    decide(DIFFERENT, "approve")
    assert deal_amounts(fresh(deal)).approved == 65_000
    _takes(CHANGE_NOT_SHOWN)
    assert deal_amounts(fresh(deal)).approved == approved


def test_one_sent_while_the_question_stood_may_be_with_what_is_stated_again() -> None:
    deal = two()
    told = by_total(deal)[1]["packages"]
    by_the_mirror(deal, {"packages": told, "total_budget": 65_000})
    rise = wanted(fresh(deal), packages=[RISE])
    _states(deal, told, 63_000, 3)
    _states(deal, told, 65_000, 4)
    _takes(DIFFERENT)
    _is_done(rise, told, 67_000)
    assert (deal_amounts(fresh(deal)).approved, [kind for kind, _ in asked()]) == (65_000, [DIFFERENT])


@pytest.mark.parametrize("total", [65_000, 67_000, 62_000])
def test_a_rise_that_may_be_with_it_counts_by_its_answer_alone(total: int) -> None:
    """With the rise in what was accepted, beside it, or beside what was ordered at first."""
    deal, (rise,), told = _total_taken(65_000, RISE)
    Seller.objects.update(tools=["create_media_buy", "update_media_buy"])
    answer = {"media_buy_id": "mb-1", "revision": 4, "total_budget": total}
    say(rise, "completed", {**answer, "affected_packages": told[:1]}, task_id="t-1")
    assert fresh(deal).lines.get(position=1).budget == 12_000
    assert deal_amounts(fresh(deal)).approved == min(total, 65_000)
    assert asked() == ([(DIFFERENT, [("total_budget", "67000")])] if total == 67_000 else [])


EACH = [{"package_id": "pkg-1", "budget": 15_000}, {"package_id": "pkg-2", "budget": 50_000}]


@pytest.mark.parametrize("total", [65_000, 70_000])
def test_what_people_approve_of_all_its_packages_is_what_counts(total: int) -> None:
    deal, _, told = _total_taken(65_000)
    change = wanted(fresh(deal), packages=EACH)
    assert Approval.objects.get(kind="deal_change").amount == 65_000
    departs = [(DIFFERENT, [("total_budget", "70000")])] if total == 70_000 else []
    assert (_states(deal, told, total, 3), asked()) == (65_000, departs)

    Seller.objects.update(tools=["create_media_buy", "update_media_buy"])
    answer = {"media_buy_id": "mb-1", "revision": 4, "total_budget": total, "affected_packages": told}
    say(change, "completed", answer, task_id="t-1")
    assert deal_amounts(fresh(deal)).approved == 65_000
    assert (DIFFERENT in [kind for kind, _ in asked()]) == bool(departs)
    if not departs:
        assert ([line.budget for line in fresh(deal).lines.all()], asked()) == ([15_000, 50_000], [])


def test_two_changes_that_name_all_its_packages_together_add_up() -> None:
    deal, _, told = _total_taken(65_000)
    wanted(fresh(deal), packages=[RISE])
    wanted(fresh(deal), task="t-2", packages=[{"package_id": "pkg-2", "budget": 53_000}])
    assert (_states(deal, told, 70_000, 3), asked()) == (65_000, [])


@pytest.mark.parametrize("change", [{"pacing": "even"}, {"budget": 12_000.0}])
def test_a_brief_answer_takes_no_accepted_total_back(change: Values) -> None:
    deal = two()
    by_the_mirror(deal, {"packages": packages(deal), "total_budget": 65_000})
    decide(DIFFERENT, "approve")
    operation = wanted(fresh(deal), packages=[{"package_id": "pkg-1", **change}])
    named = packages(deal, **change)
    answer = {"media_buy_id": "mb-1", "revision": 4, "affected_packages": named[:1]}
    say(operation, "completed", answer, task_id="t-1")
    total = 65_000 if "pacing" in change else 67_000
    amounts = deal_amounts(fresh(deal))
    assert (amounts.approved, amounts.committed) == (total, total)
    says(fresh(deal), "pending_start", revision=5, packages=named, total_budget=total)
    assert asked() == []


def test_a_total_ahead_of_packages_that_shows_a_rise_sent_later_is_awaited() -> None:
    deal = two()
    by_the_mirror(deal, {"packages": packages(deal), "total_budget": 65_000})
    decide(DIFFERENT, "approve")
    wanted(fresh(deal), packages=[RISE])
    told = {"packages": packages(deal, budget=12_000.0), "total_budget": 67_000}
    says(fresh(deal), "pending_start", revision=3, **told)
    assert (asked(), deal_amounts(fresh(deal)).approved) == ([], 65_000)


@pytest.mark.parametrize("kept", [None, 3, True, "op", [None]])
def test_what_is_kept_in_no_form_that_is_known_keeps_no_change_from_counting(kept: Any) -> None:
    deal, (rise,), told = _total_taken(65_000, RISE)
    row = fresh(deal)
    odd = [{**one, "with": kept} for one in row.accepted]
    note(row, actor="system", reason="As nobody writes it", changes={"accepted": odd})
    _is_done(rise, told, 67_000)
    rise.refresh_from_db()
    assert rise.published_at is not None
    assert deal_amounts(fresh(deal)).approved == 67_000


@pytest.mark.parametrize("newer_first", [False, True])
def test_it_is_replaced_also_where_a_newer_change_of_a_package_is_done_first(newer_first: bool) -> None:
    deal, _, _ = _total_taken(65_000)
    older = wanted(fresh(deal), task="t-1", packages=EACH)
    newer = wanted(fresh(deal), task="t-2", packages=[{"package_id": "pkg-1", "budget": 16_000}])
    Seller.objects.update(tools=["create_media_buy", "update_media_buy"])
    rows = [("t-1", older), ("t-2", newer)]
    for task, row in reversed(rows) if newer_first else rows:
        say(row, "completed", {"media_buy_id": "mb-1"}, task_id=task)
        assert _taken_as_done(2) == 1
    amounts = deal_amounts(fresh(deal))
    assert [line.budget for line in fresh(deal).lines.all()] == [16_000, 50_000]
    assert (amounts.approved, amounts.committed) == (66_000, 66_000)


def _one() -> Deal:
    """A deal of one package."""
    Seller.objects.update(slots=9)
    return booked(lines=(make_line(budget=Decimal(10_000)),))


@pytest.mark.parametrize(
    ("made", "change", "total"),
    [(_one, [{"package_id": "pkg-1", "budget": 11_000}], 12_000), (two, EACH, 66_000)],
)
def test_it_is_asked_about_once_beside_a_change_of_all_packages(
    made: Callable[[], Deal], change: list[Values], total: int
) -> None:
    deal = made()
    without = by_total(deal)[1]["packages"]
    rise = wanted(fresh(deal), packages=change)
    by_the_mirror(deal, {"packages": without, "total_budget": total})
    decide(DIFFERENT, "approve")
    assert deal_amounts(fresh(deal)).approved == total

    Seller.objects.update(tools=["create_media_buy", "update_media_buy"])
    answer = {"media_buy_id": "mb-1", "revision": 4, "total_budget": total, "affected_packages": without}
    say(rise, "completed", answer, task_id="t-1")
    assert (asked(), deal_amounts(fresh(deal)).approved) == ([], total)


@pytest.mark.parametrize(("total", "shown"), [(65_000, [("62000", "65000")]), (62_000, [])])
def test_one_that_is_asked_about_is_beside_what_is_approved_by_then(
    total: int, shown: list[tuple[str, str]]
) -> None:
    deal = two()
    by_the_mirror(deal, {"packages": packages(deal), "total_budget": total})
    assert asked() == [(DIFFERENT, [("total_budget", str(total))])]
    rise = wanted(fresh(deal), packages=[RISE])
    answer = {"media_buy_id": "mb-1", "revision": 4, "affected_packages": packages(deal, budget=12_000.0)[:1]}
    say(rise, "completed", answer, task_id="t-1")

    now = fresh(deal)
    assert deal_amounts(now).approved == 62_000
    assert [(one["approved"], one["confirmed"]) for one in now.differences] == shown


@pytest.mark.parametrize("is_priced", [False, True])
def test_a_change_of_two_packages_with_one_name_counts_for_both(is_priced: bool) -> None:
    deal = two()
    priced: Values = {} if is_priced else {"confirmed_budget": None}
    DealLine.objects.filter(deal=deal).update(package_id="p", **priced)
    change = {"media_buy_id": "mb-1", "packages": [{"package_id": "p", "budget": 12_000}]}
    assert amount_after(fresh(deal), change) == approved_after(fresh(deal), change) == 24_000
