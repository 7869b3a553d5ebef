"""What a seller shows of a change before it answers it: as approved, and no departure that people are asked
about; one as soon as that change comes to nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from orders.amounts import deal_amounts
from orders.models import Deal, DealLine
from orders.questions import CHANGE_NOT_SHOWN, DIFFERENT
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller
from tests.factories import make_line
from tests.orders.doors import wanted
from tests.orders.late import cancellation, decide, ended, fresh, give_up, overdue, say
from tests.orders.live import booked, packages, says

pytestmark = pytest.mark.django_db
Values = dict[str, Any]
D = Decimal
_DAYS, _TARGETED = timedelta(days=3), {"geo_countries": ["NO"]}


def two() -> Deal:
    """A deal of two packages."""
    Seller.objects.update(slots=9)
    return booked(lines=(make_line(budget=D(10_000)), make_line(product_id="b", budget=D(50_000))))


def _package(deal: Deal, **changed: Any) -> tuple[Values, Values]:
    return {"packages": [{"package_id": "pkg-1", **changed}]}, {"packages": packages(deal, **changed)}


def budget(deal: Deal) -> tuple[Values, Values]:
    return _package(deal, budget=12_000.0)


def package_start(deal: Deal) -> tuple[Values, Values]:
    return _package(deal, start_time=(deal.start_at + _DAYS).isoformat())


def package_end(deal: Deal) -> tuple[Values, Values]:
    return _package(deal, end_time=(deal.end_at - _DAYS).isoformat())


def targeting(deal: Deal) -> tuple[Values, Values]:
    return _package(deal, targeting_overlay=_TARGETED)


def pacing(deal: Deal) -> tuple[Values, Values]:
    return _package(deal, pacing="even")


def _whole(deal: Deal, name: str, value: Any) -> tuple[Values, Values]:
    told = [{**one, **({name: value} if name in one else {})} for one in packages(deal)]
    return {name: value}, {name: value, "packages": told}


def start(deal: Deal) -> tuple[Values, Values]:
    return _whole(deal, "start_time", (deal.start_at + _DAYS).isoformat())


def end(deal: Deal) -> tuple[Values, Values]:
    return _whole(deal, "end_time", (deal.end_at + _DAYS).isoformat())


def by_the_whole(deal: Deal) -> tuple[Values, Values]:
    """Only the whole media buy's date is stated."""
    asked, told = end(deal)
    without = [{k: v for k, v in one.items() if not k.endswith("_time")} for one in packages(deal)]
    return asked, {**told, "packages": without}


def by_total(deal: Deal) -> tuple[Values, Values]:
    """The seller states one amount for the whole."""
    DealLine.objects.filter(deal=deal).update(confirmed_budget=None)
    without = [{k: v for k, v in one.items() if k != "budget"} for one in packages(deal)]
    return budget(deal)[0], {"packages": without, "total_budget": 62_000}


def pause(deal: Deal) -> tuple[Values, Values]:
    return {"paused": True}, {"paused": True, "packages": packages(deal)}


def name(deal: Deal) -> tuple[Values, Values]:
    return {"name": "Spring"}, {"name": "Spring", "packages": packages(deal)}


Kind = Callable[[Deal], tuple[Values, Values]]
COMPARED: list[Kind] = [
    *(budget, package_start, package_end, targeting, start, end, by_the_whole, by_total),
]
KINDS: list[Kind] = [*COMPARED, pacing, pause, name]


def by_the_mirror(deal: Deal, told: Values) -> None:
    says(deal, "pending_start", revision=2, **told)


def _by_another(deal: Deal, told: Values, channel: str) -> None:
    """The answer to a change of something else tells of it too."""
    other = wanted(deal, task="t-2", packages=[{"package_id": "pkg-2", "pacing": "asap"}])
    first, second = told["packages"]
    affected = [first, {**second, "pacing": "asap"}]
    answer = {"media_buy_id": "mb-1", "media_buy_status": "pending_start", "revision": 2, **told}
    say(other, "completed", {**answer, "affected_packages": affected}, channel=channel, task_id="t-2")


def by_anothers_answer(deal: Deal, told: Values) -> None:
    _by_another(deal, told, "poll")


def by_anothers_webhook(deal: Deal, told: Values) -> None:
    _by_another(deal, told, "webhook")


WAYS = [by_the_mirror, by_anothers_answer, by_anothers_webhook]


def asked() -> list[tuple[str, list[tuple[str, str]]]]:
    """What people are asked, and which differences they are shown."""
    rows = Approval.objects.filter(status="open").order_by("created_at")
    return [
        (one.kind, [(said["field"], said["confirmed"]) for said in one.evidence.get("differences", [])])
        for one in rows
    ]


