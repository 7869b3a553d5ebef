"""What has run of a media buy that was cancelled is in no sum, and said wherever people read one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from campaigns.commitments import money_of
from campaigns.models import Campaign
from campaigns.surroundings import deal_detail
from orders.amounts import cancelled_running, ran_uncounted
from orders.models import Deal
from orders.questions import ask_deal
from tasks_app import clock
from tasks_app.lifecycle.transitions import transition
from tests.factories import make_deal, make_seller, make_user
from tests.orders.live import booked, standing
from tests.orders.test_amounts import campaign_of

pytestmark = pytest.mark.django_db

# By the status it is cancelled in: days after its flight began, and whether something of it may have run.
CANCELLED = {
    "booked, before its flight": ("booked", -1, False),
    "booked, while its flight went on": ("booked", 1, True),
    "delivering": ("delivering", 5, True),
    "partially_canceled": ("partially_canceled", 5, True),
    "never bought": ("quoted", 5, False),
}


def cancelled(campaign: Campaign, how: str) -> Deal:
    status, days, _ = CANCELLED[how]
    seller = make_seller()
    if status == "quoted":
        deal = make_deal(seller=seller)
        Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign.pk)
        deal.refresh_from_db()
    else:
        deal = booked(seller, media_buy_id=f"mb-{days}-{status}", campaign_id=campaign.pk)
    at = deal.start_at + timedelta(days=days)
    with clock.injected(lambda: at):
        transition(standing(deal, status), "cancelled", actor="system", reason="Not wanted")
    return Deal.objects.get(pk=deal.pk)


@pytest.mark.parametrize("how", CANCELLED)
def test_it_counts_nowhere_and_is_said(how: str, client: Client) -> None:
    campaign = campaign_of(100_000)
    deal, (_, _, may_have_run) = cancelled(campaign, how), CANCELLED[how]
    assert deal.status == "cancelled"
    assert ran_uncounted(deal) is may_have_run
    assert Deal.objects.filter(cancelled_running()).exists() is may_have_run
    assert deal.pk not in money_of([campaign.pk])[campaign.pk].by_deal if money_of([campaign.pk]) else True

    viewer = make_user("Approver", is_staff=True)
    other = make_deal(seller=make_seller("Another"))
    Deal.objects.filter(pk=other.pk).update(campaign_id=campaign.pk)
    question = ask_deal(Deal.objects.get(pk=other.pk))
    budget = deal_detail(other.pk, viewer).budget
    assert budget is not None
    said = f"What ran of {deal.reference} before the cancellation is owed besides"
    assert budget.besides == (said if may_have_run else "")

    client.force_login(viewer)
    pages = {
        "approval": reverse("admin:tasks_app_approval_change", args=[question.pk]),
        "campaign": reverse("admin:campaigns_campaign_change", args=[campaign.pk]),
        "deal": reverse("admin:orders_deal_change", args=[deal.pk]),
    }
    told = {name: "is owed" in client.get(address).content.decode() for name, address in pages.items()}
    assert told == dict.fromkeys(pages, may_have_run)


def test_of_many_the_first_are_named() -> None:
    campaign = campaign_of(100_000)
    deals = [booked(make_seller(f"S{n}"), media_buy_id=f"mb-{n}", campaign_id=campaign.pk) for n in range(5)]
    later = deals[0].start_at + timedelta(days=2)
    with clock.injected(lambda: later):
        for deal in deals[:4]:
            transition(deal, "cancelled", actor="system", reason="Not wanted")
    budget = deal_detail(deals[4].pk, make_user("Approver")).budget
    assert budget is not None
    first = ", ".join(deal.reference for deal in deals[:3])
    assert budget.besides == f"What ran of {first} and others before the cancellation is owed besides"
