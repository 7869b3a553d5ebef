"""What is not put forward is told with its reason, also where something else was: products of a channel in
which nothing was taken, and sellers that offered nothing."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from campaigns import outcome, presenters, proposals
from campaigns.models import Campaign, CampaignStatus
from campaigns.outcome import campaign_finish, fates
from campaigns.presenters import left_out_data, left_out_words
from campaigns.services import campaign_job, campaign_submit
from orders.models import Deal
from tasks_app.adcp.types import Seen, WireError
from tasks_app.approvals import evidence
from tasks_app.approvals.models import Approval
from tasks_app.desk.explain import explain
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tasks_app.people.models import User
from tasks_app.sellers.models import Account
from tests.campaigns.briefs import brief
from tests.factories import make_account, make_advertiser, make_seller, make_user
from tests.operations.making import observed

pytestmark = pytest.mark.django_db
_WORDS = "Your account lacks CTV inventory"


def product(channel: str, currency: str = "USD", number: int = 1) -> dict[str, Any]:
    option = {"pricing_option_id": "o", "pricing_model": "cpm", "currency": currency, "fixed_price": 10}
    named = {"product_id": f"{channel}-{number}", "name": f"Product {channel} {number}"}
    return {**named, "channels": [channel], "pricing_options": [option]}


def answer(*products: dict[str, Any]) -> Seen:
    return Seen(kind="answer", status="completed", payload={"products": list(products)})


def refusal() -> Seen:
    error = WireError(code="POLICY_VIOLATION", message=_WORDS, recovery="terminal")
    return Seen(kind="answer", status="failed", error=error, message=_WORDS)


def put_forward(*ctv: Seen) -> Campaign:
    """A campaign of display and ctv: the one seller's product of display is taken, the other says this."""
    campaign = _submitted()
    for asked in Operation.objects.filter(task_type="get_products").select_related("seller"):
        said = answer(product("display")) if asked.seller.name == "Display" else ctv[0]
        claim_one(operation_id=asked.pk)
        observed(operation_id=asked.pk, seen=said, channel="reply")
        publish(operation_id=asked.pk)
    drain()
    campaign.refresh_from_db()
    assert campaign.status == CampaignStatus.AWAITING_APPROVAL
    assert Deal.objects.filter(campaign_id=campaign.pk).count() == 1
    return campaign


def _submitted(**account: Any) -> Campaign:
    advertiser = make_advertiser("Lindqvist Coffee")
    for name in ("Display", "Ctv"):
        make_account(advertiser, make_seller(name))
    if account:
        Account.objects.filter(seller__name="Ctv").update(**account)
    raw = brief(brand_domain=advertiser.brand_domain)
    campaign = campaign_submit(user=make_user("Buyer"), raw=raw)
    assert campaign.problems == []
    drain()
    return campaign


def page_of(entity: str, pk: Any) -> str:
    who = make_user("Administrator")
    User.objects.filter(pk=who.pk).update(is_staff=True)
    client = Client()
    client.force_login(User.objects.get(pk=who.pk), backend="tasks_app.people.holders.RoleBackend")
    return client.get(reverse(f"admin:{entity}_change", args=[pk])).content.decode()


def told_of(campaign: Campaign) -> str:
    return explain(campaign.reference, make_user("Administrator")).waiting_for


def test_a_channel_of_which_nothing_was_taken_tells_why() -> None:
    campaign = put_forward(answer(product("ctv", "EUR")))
    assert ("Ctv, Product ctv 1", "sold in EUR, the brief is in USD") in left_out_words(campaign)
    page = page_of("campaigns_campaign", campaign.pk)
    assert "What was left out" in page
    assert "Product ctv 1" in page
    assert "Left out" not in told_of(campaign), "every seller offered something"


def test_a_seller_that_refused_is_told_beside_one_that_offered() -> None:
    campaign = put_forward(refusal())
    why = dict(left_out_words(campaign))
    assert _WORDS in why["Ctv"]
    assert _WORDS in told_of(campaign)
    (deal,) = Deal.objects.filter(campaign_id=campaign.pk)
    assert deal.reasons["passed_over"] == [], "it is no offer that was not taken"


def test_a_seller_that_ended_the_account_is_told_beside_one_that_offered() -> None:
    said = "Credit check was not passed"
    campaign = _submitted(status="rejected", said={"message": said, "errors": []})
    (asked,) = Operation.objects.filter(task_type="get_products")
    claim_one(operation_id=asked.pk)
    observed(operation_id=asked.pk, seen=answer(product("display")), channel="reply")
    publish(operation_id=asked.pk)
    drain()
    campaign.refresh_from_db()
    assert campaign.status == CampaignStatus.AWAITING_APPROVAL
    assert said in dict(left_out_words(campaign))["Ctv"]
    assert said in page_of("campaigns_campaign", campaign.pk)
    assert said in told_of(campaign)


