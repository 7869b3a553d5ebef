"""What a deal comes to is one definition: question, policies, room, ceiling and campaign all show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from campaigns.commitments import money_of
from campaigns.models import Campaign
from campaigns.rooms import room_for
from campaigns.seller_history import seller_history
from orders.admin import DealAdmin
from orders.amounts import deal_amounts, lines_ordered
from orders.api.serializers import DealSerializer
from orders.ask import Ask, AskRefusedError
from orders.changes.send import change_ask
from orders.committed import committed_beside
from orders.evidence import deal_evidence
from orders.models import Deal
from orders.offers import offers
from orders.presenters import deal_group, departure_words
from orders.questions import DIFFERENT
from orders.request_rules import bid_problem, product_problem
from orders.selectors import deal_gross, deal_sums, deals_with_rows, sums_read
from orders.services import deal_book
from orders.unclaimed.adopt import media_buy_adopt
from orders.unclaimed.question import UNCLAIMED
from tasks_app import clock, ids
from tasks_app.adcp.requests import PackageRequest
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.desk.explain import explain
from tasks_app.lifecycle.transitions import create
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tests.factories import (
    approve_deal,
    make_account,
    make_advertiser,
    make_deal,
    make_line,
    make_seller,
    make_team,
    make_user,
)
from tests.operations.making import observed
from tests.orders import late
from tests.orders.live import packages, says

pytestmark = pytest.mark.django_db
D = Decimal
Packages = list[dict[str, Any]]


def campaign_of(budget: int) -> Campaign:
    campaign = Campaign(
        id=ids.new_id(),
        reference="CMP-2026-900009",
        team=make_team(),
        name="S",
        requested_by="system",
        brief={},
        budget=D(budget),
        currency="USD",
    )
    create(campaign, actor="system", reason="A brief")
    return campaign


def settled(deal: Deal, told: Packages, **extra: Any) -> Deal:
    """The deal, booked by an answer that says so much."""
    approve_deal(deal)
    operation = deal_book(deal=deal)
    claim_one(operation_id=operation.pk)
    result = {"media_buy_id": "mb-9", "media_buy_status": "pending_start", "revision": 1, "packages": told}
    seen = Seen(kind="answer", status="completed", payload={**result, **extra})
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    publish(operation_id=operation.pk)
    deal.refresh_from_db()
    assert deal.status == "booked"
    return deal


def two(**fields: Any) -> Deal:
    return make_deal(make_line(budget=D(10000)), make_line(product_id="b", budget=D(50000)), **fields)


def without(told: Packages, *names: str) -> Packages:
    return [{key: value for key, value in one.items() if key not in names} for one in told]


# What a seller may answer: its packages and more, and what that comes to; None: as approved.
SAID: dict[str, tuple[Callable[[Packages], Packages], dict[str, Any], int | None]] = {
    "as approved": (lambda told: told, {}, None),
    "as approved, with its total": (lambda told: told, {"total_budget": 60000}, None),
    "its total alone": (lambda told: without(told, "budget"), {"total_budget": 60000}, None),
    "no context": (lambda told: without(told, "context"), {}, None),
    "no context, the other way round": (lambda told: without(told, "context")[::-1], {}, None),
    "no names at all": (lambda told: without(told, "context", "package_id", "product_id"), {}, None),
    "less in all": (lambda told: without(told, "budget"), {"total_budget": 30000}, 30000),
    "in floats": (lambda told: [told[0] | {"budget": 10000.000000000002}, told[1]], {}, None),
    "one cancelled": (lambda told: [told[0], told[1] | {"canceled": True}], {}, 10000),
    "one for nothing": (lambda told: [told[0], told[1] | {"budget": 0}], {}, 10000),
    "one missing": (lambda told: told[:1], {}, 10000),
    "one too many": (lambda told: [*told, {"package_id": "x", "product_id": "x", "budget": 7000}], {}, 67000),
    "two for one line": (lambda told: [told[0], told[0], told[1]], {}, 70000),
    "more": (lambda told: [told[0] | {"budget": 90000}, told[1]], {}, 140000),
    "a total of its own": (lambda told: without(told, "budget"), {"total_budget": 90000}, 90000),
    "a total against the packages": (lambda told: told, {"total_budget": 600000}, 600000),
    "another currency": (lambda told: told, {"currency": "EUR"}, 60000),
    "another product": (lambda told: [told[0] | {"product_id": "c"}, told[1]], {}, 60000),
    "another price": (lambda told: [told[0] | {"pricing_option_id": "dear"}, told[1]], {}, 60000),
    "an amount beyond all": (lambda told: [told[0] | {"budget": 1e300}, told[1]], {}, 60000),
}


# Of what these come to nobody is told a number.
NOT_COUNTED = {"another currency", "an amount beyond all"}


@pytest.mark.parametrize("case", SAID)
def test_whatever_a_seller_books_is_compared_and_counted_alike_everywhere(case: str) -> None:
    change, extra, gross = SAID[case]
    campaign = campaign_of(1_000_000)
    deal = two(campaign_id=campaign.pk)
    settled(deal, change(packages(deal)), **extra)
    assert deal.differs == (gross is not None), deal.differences
    comes_to = D(60000 if gross is None else gross)
    beside = make_deal(campaign_id=campaign.pk, seller=deal.seller, account=False)
    room = room_for(beside)
    assert room is not None
    found = {
        "amounts": deal_amounts(deal).committed,
        "campaign": money_of([campaign.pk])[campaign.pk].confirmed,
        "room": 1_000_000 - room.left,
        "ceiling": committed_beside(beside),
        "page": deal_gross([deal.pk])[deal.pk],
    }
    if case in NOT_COUNTED:
        asked = Approval.objects.get(kind=DIFFERENT)
        assert (asked.amount, asked.evidence["confirmed_gross"]) == (None, "not known")
    elif deal.differs:
        asked = Approval.objects.get(kind=DIFFERENT)
        found |= {"question": asked.amount, "evidence": D(asked.evidence["confirmed_gross"])}
    assert set(found.values()) == {comes_to}, found


@pytest.mark.parametrize("case", [case for case in SAID if SAID[case][2] and case not in NOT_COUNTED])
def test_accepted_terms_are_approved_and_differ_in_nothing_when_read_again(case: str) -> None:
    change, extra, gross = SAID[case]
    deal = two()
    told = change(packages(deal))
    settled(deal, told, **extra)
    late.decide(DIFFERENT, "approve")
    deal.refresh_from_db()
    assert (deal.differs, deal_amounts(deal).approved) == (False, gross)
    assert lines_ordered(deal.lines.all()) == gross, "approved is the sum of the lines"
    says(deal, "pending_start", revision=2, packages=told, **extra)
    assert deal.differences == []
    assert verify_entity("deal", deal.pk).ok


@pytest.mark.parametrize("case", sorted(NOT_COUNTED))
def test_what_nobody_can_count_cannot_be_accepted(case: str) -> None:
    change, extra, _ = SAID[case]
    deal = two()
    settled(deal, change(packages(deal)), **extra)
    late.decide(DIFFERENT, "approve")  # the first of two: an unknown amount needs both
    with pytest.raises(DecisionRefusedError, match="cannot read"):
        late.decide(DIFFERENT, "approve")
    assert late.fresh(deal).differs


def test_a_large_amount_in_a_small_currency_is_compared() -> None:
    deal = make_deal(make_line(budget=D(2_000_000_000_000), minimum=None), currency="IDR")
    settled(deal, packages(deal, budget=9_000_000_000_000))
    assert (deal.differs, deal_amounts(deal).confirmed) == (True, 9_000_000_000_000)


def test_money_in_another_currency_is_summed_into_no_campaign() -> None:
    campaign = campaign_of(20000)
    deal = make_deal(campaign_id=campaign.pk, currency="JPY")
    beside = make_deal(campaign_id=campaign.pk, seller=deal.seller, account=False)
    assert (money_of([campaign.pk])[campaign.pk].deals, committed_beside(beside)) == ({beside.pk}, 0)


def test_what_nobody_approved_is_a_change_from_nothing() -> None:
    flight = {"start_time": "2030-01-01T00:00:00Z", "end_time": "2030-02-01T00:00:00Z"}
    package = {"package_id": "p1", "product_id": "olv", "budget": 90000, **flight}
    told = {"media_buy_id": "mb", "status": "active", "currency": "USD", "packages": [package]}
    account = make_account(make_advertiser(), make_seller())
    kept = media_buy_adopt(account=account, user=make_user("Ad Ops"), reason="x", told=told)
    assert (deal_amounts(kept).approved, deal_amounts(kept).confirmed) == (0, 90000)


def test_a_late_purchase_is_asked_about_at_what_was_booked() -> None:
    deal, operation = late.booking()
    late.overdue(operation)
    late.say(operation, "completed", late.bought(deal, budget=500_000.0))
    assert Approval.objects.get(kind=UNCLAIMED).amount == 500_000


def wanted(deal: Deal, *told: dict[str, Any]) -> Ask:
    arguments = {"media_buy_id": deal.media_buy_id, "packages": list(told)}
    user = make_user("Integration", team=deal.team)
    return Ask(user=user, task="update_media_buy", seller=deal.seller, arguments=arguments)


def test_a_package_named_twice_in_a_change_is_refused() -> None:
    deal = two()
    settled(deal, packages(deal))
    with pytest.raises(AskRefusedError) as error:
        change_ask(
            wanted(deal, {"package_id": "pkg-1", "budget": 90000}, {"package_id": "pkg-1", "budget": 10000})
        )
    assert "more than once" in str(error.value.problems)


def changed(deal: Deal, budget: int) -> Operation:
    """A change of the first package, approved and not yet answered."""
    operation = change_ask(wanted(deal, {"package_id": "pkg-1", "budget": budget}))
    late.decide("deal_change", "approve")
    return operation


def test_units_follow_a_changed_budget() -> None:
    deal = two()
    settled(deal, packages(deal))
    line = deal.lines.get(position=1)
    assert line.units is not None
    change = change_ask(wanted(deal, {"package_id": "pkg-1", "budget": 20000}))
    late.decide("deal_change", "approve")
    told = packages(deal, budget=20000)
    late.ended(change, "completed", {"media_buy_id": "mb-9", "revision": 2, "affected_packages": told})
    assert (deal.lines.get(position=1).budget, deal.lines.get(position=1).units) == (20000, line.units * 2)


def test_units_follow_a_budget_that_people_accepted() -> None:
    deal = two()
    line = deal.lines.get(position=1)
    assert line.units is not None
    settled(deal, packages(deal, budget=float(line.budget / 2)))
    late.decide(DIFFERENT, "approve")
    deal = late.fresh(deal)
    assert Decimal(deal_evidence(deal)["lines"][0]["units"]) == line.units / 2


def test_a_bid_on_a_fixed_price_is_refused() -> None:
    option = {"pricing_option_id": "o", "pricing_model": "cpm", "currency": "USD", "fixed_price": 50}
    product = {"product_id": "p", "name": "P", "channels": ["olv"], "pricing_options": [option]}
    (offer,) = offers(make_seller(), [product], {})
    package = PackageRequest(product_id="p", pricing_option_id="o", budget=D(5000))
    assert "cannot be read" in product_problem(package, replace(offer, rate=None))
    assert not product_problem(package, offer)
    assert "fixed" in bid_problem(package.model_copy(update={"bid_price": D(1)}), offer)
    assert not bid_problem(package, offer)


def stated(total: int) -> Deal:
    """Two packages of 10,000; the seller says more, or less, in all, and nothing of them."""
    deal = two()
    settled(deal, without(packages(deal), "budget"), total_budget=total)
    return late.fresh(deal)


def test_pages_show_what_the_seller_states_in_all() -> None:
    deal = stated(75000)
    own = Deal.objects.filter(pk=deal.pk)
    rows = deals_with_rows(own)
    assert rows.gross[deal.pk].confirmed == deal_amounts(deal).confirmed == 75000
    for (one,) in (deal_sums(own), sums_read(rows)):
        assert (one.deals, one.packages, one.approved) == (1, 2, 60000)
        assert (one.confirmed, one.confirmed_of) == (75000, 60000)
    assert "15,000" in departure_words(rows.lines[deal.pk], deal, rows.gross[deal.pk].approved)


def test_sums_of_many_deals_are_those_of_each() -> None:
    campaign = campaign_of(200000)
    deal = stated(75000)
    beside = make_deal(make_line(), make_line(product_id="b"), seller=deal.seller, account=False)
    ours = Deal.objects.filter(pk__in=[deal.pk, beside.pk])
    ours.update(campaign_id=campaign.pk)
    both = [deal_sums(ours), sums_read(deals_with_rows(ours))]
    for sums in both:
        found = {one.status: (one.deals, one.packages, one.approved, one.confirmed) for one in sums}
        budget = sum(line.budget for line in beside.lines.all())
        assert found == {"booked": (1, 2, 60000, 75000), "quoted": (1, 2, budget, None)}


def test_the_api_and_the_list_carry_what_is_confirmed() -> None:
    deal = stated(75000)
    assert DealSerializer(deal).data["confirmed_gross"] == "75000.0000"
    assert "show_confirmed" in DealAdmin.list_display


def test_what_departs_in_the_record_that_completes_a_deal_is_asked_about() -> None:
    campaign = campaign_of(200_000)
    deal = make_deal(make_line(budget=D(10_000)), campaign_id=campaign.pk)
    settled(deal, packages(deal))
    says(deal, "active", revision=3, packages=packages(deal))
    final = packages(deal, budget=99_000.0)
    with clock.injected(lambda: deal.end_at):
        says(deal, "completed", revision=4, packages=final, total_budget=99_000, final=True)
    assert (deal.status, deal.differs, deal_amounts(deal).confirmed) == ("completed", True, 99_000)
    assert money_of([campaign.pk])[campaign.pk].confirmed == 99_000
    while Approval.objects.filter(kind=DIFFERENT, status="open").exists():
        late.decide(DIFFERENT, "approve")
    deal.refresh_from_db()
    assert (deal.differs, deal_amounts(deal).approved) == (False, 99_000)


def test_a_record_that_cancels_a_deal_asks_nothing() -> None:
    deal = two()
    settled(deal, packages(deal))
    says(deal, "canceled", revision=2, packages=packages(deal, budget=0))
    assert (deal.status, deal.differs) == ("cancelled", False)
    assert not Approval.objects.filter(kind=DIFFERENT, status="open").exists()


@pytest.mark.parametrize("total", ["a lot", {"amount": 5}, "EUR"])
def test_a_total_that_nobody_can_read_departs_and_counts_as_no_amount(total: Any) -> None:
    deal = two()
    told = {"currency": "EUR", "total_budget": 90_000} if total == "EUR" else {"total_budget": total}
    settled(deal, without(packages(deal), "budget"), **told)
    assert "total_budget" in {one["field"] for one in deal.differences}
    assert (deal_amounts(deal).confirmed, deal_amounts(deal).committed) == (None, 60_000)


@pytest.mark.parametrize("told", [{}, {"currency": "EUR", "total_budget": 60_000}], ids=["none", "EUR"])
def test_a_seller_that_states_no_amounts_is_said_to_wherever_the_deal_is_shown(told: dict[str, Any]) -> None:
    deal = two()
    silent_packages = without(packages(deal), "budget")
    settled(deal, silent_packages, **told)
    says(deal, "pending_start", revision=2, packages=silent_packages, **told)  # read back: as before
    deal = late.fresh(deal)
    assert deal_amounts(deal).confirmed is None
    silent = "states no amounts"
    viewer = make_user("Approver", is_staff=True)
    client = Client()
    client.force_login(viewer)
    page = client.get(reverse("admin:orders_deal_change", args=[deal.pk])).content.decode()
    rows = deals_with_rows(Deal.objects.filter(pk=deal.pk))
    shown = {
        "page": page,
        "campaign": " ".join(deal_group(deal, rows, {}).notes),
        "evidence": deal_evidence(deal).get("seller_amounts", ""),
        "explain": explain(deal.reference, viewer).waiting_for,
        "history": str(seller_history(viewer, deal.seller_id, without=ids.new_id(), bought=[])),
    }
    expected = dict.fromkeys(shown, silent) | {"history": "'Booked as approved', '0 of 1 booked"}
    assert {where: expected[where] in text for where, text in shown.items()} == dict.fromkeys(shown, True)
    says(deal, "pending_start", revision=3, packages=packages(deal), currency="USD")
    assert "seller_amounts" not in deal_evidence(late.fresh(deal))
