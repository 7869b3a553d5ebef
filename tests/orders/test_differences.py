"""Differences between approved and stated terms: people accept them, or they stay until the seller agrees."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from orders.amounts import deal_amounts, lines_ordered
from orders.models import Deal
from orders.questions import DIFFERENT
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.notifications.models import Notification
from tests.factories import make_line
from tests.orders.doors import wanted
from tests.orders.late import decide, fresh, say
from tests.orders.live import booked, packages, says

pytestmark = pytest.mark.django_db
EXTRA = {"package_id": "pkg-9", "product_id": "audio", "pricing_option_id": "cpm", "budget": 700.0}


def two_lines() -> Deal:
    return booked(lines=(make_line(budget=Decimal(10000)), make_line(budget=Decimal(5000))))


def accepted(deal: Deal, **buy: Any) -> Deal:
    """The deal, after people accepted what its seller states."""
    says(deal, "active", revision=2, **buy)
    decide(DIFFERENT, "approve")
    deal = fresh(deal)
    assert verify_entity("deal", deal.pk).ok
    return says(deal, "active", revision=3, **buy)


def test_an_accepted_package_that_nobody_ordered_is_a_line() -> None:
    deal = booked()
    ordered = lines_ordered(deal.lines.all())
    deal = accepted(deal, packages=[*packages(deal), EXTRA])
    assert deal.differences == []
    new = deal.lines.get(position=2)
    assert (new.package_id, new.product_id, new.budget, new.start_at) == (
        "pkg-9",
        "audio",
        700,
        deal.start_at,
    )
    assert deal_amounts(deal).approved == deal_amounts(deal).confirmed == ordered + 700
    trail = AuditEntry.objects.filter(entity_id=deal.pk, reason="So.").latest("seq").metadata["lines"]
    assert [len(lines) for lines in trail] == [1, 2], "the trail keeps what was ordered"


@pytest.mark.parametrize(
    "extra",
    [
        {
            **EXTRA,
            "bid_price": 3.5,
            "paused": True,
            "targeting_overlay": {"geo_proximity": [{"radius": 1.5}]},
        },
        {"budget": 700.0},
        {"package_id": 7.0, "budget": 700.0},
    ],
    ids=["all terms", "no ids", "a number as its id"],
)
def test_an_accepted_package_differs_in_nothing_when_it_is_read_again(extra: dict[str, Any]) -> None:
    deal = booked()
    deal = accepted(deal, packages=[*packages(deal), extra])
    assert (deal.differences, deal.lines.count()) == ([], 2)
    assert deal_amounts(deal).approved == deal_amounts(deal).confirmed


def test_an_accepted_cancellation_of_a_package_costs_nothing_and_can_be_taken_back() -> None:
    deal = two_lines()
    deal = accepted(deal, packages=packages(deal, canceled=True))
    line = deal.lines.get(position=1)
    assert (deal.differences, line.canceled, line.budget) == ([], True, 0)
    assert deal_amounts(deal).committed == 5000
    deal = says(deal, "active", revision=4, packages=packages(deal, budget=10000.0))
    assert {one["field"] for one in deal.differences} == {"canceled", "budget"}
    assert deal_amounts(deal).committed == 15000, "what runs again is committed"


def test_accepted_dates_of_every_package_are_the_flight_of_the_deal() -> None:
    deal = two_lines()
    later = deal.start_at.replace(day=deal.start_at.day + 1)
    told = [one | {"start_time": later.isoformat()} for one in packages(deal)]
    deal = accepted(deal, packages=told)
    assert (deal.differences, deal.start_at) == ([], later)


def test_a_package_that_would_end_before_it_starts_cannot_be_accepted() -> None:
    deal = booked()
    told = packages(deal, start_time=deal.end_at.isoformat(), end_time=deal.start_at.isoformat())
    says(deal, "active", revision=2, packages=told)
    with pytest.raises(DecisionRefusedError, match="end before it starts"):
        decide(DIFFERENT, "approve")
    assert fresh(deal).differs


def test_a_booking_without_packages_is_booked_and_asked_about() -> None:
    deal = two_lines()
    says(deal, "active", revision=2, packages=[])
    assert (deal.status, deal_amounts(deal).committed) == ("delivering", 15000)
    assert Approval.objects.get(kind=DIFFERENT, status="open").amount == 0


def test_targeting_that_a_change_takes_off_and_the_seller_keeps_is_a_difference() -> None:
    deal = booked()
    change = wanted(deal, packages=[{"package_id": "pkg-1", "targeting_overlay": {}}])
    affected = {"affected_packages": packages(deal, targeting_overlay={})}
    say(change, "completed", {"media_buy_id": "mb-1", **affected}, channel="poll", task_id="t-1")
    assert fresh(deal).differences == []
    says(deal, "active", revision=5, packages=packages(deal, targeting_overlay={"geo_countries": ["US"]}))
    assert [one["field"] for one in deal.differences] == ["targeting"]


def test_a_brief_answer_leaves_known_differences_as_they_were() -> None:
    deal = two_lines()
    says(deal, "active", revision=2, packages=[*packages(deal, paused=True), EXTRA])
    known = {(one["line"], one["field"]) for one in deal.differences}
    change = wanted(deal, packages=[{"package_id": "pkg-2", "budget": 6000}])
    affected = {"affected_packages": [{"package_id": "pkg-2", "budget": 6000}]}
    say(change, "completed", {"media_buy_id": "mb-1", **affected}, channel="poll", task_id="t-1")
    deal = fresh(deal)
    assert deal.lines.get(position=2).budget == 6000
    assert known == {(0, "package"), (1, "paused")}
    assert {(one["line"], one["field"]) for one in deal.differences} == known


def test_a_brief_answer_does_not_make_an_unreadable_amount_acceptable() -> None:
    deal = two_lines()
    says(deal, "active", revision=2, packages=packages(deal, budget="a lot"))
    change = wanted(deal, packages=[{"package_id": "pkg-2", "end_time": deal.end_at.isoformat()}])
    say(change, "failed", channel="poll", task_id="t-1")
    (found,) = fresh(deal).differences
    assert (found["line"], found["confirmed"], found["unreadable"]) == (1, "a lot", True)


def test_a_change_of_which_nothing_is_stated_is_told() -> None:
    deal = booked()
    deal.seller.tools = [tool for tool in deal.seller.tools if tool != "get_media_buys"]
    deal.seller.save()
    change = wanted(deal, packages=[{"package_id": "pkg-1", "targeting_overlay": {}}])
    say(change, "completed", {"media_buy_id": "mb-1"}, channel="poll", task_id="t-1")
    shown = Notification.objects.filter(kind="change_not_shown", subject_id=deal.pk).exists()
    assert shown or fresh(deal).differs
