"""A campaign ends only when nothing of it is open: no cancellation, question, or account that is awaited."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from campaigns.actions import complete
from campaigns.explain import progress_of
from campaigns.explain_words import campaign_answers
from campaigns.models import Campaign, CampaignStatus
from campaigns.outcome import campaign_finish
from campaigns.services import campaign_job, campaign_submit
from orders.models import Deal, DealStatus
from orders.questions import DIFFERENT
from orders.unclaimed.question import UNCLAIMED
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.jobs.actions import WaitForAccount, WaitForApprovals, WaitForOperation, WaitUntil
from tasks_app.jobs.endings import JobRefusedError, job_cancel
from tasks_app.jobs.expiry import job_recover
from tasks_app.jobs.left import wait_left
from tasks_app.jobs.models import Job, JobStatus, Step
from tasks_app.jobs.steering import step_skip
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.sellers.accounts_told import account_record
from tasks_app.sellers.models import Account
from tests.campaigns.booking import (
    CHANNELS,
    booked_by_its_seller,
    deal_of,
    decide,
    purchase,
    put_forward,
    said,
    status,
)
from tests.campaigns.briefs import brief
from tests.factories import approve_deal, make_advertiser, make_deal, make_seller, make_user
from tests.orders import late as buying
from tests.orders.live import booked

pytestmark = pytest.mark.django_db


def executing() -> tuple[Campaign, Deal, Deal]:
    """A campaign with a booked deal, and one whose late purchase people want cancelled."""
    advertiser = make_advertiser("Lindqvist Coffee")
    campaign = campaign_submit(user=make_user("Buyer"), raw=brief(brand_domain=advertiser.brand_domain))
    for to in ("budget_allocated", "researching", "awaiting_approval", "executing_bookings"):
        transition(campaign, to, actor="system")
    good, (late, operation) = booked(make_seller("Good")), buying.booking(make_seller("Late"))
    Deal.objects.filter(pk__in=[good.pk, late.pk]).update(campaign_id=campaign.pk)
    buying.overdue(operation)
    buying.say(operation, "completed", buying.bought(late))
    buying.decide(UNCLAIMED, "reject")
    return campaign, good, late


def finishing(campaign: Campaign) -> Any:
    job = SimpleNamespace(inputs={"campaign_id": str(campaign.pk)})
    run: Any = SimpleNamespace(job=job, inputs={})
    return complete(run)


def test_a_campaign_waits_while_one_of_its_deals_is_being_cancelled() -> None:
    campaign, good, late = executing()
    assert finishing(campaign) == WaitForOperation(operation_id=buying.cancellation().pk)
    assert campaign_finish(campaign=campaign) is False
    assert status(campaign) == CampaignStatus.EXECUTING_BOOKINGS

    buying.ended(
        buying.cancellation(), "completed", {"media_buy_id": buying.BUY, "media_buy_status": "canceled"}
    )
    late.refresh_from_db()
    assert late.status == DealStatus.CANCELLED
    finishing(campaign)
    assert status(campaign) == CampaignStatus.COMPLETED
    ended = {"booked": [good.reference], "rejected": [], "failed": [], "cancelled": [late.reference]}
    assert campaign.outcome == ended


def booked_otherwise() -> tuple[Campaign, Deal]:
    """A campaign whose one deal was booked, but not as it was approved: people are asked."""
    advertiser = make_advertiser("Lindqvist Coffee")
    campaign = campaign_submit(user=make_user("Buyer"), raw=brief(brand_domain=advertiser.brand_domain))
    for to in ("budget_allocated", "researching", "awaiting_approval", "executing_bookings"):
        transition(campaign, to, actor="system")
    deal, operation = buying.booking(make_seller("Late"))
    Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign.pk)
    buying.say(operation, "completed", buying.bought(deal, budget=12_000.0))
    return campaign, buying.fresh(deal)


def test_a_campaign_waits_for_whether_what_was_booked_will_do() -> None:
    campaign, deal = booked_otherwise()
    asked = Approval.objects.get(kind=DIFFERENT)
    assert finishing(campaign) == WaitForApprovals(approval_ids=(asked.pk,))
    assert campaign_finish(campaign=campaign) is False
    assert asked.title in campaign_answers(progress_of(campaign)).waiting

    buying.decide(DIFFERENT, "approve")

    finishing(campaign)
    assert status(campaign) == CampaignStatus.COMPLETED
    assert campaign.outcome == {"booked": [deal.reference], "rejected": [], "failed": []}


def test_a_campaign_waits_for_the_cancellation_of_what_was_booked() -> None:
    campaign, deal = booked_otherwise()
    buying.decide(DIFFERENT, "reject")
    assert finishing(campaign) == WaitForOperation(operation_id=buying.cancellation().pk)
    assert campaign_finish(campaign=campaign) is False
    assert campaign_answers(progress_of(campaign)).waiting == (
        "It waits for the cancellation of 1 booked deal."
    )

    buying.ended(
        buying.cancellation(), "completed", {"media_buy_id": buying.BUY, "media_buy_status": "canceled"}
    )

    finishing(campaign)
    assert status(campaign) == CampaignStatus.FAILED
    assert campaign.outcome == {"booked": [], "rejected": [], "failed": [], "cancelled": [deal.reference]}


def test_its_last_step_is_not_skipped_while_something_is_open() -> None:
    """Nothing else would end the campaign."""
    campaign = put_forward()
    first, second = (deal_of(campaign, channel) for channel in CHANNELS)
    decide(first)
    decide(second, "reject")
    assert claim_one(operation_id=purchase(first).pk) is not None, "it is with its seller"
    job, ops = campaign_job(campaign), make_user("Ad Ops")
    assert job is not None
    steps = Step.objects.filter(job=job, status__in=("awaiting_tool", "awaiting_user"))
    while (step := steps.exclude(key="complete").first()) is not None:
        step_skip(step_id=step.pk, actor=ops, reason="Not waited for")
        drain()
    last = Step.objects.get(job=job, key="complete")

    with pytest.raises(JobRefusedError, match=f"{campaign.reference} is open"):
        step_skip(step_id=last.pk, actor=ops, reason="Not waited for")

    assert status(campaign) == CampaignStatus.EXECUTING_BOOKINGS
    job.refresh_from_db()
    assert job.status == JobStatus.PROCESSING


def test_where_the_seller_does_not_cancel_it_waits_for_people() -> None:
    campaign, _good, _late = executing()
    buying.ended(buying.cancellation(), "failed")
    assert isinstance(finishing(campaign), WaitForApprovals)
    assert status(campaign) == CampaignStatus.EXECUTING_BOOKINGS


def test_where_an_account_is_not_active_it_waits_for_that_however_long() -> None:
    """An approved deal that is booked by itself, as one in the place of a lost one: that is no time of the
    campaign's own, after which it would fail and call the deal off."""
    campaign, _good, late = executing()
    transition(late, DealStatus.CANCELLED, actor="system", reason="Lost")
    anew = make_deal(seller=make_seller("Slow"))
    approve_deal(anew)
    Deal.objects.filter(pk=anew.pk).update(campaign_id=campaign.pk)
    Account.objects.filter(pk=anew.account_id).update(status="payment_required")

    waits = finishing(campaign)

    assert isinstance(waits, WaitForAccount)
    assert waits.account_id == anew.account_id
    Account.objects.filter(pk=anew.account_id).update(status="active")
    assert isinstance(finishing(campaign), WaitUntil), "its own booking goes on"