def shown(kind: Kind, way: Callable[[Deal, Values], None] = by_the_mirror) -> tuple[Deal, Operation, Values]:
    """A change on its way, and what its seller shows of it already."""
    deal = two()
    change, told = kind(deal)
    operation = wanted(deal, **change)
    way(fresh(deal), told)
    return fresh(deal), operation, told


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_change_on_its_way_asks_for_is_no_departure(
    kind: Kind, way: Callable[[Deal, Values], None]
) -> None:
    deal, operation, told = shown(kind, way)
    assert (asked(), deal.differs, deal.differences) == ([], False, [])
    answer = {"media_buy_id": "mb-1", "media_buy_status": "pending_start", "revision": 3, **told}
    say(operation, "completed", {**answer, "affected_packages": told["packages"]}, task_id="t-1")
    assert (asked(), fresh(deal).differs) == ([], False)
    says(fresh(deal), "paused" if kind is pause else "pending_start", revision=4, **told)
    assert (asked(), fresh(deal).differs) == ([], False)


def fails(operation: Operation) -> None:
    say(operation, "failed", task_id="t-1")


def is_refused(operation: Operation) -> None:
    say(operation, "rejected", task_id="t-1")


def is_withdrawn(operation: Operation) -> None:
    say(operation, "canceled", task_id="t-1")


ENDS = [fails, is_refused, is_withdrawn, overdue, give_up]


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("kind", COMPARED)
def test_it_departs_once_the_change_comes_to_nothing(kind: Kind, ends: Callable[[Operation], None]) -> None:
    deal, operation, _ = shown(kind)
    ends(operation)
    about = [differences for kind_asked, differences in asked() if kind_asked == DIFFERENT]
    assert len(about) == 1
    assert about[0] == [(one["field"], one["confirmed"]) for one in fresh(deal).differences]
    assert fresh(deal).differs


@pytest.mark.parametrize("kind", COMPARED)
def test_a_later_record_that_says_less_changes_nothing(kind: Kind) -> None:
    deal, operation, _ = shown(kind)
    says(deal, "pending_start", revision=3)
    assert asked() == []
    fails(operation)
    assert [kind_asked for kind_asked, _ in asked()] == [DIFFERENT]


def test_a_total_counts_though_the_answer_says_nothing_of_it() -> None:
    deal, operation, _ = shown(by_total)
    say(operation, "completed", {"media_buy_id": "mb-1", "revision": 3}, task_id="t-1")
    ended(
        Operation.objects.get(purpose=f"{operation.purpose}:read_back"),
        "completed",
        {
            "media_buys": [
                {"media_buy_id": "mb-1", "status": "pending_start", "revision": 4, "total_budget": 62_000}
            ]
        },
    )
    says(fresh(deal), "pending_start", revision=5)
    amounts = deal_amounts(fresh(deal))
    assert (asked(), amounts.approved, amounts.committed) == ([], 62_000, 62_000)


@pytest.mark.parametrize("gone", [1, 2])
def test_what_is_cancelled_package_by_package_departs_in_nothing_while_it_is_asked_for(gone: int) -> None:
    deal = two()
    operation = wanted(deal, canceled=True)
    each = packages(deal)
    told = [{**one, "canceled": True} for one in each[:gone]] + each[gone:]
    says(fresh(deal), "pending_start", revision=2, packages=told)
    assert (asked(), fresh(deal).differs) == ([], False)

    fails(operation)
    shown = [(kind, [field for field, _ in differences]) for kind, differences in asked()]
    assert shown == [(DIFFERENT, ["budget"] * gone)]


def test_what_people_refused_stays_what_it_differs_in_while_it_is_cancelled_for_that() -> None:
    deal = two()
    first, second = packages(deal)
    told = {"packages": [{**first, "canceled": True}, second]}
    by_the_mirror(deal, told)
    decide(DIFFERENT, "reject")
    assert claim_one(operation_id=cancellation().pk) is not None
    refused = fresh(deal).differences
    assert [one["field"] for one in refused] == ["budget"]
    says(fresh(deal), "pending_start", revision=3, **told)
    assert (fresh(deal).differs, fresh(deal).differences) == (True, refused)


def test_another_amount_is_asked_about() -> None:
    deal = two()
    wanted(deal, **budget(deal)[0])
    by_the_mirror(deal, {"packages": packages(deal, budget=11_000.0)})
    assert asked() == [(DIFFERENT, [("budget", "11000")])]


