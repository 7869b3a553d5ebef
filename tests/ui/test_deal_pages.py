"""The deals' list and page: state as declared, approved beside confirmed, the trail verified."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from campaigns.surroundings import deal_detail
from orders.acts import can_be_cancelled
from orders.changes.send import CHANGE
from orders.choices import deal_choices
from orders.cost_dates import cost_dates
from orders.models import Deal
from tasks_app.approvals.models import Approval
from tasks_app.desk import text
from tasks_app.desk.text import SPACE
from tasks_app.lifecycle.models import AuditEntry
from tests.ui.pages import STAFF, ClientOf, list_of, page_of, read, stranger
from tests.ui.seed import Agency


@pytest.mark.parametrize("role", STAFF)
def test_list_and_pages_render_for_every_role_with_few_queries(
    agency: Agency, client_of: ClientOf, django_assert_max_num_queries: Any, role: str
) -> None:
    client = client_of(role)
    for address in (list_of(Deal), *(page_of(deal) for deal in agency.deals.values())):
        with django_assert_max_num_queries(25):
            assert client.get(address).status_code == 200, address


def test_another_team_sees_nothing(agency: Agency) -> None:
    client = stranger()
    assert "DEAL-" not in read(client, list_of(Deal)).replace("DEAL-2026-000864", "")
    assert client.get(page_of(agency.deals["lindqvist-norrland"])).status_code in (302, 404)


def test_the_list_shows_campaign_seller_state_and_gross(agency: Agency, client_of: ClientOf) -> None:
    page = read(client_of("Finance"), list_of(Deal))
    assert "Lindqvist Cold Brew Norrland Digital Booked differently pending_creatives" in page
    assert "USD 160,500.00" in page  # as confirmed
    assert "EUR 94,500.00" in page


def test_a_departure_is_told_in_words_with_the_decision_to_take(agency: Agency, client_of: ClientOf) -> None:
    page = read(client_of("Approver"), page_of(agency.deals["lindqvist-norrland"]))
    assert "Booked differently from what was approved." in page
    assert "budget 58,000.00 for 61,500.00 (−5.7 %)" in page
    assert "Decide, due" in page
    assert "Gross; departure −3,500.00, −2.1 %" in page


def test_every_allowed_next_state_is_explained(agency: Agency) -> None:
    for deal in agency.deals.values():
        deal.refresh_from_db()
        choices = deal_choices(deal, list(deal.lines.all()), [])
        assert tuple(choice.text for choice in choices) == deal.declared().targets(deal.status)
        assert all(choice.note for choice in choices)


def test_the_trail_is_whole_and_verified(agency: Agency, client_of: ClientOf) -> None:
    deal = agency.deals["lindqvist-norrland"]
    entries = list(AuditEntry.objects.filter(entity_type="deal", entity_id=deal.pk).order_by("seq"))
    page = read(client_of("Auditor"), page_of(deal))
    assert f"{len(entries)} of {len(entries)} verified" in page
    assert "Rates are under our ceilings; go." in page
    for entry in entries:
        assert bytes(entry.hash).hex()[:8] in page


def test_a_broken_trail_is_said_to_be_broken(
    agency: Agency, client_of: ClientOf, tamper: Callable[..., None]
) -> None:
    deal = agency.deals["aldous-display"]
    tamper(deal, version=7)
    page = read(client_of("Auditor"), page_of(deal))
    assert "The trail does not hold" in page
    assert "verified just now" not in page


def test_dates_that_cost_money_are_stated_ones_in_order(agency: Agency) -> None:
    deal = agency.deals["lindqvist-norrland"]
    deal.refresh_from_db()
    lines = list(deal.lines.all())
    dates = cost_dates(deal, lines, [agency.question("lindqvist-norrland", "booked_differently")])
    assert [date.at for date in dates] == sorted(date.at for date in dates)
    assert {date.kind for date in dates} == {"approval", "creative", "cancel"}
    hold = cost_dates(agency.deals["tamarack-cobalt"], [], [])
    assert [date.kind for date in hold] == ["hold"]


def test_what_the_seller_says_stands_beside_our_state(agency: Agency, client_of: ClientOf) -> None:
    page = read(client_of("Ad Ops"), page_of(agency.deals["lindqvist-norrland"]))
    assert "Says pending_creatives" in page
    assert "media buy nrl-58213 , revision 1" in page
    assert "Invoiced to Halden & Marsh, net 45" in page


def test_terms_and_lines_are_told_with_what_was_approved_and_confirmed(
    agency: Agency, client_of: ClientOf
) -> None:
    deal = agency.deals["lindqvist-norrland"]
    page = read(client_of("Finance"), page_of(deal)).replace("\xa0", " ")
    lines = list(deal.lines.all())
    assert len(lines) == 2
    for line in lines:
        assert line.product_name in page
        assert f"{line.budget:,.2f}" in page
        assert f"{line.confirmed_budget:,.2f}" in page
    assert "14 days" in page, "the notice to cancel"
    assert "<svg" in client_of("Finance").get(page_of(deal)).content.decode(), "the states as a diagram"


@pytest.mark.parametrize(
    ("view", "shown"),
    [("differs", {"lindqvist-norrland"}), ("ended", set()), ("nonsense", {"aldous-display", "halvorsen"})],
)
def test_saved_views_narrow_the_list(agency: Agency, client_of: ClientOf, view: str, shown: set[str]) -> None:
    page = read(client_of("Buyer"), f"{list_of(Deal)}?view={view}")
    for name, deal in agency.deals.items():
        if name in shown or view != "nonsense":
            assert (deal.reference in page) is (name in shown), name


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"act": "withdraw", "reason": "the client withdrew"}, "Confirm that you have read"),
        ({"act": "withdraw", "reason": "  ", "sure": "on"}, "Say why."),
        ({"act": "withdraw", "reason": "x" * 401, "sure": "on"}, "at most 400 characters"),
        ({"act": "cancel", "reason": "the client withdrew", "sure": "on"}, "nothing to cancel at the seller"),
        ({"act": "book", "reason": "now", "sure": "on"}, "there is no such act"),
        ({}, "there is no such act"),
    ],
    ids=str,
)
def test_an_act_takes_a_reason_and_a_confirmation_and_an_allowed_edge(
    agency: Agency, client_of: ClientOf, form: dict[str, str], why: str
) -> None:
    deal = agency.deals["tamarack-cobalt"]
    before = (Deal.objects.get(pk=deal.pk).version, AuditEntry.objects.count(), Approval.objects.count())
    answer = client_of("Buyer").post(page_of(deal), form)
    assert answer.status_code == 409
    assert why in answer.content.decode()
    after = (Deal.objects.get(pk=deal.pk).version, AuditEntry.objects.count(), Approval.objects.count())
    assert after == before


@pytest.mark.parametrize("role", ["Ad Ops", "Finance", "Auditor"])
def test_who_has_no_right_is_offered_no_act_and_refused(
    agency: Agency, client_of: ClientOf, role: str
) -> None:
    for name, act in (("tamarack-cobalt", "withdraw"), ("aldous-display", "cancel")):
        deal, client = agency.deals[name], client_of(role)
        assert f'name="act" value="{act}"' not in client.get(page_of(deal)).content.decode()
        before = (Deal.objects.get(pk=deal.pk).version, Approval.objects.count())
        answer = client.post(page_of(deal), {"act": act, "reason": "because", "sure": "on"})
        assert answer.status_code == 409
        assert "You have no right" in answer.content.decode()
        assert (Deal.objects.get(pk=deal.pk).version, Approval.objects.count()) == before


def test_a_cancellation_is_asked_for_on_the_page_and_decided_by_somebody_else(
    agency: Agency, client_of: ClientOf
) -> None:
    client = client_of("Buyer")
    deal = next(one for one in Deal.objects.order_by("pk") if can_be_cancelled(one))
    shown = client.get(page_of(deal)).content.decode()
    assert 'name="act" value="cancel"' in shown
    assert 'name="act" value="withdraw"' not in shown, "only what its state allows"
    form = {"act": "cancel", "reason": "the client withdrew", "sure": "on"}
    told = client.post(page_of(deal), form, follow=True).content.decode()
    asked = Approval.objects.get(kind=CHANGE, subject_id=deal.pk, status="open")
    assert f"{asked.reference} asks somebody else whether {deal.reference} is cancelled." in told
    assert Deal.objects.get(pk=deal.pk).status == deal.status, "nothing moves before the decision"
    gross = text.amount(sum(line.budget for line in deal.lines.all()), deal.currency)
    page = read(client_of("Approver"), page_of(asked))
    assert "Approve Cancels the whole buy; fee" in page
    assert "Reason: the client withdrew." in page
    assert f"Frees {deal.currency} {gross} the whole buy is cancelled" in page.replace(SPACE, " ")
    assert "Gross after" not in page
    budget = deal_detail(deal.pk, agency.people["Approver"]).budget
    if budget is not None:
        left = text.amount(budget.left_after(Decimal(0)), budget.currency)
        assert f"Budget left after {budget.currency} {left}" in page.replace(SPACE, " ")