def test_what_was_left_out_costs_the_explanation_no_query() -> None:
    campaign = put_forward(refusal())
    viewer = make_user("Administrator")
    explain(campaign.reference, viewer)  # what is read once for all
    with CaptureQueriesContext(connection) as told:
        explain(campaign.reference, viewer)
    Campaign.objects.filter(pk=campaign.pk).update(outcome={})
    with CaptureQueriesContext(connection) as silent:
        explain(campaign.reference, viewer)
    assert len(told) == len(silent)


def test_where_nothing_was_put_forward_the_page_says_why() -> None:
    campaign = _submitted()
    for asked in Operation.objects.filter(task_type="get_products"):
        claim_one(operation_id=asked.pk)
        observed(operation_id=asked.pk, seen=answer(product("ctv", "EUR")), channel="reply")
        publish(operation_id=asked.pk)
    drain()
    campaign.refresh_from_db()
    assert campaign.status == CampaignStatus.FAILED
    page = page_of("campaigns_campaign", campaign.pk)
    assert "Why nothing was put forward" in page
    assert "Product ctv 1" in page


def test_it_stays_with_a_campaign_that_ends() -> None:
    campaign = put_forward(answer(product("ctv", "EUR")))
    left = left_out_words(campaign)
    (deal,) = Deal.objects.filter(campaign_id=campaign.pk)
    transition(campaign, CampaignStatus.EXECUTING_BOOKINGS, actor="system")
    transition(deal, "expired", actor="system", reason="nobody decided")
    assert campaign_finish(campaign=campaign)
    campaign.refresh_from_db()
    assert fates(campaign) == {"booked": [], "rejected": [], "failed": [], "expired": [deal.reference]}
    assert left_out_words(campaign) == left


def test_what_is_not_kept_or_not_shown_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome, "_LEFT_OUT_KEPT", 5)
    monkeypatch.setattr(presenters, "_LEFT_OUT_OPEN", 2)
    monkeypatch.setattr(presenters, "_LEFT_OUT_SHOWN", 3)
    campaign = put_forward(answer(*(product("ctv", "EUR", number) for number in range(7))))
    shown = left_out_data(campaign)
    assert (len(shown["left_out"]), len(shown["left_out_rest"]), shown["more_left_out"]) == (2, 1, 4)
    assert campaign.outcome["left_out_more"] == 2
    assert fates(campaign) == {}
    assert "and 4 more" in page_of("campaigns_campaign", campaign.pk)


def test_what_a_question_does_not_name_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposals, "_PASSED_KEPT", 2)
    put_forward(answer(*(product("display", "EUR", number) for number in range(7))))
    asked = Approval.objects.get()
    assert (len(evidence.passed_over(asked)), evidence.passed_over_more(asked)) == (2, 5)
    page = page_of("tasks_app_approval", asked.pk)
    assert "The first 2 other offers not taken" in page
    assert "and 5 more" in page


def test_the_same_said_of_two_channels_is_told_once() -> None:
    both = {**product("ctv", "EUR"), "channels": ["ctv", "display"]}
    campaign = put_forward(answer(both))
    assert len(campaign.outcome["left_out"]) == 2
    assert len(left_out_words(campaign)) == 1


def test_deals_and_what_was_left_out_are_kept_in_one_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = _submitted()

    def crash(**_: Any) -> None:
        raise RuntimeError("the machine stopped")

    monkeypatch.setattr(proposals, "campaign_put_forward", crash)
    for asked in Operation.objects.filter(task_type="get_products"):
        claim_one(operation_id=asked.pk)
        observed(operation_id=asked.pk, seen=answer(product("display")), channel="reply")
        publish(operation_id=asked.pk)
    drain()
    job = campaign_job(campaign)
    assert job is not None
    assert job.steps.get(key="recommend").attempts == 1
    assert not Deal.objects.exists()


def test_a_seller_without_a_product_is_named_alone_on_the_question() -> None:
    """Its list was not read to its end: no comma that leads nowhere."""
    passed = [
        {"seller": "Norrland Digital", "product": "", "why": "its pages go round in a circle"},
        {"seller": "Quill", "product": "Evening", "why": "costs more"},
    ]
    asked = Approval(evidence={"reasons": {"passed_over": passed}})
    assert [what for what, _ in evidence.passed_over(asked)] == ["Norrland Digital", "Quill, Evening"]
