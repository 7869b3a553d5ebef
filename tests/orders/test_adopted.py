"""A media buy that only its seller knew, adopted: what it comes to, who approves it, and beside what."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from orders.amounts import deal_amounts
from orders.models import Deal
from orders.policy_facts import deal_facts
from orders.questions import DIFFERENT
from orders.unclaimed.adopt import media_buy_adopt
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.policy_models import PolicyRule
from tasks_app.sellers.accounts_told import account_record
from tests.database import HOUSE
from tests.factories import make_account, make_advertiser, make_deal, make_seller, make_user
from tests.orders import asking
from tests.orders.late import booking, decide, fresh
from tests.orders.live import says

pytestmark = pytest.mark.django_db
RULES = frozenset(PolicyRule)


def buy(**told: Any) -> dict[str, Any]:
    """One that runs for 5,000 of packages."""
    start = clock.now() + timedelta(days=3)
    return {
        "media_buy_id": "mb-t",
        "status": "active",
        "currency": "USD",
        "packages": [{"package_id": "p1", "product_id": "p", "budget": 5000}],
        "start_time": start.isoformat(),
        "end_time": (start + timedelta(days=9)).isoformat(),
        **told,
    }


def adopt(**told: Any) -> Deal:
    account = make_account(make_advertiser(), make_seller())
    return media_buy_adopt(account=account, told=buy(**told), user=make_user("Ad Ops"), reason="Their letter")


@pytest.mark.parametrize(
    ("stated", "zone"), [("x" * 70, "UTC"), ("No/Where", "UTC"), ("Europe/Oslo", "Europe/Oslo"), (7, "UTC")]
)
def test_the_zone_of_its_days_is_its_accounts_where_there_is_such_a_one(stated: Any, zone: str) -> None:
    advertiser, seller = make_advertiser(), make_seller(adcp_version="3.2")
    told = {"brand": {"domain": advertiser.brand_domain}, "operator": HOUSE["domain"]}
    told |= {"status": "active", "timezone": stated}
    account = account_record(advertiser=advertiser, seller=seller, answer=told)
    assert media_buy_adopt(account=account, told=buy(), user=make_user("Ad Ops"), reason="So").zone == zone


CANCELLED = {"package_id": "p2", "product_id": "q", "budget": 2000, "canceled": True}
PACKAGES = [{"package_id": "p1", "product_id": "p", "budget": 5000}]
# What the seller states beside a package of 5,000, and what it comes to.
TOTALS: dict[str, tuple[dict[str, Any], int]] = {
    "no total": ({}, 5000),
    "the same": ({"total_budget": 5000}, 5000),
    "more": ({"total_budget": 500_000}, 500_000),
    "less": ({"total_budget": 4000}, 5000),
    "that of what was cancelled too": ({"total_budget": 7000, "packages": [*PACKAGES, CANCELLED]}, 5000),
    "more than what was cancelled": ({"total_budget": 8000, "packages": [*PACKAGES, CANCELLED]}, 8000),
    "of packages without amounts": ({"total_budget": 9000, "packages": [{"package_id": "p1"}]}, 9000),
    "of no packages": ({"total_budget": 9000, "packages": []}, 9000),
}


@pytest.mark.parametrize("stated", TOTALS)
def test_it_comes_to_what_its_seller_states_as_at_every_later_reading(stated: str) -> None:
    told, gross = TOTALS[stated]
    deal = adopt(**told)
    asked = Approval.objects.get(status="open")
    assert (asked.amount, asked.quorum) == (gross, 2 if gross == 500_000 else 1)
    amounts = deal_amounts(fresh(deal))
    assert (amounts.approved, amounts.confirmed) == (0, gross)
    says(deal, "active", **{"packages": PACKAGES, **told})
    assert Approval.objects.get(status="open") == asked, "what is read next is what was asked about"


@pytest.mark.parametrize(
    ("status", "here"),
    [("pending_start", "booked"), ("active", "delivering"), ("paused", "booked"), ("completed", "completed")],
)
@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_nobody_has_approved_it_wherever_it_stands(status: str, here: str, verdict: str) -> None:
    deal = adopt(status=status)
    assert (deal.status, deal.differs, deal_amounts(deal).approved) == (here, True, 0)
    decide(DIFFERENT, verdict)
    deal = fresh(deal)
    assert deal.differs is (verdict == "reject")
    assert deal_amounts(deal).approved == (5000 if verdict == "approve" else 0)


def test_until_it_is_approved_the_first_order_is_still_to_come() -> None:
    deal = asking.adopt(make_user("Ad Ops"))
    follows = make_deal(seller=deal.seller, account=False)
    assert deal_facts(deal, RULES).first_order
    assert deal_facts(follows, RULES).first_order
    decide(DIFFERENT, "approve")
    assert not deal_facts(follows, RULES).first_order


def test_a_first_order_that_is_on_its_way_is_still_the_first() -> None:
    deal, _ = booking()
    assert deal_facts(deal, RULES).first_order
    assert not deal_facts(make_deal(seller=deal.seller, account=False), RULES).first_order
