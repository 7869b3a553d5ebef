"""What a seller states and nobody can count is asked for no amount; packages nobody ordered all count."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from orders.adopt import AdoptionRefusedError, media_buy_adopt
from orders.departures import uncounted
from orders.models import Deal
from orders.questions import DIFFERENT, LATE
from tasks_app import clock
from tasks_app.approvals.around import places_about
from tasks_app.approvals.models import Approval
from tasks_app.approvals.presenters import rows
from tests.factories import make_account, make_advertiser, make_line, make_seller, make_user
from tests.orders import late
from tests.orders.live import booked, packages, says

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
ORDERED = 10_250
# What the seller says of the package we ordered, and of the media buy.
TOLD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "another currency": ({"budget": 1_000_000.0}, {"currency": "EUR"}),
    "a package in another currency": ({"budget": 1_000_000.0, "currency": "EUR"}, {}),
    "beyond any purchase": ({"budget": 1e15}, {}),
    "no number": ({"budget": "1,000,000"}, {}),
    "a number behind a long space": ({"budget": f"12{' ' * 100}000"}, {}),
    "a total that is no number": ({}, {"total_budget": "1,000,000"}),
    "a total in another currency": ({}, {"total_budget": 5, "currency": "JPY"}),
}


def small() -> Deal:
    return booked(line=make_line(budget=Decimal(ORDERED)))


def asked_about(deal: Deal, *extra: dict[str, Any], **more: Any) -> Approval:
    """The question after the seller told of ours and of so many packages more."""
    says(deal, "pending_start", packages=[*packages(deal), *extra], **more)
    return Approval.objects.get(kind=DIFFERENT, status="open")


@pytest.mark.parametrize("case", TOLD)
def test_what_cannot_be_counted_is_asked_for_no_amount(case: str) -> None:
    package, more = TOLD[case]
    deal = small()
    says(deal, "pending_start", packages=packages(deal, **package), **more)
    asked = Approval.objects.get(kind=DIFFERENT, status="open")
    assert (asked.amount, asked.evidence["confirmed_gross"], asked.quorum) == (None, "not known", 2)
    stated = str(package.get("budget") or more.get("total_budget"))
    assert stated[:40] in asked.evidence["not_counted"]
    assert any("not known, so it is caught" in one["why"] for one in asked.policies)


@pytest.mark.parametrize("case", ["another currency", "beyond any purchase", "no number"])
def test_a_late_purchase_that_cannot_be_counted_is_asked_for_no_amount(case: str) -> None:
    package, more = TOLD[case]
    deal, operation = late.booking()
    late.overdue(operation)
    result = late.bought(deal, **package)
    late.say(operation, "completed", {**result, **more})
    asked = Approval.objects.get(kind=LATE)
    assert (asked.amount, asked.evidence["confirmed_gross"], asked.quorum) == (None, "not known", 2)


def test_a_page_shows_no_amount_for_what_cannot_be_counted() -> None:
    asked = asked_about(small(), currency="EUR")
    client, viewer = Client(), make_user("Approver", is_staff=True)
    client.force_login(viewer)
    page = client.get(reverse("admin:tasks_app_approval_change", args=[asked.pk])).content.decode()
    assert "Not counted" in page
    listed = client.get(reverse("admin:tasks_app_approval_changelist")).content.decode()
    assert "Accept what was booked" in listed
    (row,) = rows([asked], places_about([("deal", asked.subject_id)], viewer))
    assert row.amount is None


def test_what_was_accepted_and_cannot_be_counted_leaves_the_whole_unknown() -> None:
    deal = small()
    says(deal, "pending_start", packages=packages(deal, budget="1,000,000"))
    while Approval.objects.filter(kind=DIFFERENT, status="open").exists():
        late.decide(DIFFERENT, "approve")
    deal = late.fresh(deal)
    assert not deal.differs
    later = (deal.end_at + timedelta(days=2)).isoformat()
    says(deal, "pending_start", packages=packages(deal, budget="1,000,000", end_time=later))
    assert Approval.objects.get(kind=DIFFERENT, status="open").amount is None


# Packages nobody ordered, which one name may not make one of.
EXTRA: dict[str, list[dict[str, Any]]] = {
    "nameless": [{"budget": 400_000}, {"budget": 1}],
    "of one product": [
        {"product_id": "other", "budget": 400_000},
        {"product_id": "other", "budget": 400_000},
    ],
    "of one long name": [
        {"package_id": "p" * 90 + "1", "product_id": "o", "budget": 400_000},
        {"package_id": "p" * 90 + "2", "product_id": "o", "budget": 1},
    ],
}


@pytest.mark.parametrize("case", EXTRA)
def test_every_package_that_nobody_ordered_counts(case: str) -> None:
    deal = small()
    asked = asked_about(deal, *EXTRA[case])
    comes_to = ORDERED + sum(one["budget"] for one in EXTRA[case])
    assert (late.fresh(deal).confirmed_gross, asked.amount, asked.quorum) == (comes_to, comes_to, 2)
    again = asked_about(deal, *EXTRA[case], revision=3)
    assert again.pk == asked.pk, "told again it is the same"


def test_a_package_that_nobody_ordered_counts_beside_ours_without_amounts() -> None:
    deal, operation = late.booking()
    result = late.bought(deal)
    ours = [{name: value for name, value in one.items() if name != "budget"} for one in result["packages"]]
    extra = {"package_id": "x", "product_id": "z", "budget": 400_000}
    late.say(operation, "completed", {**result, "packages": [*ours, extra]})
    ordered = sum(line.budget for line in deal.lines.all())
    asked = Approval.objects.get(kind=DIFFERENT)
    assert asked.amount == late.fresh(deal).confirmed_gross == ordered + 400_000


def test_a_cancelled_package_that_nobody_ordered_counts_nothing() -> None:
    deal = small()
    asked = asked_about(deal, {"package_id": "x", "product_id": "z", "budget": 5000, "canceled": True})
    assert (asked.amount, late.fresh(deal).confirmed_gross) == (ORDERED, ORDERED)


def test_a_package_that_nobody_ordered_in_another_currency_cannot_be_counted() -> None:
    deal = small()
    extra = {"package_id": "x", "product_id": "z", "budget": 1_500_000, "currency": "JPY"}
    asked = asked_about(deal, extra)
    assert (asked.amount, asked.quorum, asked.evidence["not_counted"]) == (None, 2, "JPY 1500000")
    assert late.fresh(deal).confirmed_gross == ORDERED
    assert uncounted(late.fresh(deal).differences) == ["JPY 1500000"]


@pytest.mark.parametrize("total", [None, 9000])
def test_packages_in_another_currency_are_not_adopted_as_ours(total: int | None) -> None:
    start = clock.now() + timedelta(days=3)
    told = {
        "media_buy_id": "mb-t",
        "status": "active",
        "currency": "USD",
        "total_budget": total,
        "packages": [{"package_id": "p1", "product_id": "p", "budget": 1_500_000, "currency": "JPY"}],
        "start_time": start.isoformat(),
        "end_time": (start + timedelta(days=9)).isoformat(),
    }
    account, user = make_account(make_advertiser(), make_seller()), make_user("Administrator")
    if total is None:
        with pytest.raises(AdoptionRefusedError):
            media_buy_adopt(account=account, told=told, user=user, reason="x")
        return
    deal = media_buy_adopt(account=account, told=told, user=user, reason="x")
    assert deal.confirmed_gross == Approval.objects.get(status="open").amount == total
