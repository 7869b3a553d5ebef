"""Deals before policies: limits, split orders, first orders, categories, manual inventory."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from orders.models import Deal
from orders.offers import terms_of
from orders.policy_facts import deal_facts
from orders.questions import DIFFERENT, ask_deal
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.policy_models import PolicyRule
from tasks_app.approvals.policy_words import caught_words
from tasks_app.approvals.services import approval_decide
from tasks_app.people.models import Advertiser
from tasks_app.sellers.models import Seller
from tests.factories import make_advertiser, make_deal, make_line, make_seller, make_user
from tests.orders.live import booked, packages, says

pytestmark = pytest.mark.django_db
EVERY = frozenset(PolicyRule)


def deal_of(gross: int, *, currency: str = "USD", **fields: Any) -> Deal:
    seller = fields.pop("seller", None) or Seller.objects.filter(slug="norrland-digital").first()
    return make_deal(
        make_line(budget=Decimal(gross)), seller=seller, account=False, currency=currency, **fields
    )


def names(approval: Approval) -> list[str]:
    return [one["name"] for one in approval.policies]


def test_a_recommendation_wants_one_approver_and_from_100_000_usd_two() -> None:
    small = ask_deal(deal_of(99_999))
    assert (small.quorum, small.policy) == (1, "Every recommendation, one approver")
    deal = deal_of(100_000, seller=make_seller("Cobalt"))
    large = ask_deal(deal)

    assert (large.quorum, names(large)) == (
        2,
        ["Every recommendation, one approver", "Over 100,000 USD, two approvers"],
    )
    assert caught_words(large) == ("Over 100,000 USD", "two approvers"), "the queue's line"
    for number in (1, 2):
        approval_decide(approval_id=large.pk, user=make_user("Approver"), verdict="approve")
        deal.refresh_from_db()
        assert deal.status == ("quoted" if number == 1 else "accepted")


def test_an_order_split_in_two_is_caught() -> None:
    first = deal_of(60_000)
    assert ask_deal(first).quorum == 1
    start = first.end_at + timedelta(hours=20)
    second = deal_of(45_000, start_at=start, end_at=start + timedelta(days=7))

    caught = ask_deal(second)

    assert caught.quorum == 2
    assert "Split orders over 100,000 USD, two approvers" in names(caught)
    assert f"With {first.reference}, for the same advertiser, seller and flight" in caught.policies[-1]["why"]


@pytest.mark.parametrize("apart", ["advertiser", "seller", "flight", "ended"])
def test_what_is_no_part_of_it_is_not_added(apart: str) -> None:
    other = deal_of(60_000)
    if apart == "advertiser":
        Deal.objects.update(advertiser=make_advertiser("Another client"))
    elif apart == "seller":
        Deal.objects.update(seller=make_seller("Cobalt"))
    elif apart == "ended":
        refused = ask_deal(other)
        approval_decide(
            approval_id=refused.pk, user=make_user("Approver"), verdict="reject", comment="Too dear"
        )
    later = other.end_at + timedelta(days=2)
    flight = {"start_at": later, "end_at": later + timedelta(days=9)} if apart == "flight" else {}
    assert ask_deal(deal_of(60_000, **flight)).quorum == 1


def test_what_the_seller_booked_over_the_limit_wants_two() -> None:
    deal = booked(line=make_line(budget=Decimal(90_000)))
    says(deal, "pending_start", packages=packages(deal, budget=120_000))
    caught = Approval.objects.get(kind=DIFFERENT)
    assert (caught.quorum, caught.amount) == (2, 120_000)
    assert caught.policy.startswith("Confirmed differs from approved; Over 100,000 USD")


def test_a_deal_tells_what_policies_judge_by(django_assert_max_num_queries: Any) -> None:
    Advertiser.objects.filter(pk=make_advertiser().pk).update(policy_categories=["age_restricted"])
    hold = clock.now() + timedelta(hours=30)
    product = {
        "enforced_policies": ["alcohol_advertising", 7, ""],
        "included_signals": [{"policy_categories": ["children_directed"]}, "x"],
        "material_submission": {"email": "ads@example.com"},
        "allowed_actions": [{"action": "cancel", "modes": ["requires_approval"]}],
    }
    line = make_line(guaranteed=False, is_fixed=False, terms=terms_of(product, hold), product_name="Bumper")
    deal = make_deal(
        line, terms={"hold_expires_at": hold.isoformat()}, reasons={"policy_categories": ["fair_lending"]}
    )
    with django_assert_max_num_queries(8):
        facts = deal_facts(Deal.objects.select_related("seller", "advertiser").get(pk=deal.pk), EVERY)
    assert facts.categories == {
        "age_restricted",
        "alcohol_advertising",
        "children_directed",
        "fair_lending",
    }
    assert facts.manual == (
        "Bumper is not guaranteed",
        "Bumper has no fixed price",
        "Bumper takes its material by hand",
        "Bumper is changed only with the seller’s approval",
    )
    assert (facts.first_order, facts.hold_until) == (True, hold)
    assert ask_deal(deal).due_at <= hold - timedelta(hours=1)


def test_a_team_that_has_ordered_there_orders_not_for_the_first_time() -> None:
    booked = deal_of(5)
    approval_decide(approval_id=ask_deal(booked).pk, user=make_user("Approver"), verdict="approve")
    assert not deal_facts(deal_of(5), EVERY).first_order


def test_a_change_of_the_first_order_is_none() -> None:
    assert not deal_facts(booked(), EVERY).first_order


def test_a_product_that_states_nothing_is_judged_by_nothing() -> None:
    assert terms_of({"allowed_actions": [{"modes": ["self_serve", "requires_approval"]}]}, None) == {}
    assert terms_of({"enforced_policies": "x", "included_signals": 3, "allowed_actions": "y"}, None) == {}
