"""What a seller shows of a change before it answers it: as approved, and no departure that people are asked
about; one as soon as that change comes to nothing."""

from __future__ import annotations

import pytest

from orders.amounts import deal_amounts
from orders.models import Deal
from orders.questions import CHANGE_NOT_SHOWN, DIFFERENT
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller
from tests.orders.awaited import (
    COMPARED,
    ENDS,
    KINDS,
    TARGETED,
    WAYS,
    Kind,
    Way,
    asked,
    budget,
    by_the_mirror,
    by_total,
    fails,
    of_a_package,
    on_its_way,
    pause,
    shown,
    two,
)
from tests.orders.doors import wanted
from tests.orders.late import cancellation, decide, ended, fresh, say
from tests.orders.live import packages, says
from tests.support import undone

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_change_on_its_way_asks_for_is_no_departure(kind: Kind) -> None:
    deal, operation, told = on_its_way(kind)
    for way in WAYS:
        with undone():
            way(fresh(deal), told)
            nothing_departs(deal, way)
            answer = {"media_buy_id": "mb-1", "media_buy_status": "pending_start", "revision": 3, **told}
            say(operation, "completed", {**answer, "affected_packages": told["packages"]}, task_id="t-1")
            nothing_departs(deal, way)
            says(fresh(deal), "paused" if kind is pause else "pending_start", revision=4, **told)
            nothing_departs(deal, way)


def nothing_departs(deal: Deal, way: Way) -> None:
    now = fresh(deal)
    assert (asked(), now.differs, now.differences) == ([], False, []), way.__name__


@pytest.mark.parametrize("kind", COMPARED)
def test_it_departs_once_the_change_comes_to_nothing(kind: Kind) -> None:
    deal, operation, _ = shown(kind)
    for ends in ENDS:
        with undone():
            ends(operation)
            about = [differences for kind_asked, differences in asked() if kind_asked == DIFFERENT]
            differences = [(one["field"], one["confirmed"]) for one in fresh(deal).differences]
            assert (about, fresh(deal).differs) == ([differences], True), ends.__name__
    says(deal, "pending_start", revision=3)
    assert asked() == [], "a later record that says less changes nothing"
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


def test_a_dimension_that_it_clears_and_another_has_departs() -> None:
    deal = two()
    wanted(deal, **of_a_package(deal, targeting_overlay={})[0])
    by_the_mirror(deal, {"packages": packages(deal, targeting_overlay=TARGETED)})
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
