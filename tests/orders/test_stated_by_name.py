"""A seller that names packages and no amounts, as AdCP lets it: what comes, goes and comes again is counted
as the newest record has it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from campaigns.commitments import money_of
from campaigns.rooms import room_for
from orders.amounts import deal_amounts
from orders.models import Deal
from orders.questions import DIFFERENT
from orders.services import deal_book
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.publish import publish
from tests.factories import approve_deal, make_deal, make_line, make_seller
from tests.operations.making import observed
from tests.orders.late import decide, fresh
from tests.orders.live import booked, packages, says
from tests.orders.test_amounts import campaign_of

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
D = Decimal
Package = dict[str, Any]
HUGE = 6 * 10**13  # an amount that can be kept; two of it cannot


def bare(deal: Deal) -> list[Package]:
    """Its packages without their amounts."""
    told = packages(deal)
    for one in told:
        del one["budget"]
    return told


def answered(deal: Deal, told: list[Package]) -> Deal:
    """Bought, and answered so."""
    approve_deal(deal)
    operation = deal_book(deal=deal)
    claim_one(operation_id=operation.pk)
    payload = {"media_buy_id": "mb-1", "media_buy_status": "pending_start", "revision": 1, "packages": told}
    seen = Seen(kind="answer", status="completed", payload=payload)
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    publish(operation_id=operation.pk)
    return fresh(deal)


def two_of(**fields: Any) -> Deal:
    """Of 10,000 and 5,000."""
    lines = make_line(budget=D(10_000)), make_line(budget=D(5_000), product_id="b", pricing_option_id="o")
    return make_deal(*lines, **fields)


def one_and_two(**fields: Any) -> tuple[Deal, Package, Package]:
    deal = two_of(**fields)
    deal = answered(deal, bare(deal))
    first, second = bare(deal)
    return deal, first, second


def stands(deal: Deal) -> tuple[bool, Decimal, Decimal]:
    """Whether it differs, what is approved and what is committed."""
    now = fresh(deal)
    amounts = deal_amounts(now)
    return now.differs, amounts.approved, amounts.committed


GONE = {"missing": [], "cancelled": [{"canceled": True}]}


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("stated", [{}, {"canceled": False}], ids=["named", "not cancelled"])
def test_a_package_that_comes_again_counts_again(gone: str, stated: Package) -> None:
    deal, first, second = one_and_two()
    says(deal, "active", revision=2, packages=[first, *({**second, **one} for one in GONE[gone])])
    assert stands(deal) == (True, 15_000, 10_000)
    says(deal, "active", revision=3, packages=[first, {**second, **stated}])
    assert stands(deal) == (False, 15_000, 15_000)


@pytest.mark.parametrize("gone", GONE)
def test_one_that_people_let_go_and_that_runs_again_is_asked_about(gone: str) -> None:
    campaign = campaign_of(15_000)
    deal, first, second = one_and_two(campaign_id=campaign.pk)
    says(deal, "active", revision=2, packages=[first, *({**second, **one} for one in GONE[gone])])
    decide(DIFFERENT, "approve")
    assert stands(deal) == (False, 10_000, 10_000)
    says(deal, "active", revision=3, packages=[first, second])
    assert stands(deal) == (True, 10_000, 15_000)
    assert Approval.objects.get(kind=DIFFERENT, status="open").amount == 15_000
    other = make_deal(make_line(budget=D(5_000)), seller=make_seller("Another"), campaign_id=campaign.pk)
    room = room_for(other)
    assert room is not None
    assert (room.left, money_of([campaign.pk])[campaign.pk].confirmed) == (0, 15_000)


def test_one_that_an_answer_names_as_it_was_cancelled_stays_so() -> None:
    """An answer may name just what it changed."""
    deal, first, second = one_and_two()
    says(deal, "active", revision=2, packages=[first, {**second, "canceled": True}])
    decide(DIFFERENT, "approve")
    says(deal, "active", revision=3, packages=[first, {**second, "canceled": True}])
    assert stands(deal) == (False, 10_000, 10_000)


def test_one_that_is_stated_to_cost_nothing_costs_nothing() -> None:
    deal, first, second = one_and_two()
    says(deal, "active", revision=2, packages=[first, {**second, "budget": 0}])
    assert stands(deal) == (True, 15_000, 10_000)


@pytest.mark.parametrize("accepted", [True, False], ids=["accepted", "undecided"])
def test_one_that_nobody_ordered_costs_nothing_once_it_is_gone(accepted: bool) -> None:
    deal, first, second = one_and_two()
    extra = {"package_id": "x", "product_id": "z", "budget": 5_000}
    says(deal, "active", revision=2, packages=[first, second, extra])
    assert stands(deal) == (True, 15_000, 20_000)
    if accepted:
        decide(DIFFERENT, "approve")
        assert stands(deal) == (False, 20_000, 20_000)
    says(deal, "active", revision=3, packages=[first, second])
    assert stands(deal) == (False, 15_000, 15_000)
    assert not Approval.objects.filter(kind=DIFFERENT, status="open").exists()


def test_a_total_is_not_forgotten_for_an_amount_in_another_currency() -> None:
    deal, first, second = one_and_two()
    says(deal, "active", revision=2, packages=[first, second], total_budget=20_000)
    assert stands(deal) == (True, 15_000, 20_000)
    says(deal, "active", revision=3, packages=[{**first, "budget": 10_000, "currency": "EUR"}, second])
    says(deal, "active", revision=4, packages=[first, second])
    assert stands(deal) == (True, 15_000, 20_000)
    assert Approval.objects.filter(kind=DIFFERENT, status="open").exists()


def test_packages_beyond_measure_together_are_booked_and_asked_about() -> None:
    deal = two_of()
    deal = answered(deal, [{**one, "budget": HUGE} for one in packages(deal)])
    assert (deal.status, deal.differs, deal_amounts(deal).committed) == ("booked", True, 15_000)
    (asked,) = Approval.objects.filter(kind=DIFFERENT, subject_id=deal.pk, status="open")
    assert asked.amount is None, "nobody knows what it comes to"
    assert "120000000000000: more than can be counted" in str(deal.differences)
    says(deal, "pending_start", revision=2, packages=packages(deal))
    assert stands(deal) == (False, 15_000, 15_000)


def test_extras_beyond_measure_together_are_asked_about() -> None:
    deal = booked()
    extra = [{"package_id": f"x-{n}", "product_id": "other", "budget": HUGE} for n in range(2)]
    deal = says(deal, "active", packages=[*packages(deal), *extra])
    assert (deal.status, deal.differs) == ("delivering", True)