def waiting_for_an_account() -> tuple[Campaign, Deal, Step]:
    """A campaign with a booked deal, and an approved one, booked by itself, whose account is not active; with
    the step that would end it."""
    campaign = put_forward()
    first, second = (deal_of(campaign, channel) for channel in CHANNELS)
    decide(first)
    booked_by_its_seller(first)
    anew = make_deal(seller=make_seller("Slow"))
    Account.objects.filter(pk=anew.account_id).update(status="pending_approval")
    approve_deal(anew)
    Deal.objects.filter(pk=anew.pk).update(campaign_id=campaign.pk)
    decide(second, "reject")
    drain()
    step = Step.objects.get(job__subject_id=campaign.pk, key="complete")
    assert step.waiting_for is not None
    assert step.waiting_for["type"] == "account"
    return campaign, anew, step


def test_a_campaign_that_waits_for_the_account_of_a_deal_that_is_called_off_ends() -> None:
    """Its account may never be active: nobody needs it any more."""
    campaign, anew, _ = waiting_for_an_account()
    booking = Job.objects.get(recipe="book_deal", subject_id=anew.pk)
    job_cancel(job_id=booking.pk, actor=make_user("Ad Ops"), reason="it takes too long")
    later = clock.now() + timedelta(minutes=16)
    with clock.injected(lambda: later):
        drain()

    assert Deal.objects.get(pk=anew.pk).status == DealStatus.CANCELLED
    assert status(campaign) == CampaignStatus.COMPLETED


def test_nobody_says_how_long_an_account_takes() -> None:
    _, _, step = waiting_for_an_account()
    assert step.ready_at is not None, "it looks again by itself"
    assert wait_left(step, {}) is None


def test_a_lost_word_of_an_account_is_made_up_for_although_it_looks_again_later() -> None:
    _, anew, step = waiting_for_an_account()
    assert job_recover(step.job) == 0
    Account.objects.filter(pk=anew.account_id).update(status="active")
    assert job_recover(step.job) == 1
    step.refresh_from_db()
    assert step.ready_at is not None
    assert step.ready_at <= clock.now()


def test_what_would_look_again_by_itself_goes_on_as_soon_as_the_account_is_active() -> None:
    _, anew, step = waiting_for_an_account()
    account = Account.objects.select_related("advertiser", "seller").get(pk=anew.account_id)
    told = {"status": "active", **account.reference}
    account_record(advertiser=account.advertiser, seller=account.seller, answer=told)
    step.refresh_from_db()
    assert step.ready_at is not None
    assert step.ready_at <= clock.now()


def test_an_open_deal_that_hangs_on_nothing_known_is_looked_at_again() -> None:
    campaign, _good, late = executing()
    Operation.objects.filter(subject_id=late.pk).update(published_at=clock.now())
    assert isinstance(finishing(campaign), WaitUntil)
    assert status(campaign) == CampaignStatus.EXECUTING_BOOKINGS


def test_a_campaign_whose_deals_are_settled_waits_for_its_job() -> None:
    campaign, _good, late = executing()
    buying.ended(
        buying.cancellation(), "completed", {"media_buy_id": buying.BUY, "media_buy_status": "canceled"}
    )
    late.refresh_from_db()
    assert late.status == DealStatus.CANCELLED
    assert said(campaign).waiting_for == "All its deals are settled; its job ends it next."