@pytest.mark.parametrize("kind", COMPARED)
def test_what_departs_beside_it_is_asked_about_alone(kind: Kind) -> None:
    deal = two()
    change, told = kind(deal)
    wanted(deal, **change)
    first, second = told["packages"]
    by_the_mirror(deal, {**told, "packages": [first, {**second, "bid_price": 99.0, "targeting_overlay": {}}]})
    (only,) = asked()
    assert only == (DIFFERENT, [(one["field"], one["confirmed"]) for one in fresh(deal).differences])
    assert {one["line"] for one in fresh(deal).differences} == {2}


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
def test_it_is_without_a_rise_that_comes_to_nothing(ends: Callable[[Operation], None]) -> None:
    deal, (rise,), told = _total_taken(65_000, RISE)
    ends(rise)
    assert deal_amounts(fresh(deal)).approved == 65_000
    assert _states(deal, told, 65_000, 3) == 65_000
    assert [kind for kind, _ in asked() if kind == DIFFERENT] == []


def _is_done(rise: Operation, told: list[Values], total: int, task: str = "t-1") -> None:
    """The seller says so, and a reading does; the total is now this."""
    answer = {"media_buy_id": "mb-1", "revision": 6, "total_budget": total}
    say(rise, "completed", {**answer, "affected_packages": told[:1]}, task_id=task)


def test_a_cut_that_is_sent_later_and_fails_changes_nothing_of_that() -> None:
    deal, (rise,), told = _total_taken(65_000, RISE)
    cut = wanted(deal, task="t-2", packages=[{"package_id": "pkg-2", "budget": 45_000}])
    assert _states(deal, told, 65_000, 3) == 65_000
    say(cut, "failed", task_id="t-2")
    _is_done(rise, told, 67_000)
    assert (deal_amounts(fresh(deal)).approved, [kind for kind, _ in asked()]) == (65_000, [DIFFERENT])


def test_a_cut_on_its_way_with_it_that_fails_lets_it_be_no_more() -> None:
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
    for _ in range(4):
        # What was shown may have changed: it is asked anew; or nothing is asked any more.
        with suppress(DecisionRefusedError, Approval.DoesNotExist):
            decide(CHANGE_NOT_SHOWN, "approve")
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


def test_a_dimension_that_it_clears_and_another_has_departs() -> None:
    deal = two()
    wanted(deal, **_package(deal, targeting_overlay={})[0])
    by_the_mirror(deal, {"packages": packages(deal, targeting_overlay=_TARGETED)})
    assert [kind for kind, _ in asked()] == [DIFFERENT]


def test_two_changes_on_their_way_may_show_together() -> None:
    deal = two()
    wanted(deal, packages=[{"package_id": "pkg-1", "budget": 12_000}])
    wanted(fresh(deal), task="t-2", packages=[{"package_id": "pkg-2", "budget": 55_000}])
    first, second = packages(deal, budget=12_000.0)
    by_the_mirror(deal, {"packages": [first, {**second, "budget": 55_000.0}]})
    assert asked() == []


def test_the_totals_of_two_changes_on_their_way_add_up() -> None:
    deal = two()
    told = by_total(deal)[1]
    wanted(deal, packages=[{"package_id": "pkg-1", "budget": 12_000}])
    wanted(fresh(deal), task="t-2", packages=[{"package_id": "pkg-2", "budget": 55_000}])
    by_the_mirror(deal, {**told, "total_budget": 67_000})
    assert asked() == []


def test_one_that_a_newer_change_has_decided_is_awaited_no_more() -> None:
    deal = two()
    wanted(deal, packages=[{"package_id": "pkg-1", "budget": 12_000}])
    newer = wanted(fresh(deal), task="t-2", packages=[{"package_id": "pkg-1", "budget": 15_000}])
    done = packages(deal, budget=15_000.0)
    answer = {"media_buy_id": "mb-1", "revision": 2, "packages": done, "affected_packages": done}
    say(newer, "completed", answer, task_id="t-2")
    assert asked() == []
    says(fresh(deal), "pending_start", revision=3, packages=packages(deal, budget=12_000.0))
    assert asked() == [(DIFFERENT, [("budget", "12000")])]


def test_one_that_was_not_sent_yet_is_not_awaited() -> None:
    deal = two()
    operation = wanted(deal, **budget(deal)[0])
    Operation.objects.filter(pk=operation.pk).update(sent_at=None)
    by_the_mirror(deal, budget(deal)[1])
    assert asked() == [(DIFFERENT, [("budget", "12000")])]


def test_what_was_shown_departs_once_people_say_that_the_change_was_not_made() -> None:
    _, operation, _ = shown(budget)
    Seller.objects.update(tools=["create_media_buy", "update_media_buy"])
    say(operation, "completed", {"media_buy_id": "mb-1"}, task_id="t-1")
    assert [kind for kind, _ in asked()] == [CHANGE_NOT_SHOWN]
    decide(CHANGE_NOT_SHOWN, "reject")
    assert asked() == [(DIFFERENT, [("budget", "12000")])]
