"""A change is asked for what the deal comes to afterwards, with what runs besides; for no amount where nobody
can count it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from campaigns.gates import why_closed
from orders.amounts import deal_amounts
from orders.changes import change_ask
from orders.models import Deal
from orders.questions import CHANGE_NOT_SHOWN, DIFFERENT
from tasks_app.approvals.models import Approval
from tasks_app.commands.models import Command
from tasks_app.operations.ordering import CHANGE
from tests.factories import make_deal, make_line
from tests.orders import late
from tests.orders.live import packages, says
from tests.orders.test_accepted import accepted
from tests.orders.test_amounts import campaign_of, settled, two, wanted, without

pytestmark = pytest.mark.django_db
D = Decimal
EXTRA = {"package_id": "x", "product_id": "x", "budget": 500_000}
# What the seller booked beside both packages, and people accepted.
BESIDE: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "a package that nobody ordered": ([EXTRA], {}),
    "a total above the packages": ([], {"total_budget": 560_000}),
}
# What is changed of packages of 10,000 and 50,000, and by how much that is more.
CHANGES: dict[str, tuple[list[dict[str, Any]], int]] = {
    "one": ([{"package_id": "pkg-1", "budget": 20_000}], 10_000),
    "every": ([{"package_id": "pkg-1", "budget": 20_000}, {"package_id": "pkg-2", "budget": 50_000}], 10_000),
}


def asked_for(kind: str = "deal_change") -> Approval:
    return Approval.objects.get(kind=kind, status="open")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("beside", BESIDE)
def test_a_change_is_asked_for_what_counts_afterwards(beside: str, change: str) -> None:
    extra, more = BESIDE[beside]
    named, by = CHANGES[change]
    campaign = campaign_of(565_000)
    deal = two(campaign_id=campaign.pk)
    settled(deal, [*packages(deal), *extra], **more)
    accepted(deal)
    assert deal_amounts(deal).committed == 560_000
    Deal.objects.filter(pk=deal.pk).update(campaign_id=None)  # what is asked does not fit there
    operation = change_ask(wanted(deal, *named))
    asked = asked_for()
    assert (asked.amount, asked.quorum) == (560_000 + by, 2)
    Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign.pk)
    command = Command(
        kind=CHANGE, subject_type="deal", subject_id=deal.pk, payload={"arguments": operation.request}
    )
    assert "would come to 570000" in why_closed(command)
    Deal.objects.filter(pk=deal.pk).update(campaign_id=None)
    while Approval.objects.filter(kind="deal_change", status="open").exists():
        late.decide("deal_change", "approve")
    told = packages(deal, budget=20_000)
    total = {name: value + by for name, value in more.items()}
    late.ended(
        operation, "completed", {"media_buy_id": "mb-9", "revision": 2, "affected_packages": told, **total}
    )
    deal = says(late.fresh(deal), "pending_start", revision=3, packages=[*told, *extra], **total)
    assert (deal.differs, deal_amounts(deal).approved) == (False, asked.amount), deal.differences


def uncounted() -> Deal:
    """Booked and accepted with a package whose amount is in another currency."""
    deal = make_deal(make_line(budget=D(1000)), make_line(product_id="b", budget=D(1000), minimum=None))
    told = packages(deal)
    settled(deal, [told[0], {**told[1], "currency": "EUR", "budget": 900_000}])
    return accepted(deal)


def raised(deal: Deal) -> Any:
    return change_ask(wanted(deal, {"package_id": "pkg-1", "budget": 1001}))


def let_go(deal: Deal) -> Any:
    operation = raised(deal)
    while Approval.objects.filter(kind="deal_change", status="open").exists():
        late.decide("deal_change", "approve")
    return operation


def changed(deal: Deal) -> Approval:
    raised(deal)
    return asked_for()


def not_shown(deal: Deal) -> Approval:
    late.ignored(let_go(deal), "mb-9")
    return asked_for(CHANGE_NOT_SHOWN)


def answered(deal: Deal) -> Approval:
    late.answered(late.paused(let_go(deal)))
    return Approval.objects.latest("pk")


@pytest.mark.parametrize("way", [changed, not_shown, answered])
def test_a_change_of_what_cannot_be_counted_is_asked_for_no_amount(way: Any) -> None:
    asked = way(uncounted())
    assert (asked.status, asked.amount) == ("open", None)
    assert asked.quorum == 2 or asked.kind == CHANGE_NOT_SHOWN, "nothing is sent by that"
    assert asked.evidence.get("gross_after", "not known") == "not known"


# What a seller may book and say again word by word: the packages it names, and its total.
AGAIN: dict[str, tuple[Any, dict[str, Any]]] = {
    "trimmed, the total as ordered": (
        lambda told: [told[0] | {"budget": 8000}, told[1]],
        {"total_budget": 60_000},
    ),
    "cancelled without its amount, the total as ordered": (
        lambda told: [told[0], told[1] | {"canceled": True, "budget": None}],
        {"total_budget": 60_000},
    ),
    "a product of another long name": (lambda told: [told[0] | {"product_id": "p" * 90 + "2"}, told[1]], {}),
    "extras without a name": (lambda told: [*told, {"budget": 400}, {"budget": 1}], {}),
}


@pytest.mark.parametrize("case", AGAIN)
def test_what_people_accepted_and_a_seller_says_again_is_asked_once(case: str) -> None:
    of, more = AGAIN[case]
    first = make_line(product_id="p" * 90 + "1", budget=D(10_000))
    deal = make_deal(first, make_line(product_id="b", budget=D(50_000)))
    told = of(packages(deal))
    settled(deal, told, **more)
    assert all(
        one["approved"] != one["confirmed"] for one in deal.differences if one["field"] != "product_id"
    )
    accepted(deal)
    asked = Approval.objects.filter(kind=DIFFERENT).count()
    for revision, record in enumerate((told, [*told[:2], *told[:1:-1]], told), start=2):
        deal = says(deal, "pending_start", revision=revision, packages=record, **more)
        assert (deal.differs, deal.differences) == (False, [])
    assert Approval.objects.filter(kind=DIFFERENT).count() == asked


def test_a_total_that_comes_to_what_the_packages_once_were_is_accepted_too() -> None:
    deal = make_deal(make_line(budget=D(100_000)))
    settled(deal, packages(deal, budget=80_000), total_budget=100_000)
    accepted(deal)
    told = packages(deal, budget=120_000)
    for revision in (2, 3):
        says(deal, "pending_start", revision=revision, packages=told, total_budget=80_000)
        accepted(deal) if revision == 2 else None
    assert not late.fresh(deal).differs


@pytest.mark.parametrize("total", [50_000, 70_000])
@pytest.mark.parametrize("every", [True, False])
def test_a_change_of_what_was_confirmed_in_one_amount(every: bool, total: int) -> None:
    """All of its packages said anew are the deal; of one alone, the rest of the total stays."""
    deal = two()
    settled(deal, without(packages(deal), "budget"), total_budget=total, currency="USD")
    deal = accepted(deal)
    assert deal_amounts(deal).committed == total
    raised = {"package_id": "pkg-1", "budget": 20_000}
    change_ask(wanted(deal, raised, *([{"package_id": "pkg-2", "budget": 90_000}] if every else [])))
    asked = asked_for()
    assert (asked.amount, asked.quorum) == ((110_000, 2) if every else (total + 10_000, 1))
