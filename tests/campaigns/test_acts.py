"""What people do about a campaign themselves: call it off, try it again, submit its brief corrected."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from campaigns.acts import CampaignActRefusedError, acts_of, campaign_cancel, campaign_retry
from campaigns.models import Campaign, CampaignStatus
from campaigns.selectors import campaign_rows
from campaigns.services import (
    SubmissionRefusedError,
    campaign_brief,
    campaign_job,
    campaign_submit,
)
from campaigns.stages import stages
from campaigns.timeline import timeline
from campaigns.today.money import commitments
from orders.amounts import deal_amounts
from orders.models import Deal, DealStatus
from orders.questions import ask_deal
from orders.services import deal_book, purchases_of
from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.desk.explain import explain_row
from tasks_app.jobs import engine
from tasks_app.jobs.models import Job, JobStatus, StepStatus
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.dispatch import claim_one
from tasks_app.people.models import User
from tasks_app.sellers.models import Seller
from tests.campaigns.briefs import brief
from tests.factories import (
    approve_deal,
    make_account,
    make_advertiser,
    make_deal,
    make_seller,
    make_team,
    make_user,
)
from tests.jobs.claiming import claim_step
from tests.orders.late import BUY, cancellation, decide, overdue, say
from tests.orders.late import bought as buy

pytestmark = pytest.mark.django_db


@pytest.fixture
def buyer() -> User:
    return make_user("Buyer")


@pytest.fixture
def campaign(buyer: User) -> Campaign:
    make_account(make_advertiser("Lindqvist Coffee"), make_seller())
    made = campaign_submit(user=buyer, raw=raw())
    assert made.problems == []
    return made


def raw(**changes: Any) -> dict[str, Any]:
    return brief(brand_domain=make_advertiser("Lindqvist Coffee").brand_domain, **changes)


def put_forward(campaign: Campaign) -> Deal:
    deal = make_deal(seller=Seller.objects.get(), account=False)
    account = make_advertiser("Lindqvist Coffee").accounts.get()
    Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign.pk, account=account)
    deal.refresh_from_db()
    return deal


def state(campaign: Campaign) -> tuple[object, ...]:
    """What a refusal must leave as it is."""
    campaign.refresh_from_db()
    return (campaign.status, campaign.version, Job.objects.count(), Job.objects.get().status)


def test_a_buyer_calls_a_campaign_off(campaign: Campaign, buyer: User) -> None:
    undecided, approved = put_forward(campaign), put_forward(campaign)
    asked = ask_deal(undecided)
    approve_deal(approved)
    approved.refresh_from_db()
    assert approved.status == DealStatus.ACCEPTED
    ended = campaign_cancel(campaign_id=campaign.pk, user=buyer, reason="the client withdrew")
    assert ended.status == CampaignStatus.FAILED
    for deal in (undecided, approved):
        deal.refresh_from_db()
        assert deal.status == DealStatus.CANCELLED
    asked.refresh_from_db()
    assert asked.status == ApprovalStatus.VOIDED
    assert Job.objects.get(subject_id=campaign.pk).status == JobStatus.CANCELLED
    entry = AuditEntry.objects.filter(entity_id=campaign.pk).latest("seq")
    assert entry.reason == f"Called off by {buyer}: the client withdrew"
    job = Job.objects.get(subject_id=campaign.pk)
    ended_job = AuditEntry.objects.filter(entity_id=job.pk).latest("seq")
    assert {entry.actor, ended_job.actor} == {f"human:{buyer.pk}"}, "who did it, not the system"
    moved = AuditEntry.objects.filter(entity_id__in=[undecided.pk, approved.pk], to_status="cancelled")
    assert [one.actor for one in moved] == [f"human:{buyer.pk}"] * 2


def test_who_steers_jobs_calls_a_campaign_off_themselves(campaign: Campaign) -> None:
    steers = make_user("Ad Ops")
    campaign_cancel(campaign_id=campaign.pk, user=steers, reason="the client withdrew")
    entry = AuditEntry.objects.filter(entity_id=Job.objects.get().pk).latest("seq")
    assert entry.actor == f"human:{steers.pk}"


@pytest.mark.parametrize("role", ["Approver", "Finance", "Auditor"])
def test_who_has_no_right_does_nothing(campaign: Campaign, role: str) -> None:
    user, before = make_user(role), state(campaign)
    acts = acts_of(campaign, campaign_job(campaign), who=user)
    assert (acts.cancel, acts.retry, acts.again) == (False, False, False)
    with pytest.raises(CampaignActRefusedError, match="no right"):
        campaign_cancel(campaign_id=campaign.pk, user=user, reason="because")
    with pytest.raises(SubmissionRefusedError):
        campaign_submit(user=user, raw=raw())
    assert state(campaign) == before


def test_another_teams_campaign_is_not_there(campaign: Campaign) -> None:
    before, other = state(campaign), make_user("Administrator", team=make_team("Another"), name="other")
    for act in (campaign_cancel, campaign_retry):
        with pytest.raises(CampaignActRefusedError, match="no such campaign"):
            act(campaign_id=campaign.pk, user=other, reason="because")
    assert state(campaign) == before


def test_a_reason_is_asked_for_and_once_is_enough(campaign: Campaign, buyer: User) -> None:
    before = state(campaign)
    for reason in ("", "  ", "x" * 401):
        with pytest.raises(CampaignActRefusedError):
            campaign_cancel(campaign_id=campaign.pk, user=buyer, reason=reason)
    assert state(campaign) == before
    campaign_cancel(campaign_id=campaign.pk, user=buyer, reason="the client withdrew")
    with pytest.raises(CampaignActRefusedError, match="ended already"):
        campaign_cancel(campaign_id=campaign.pk, user=buyer, reason="once more")


def test_what_failed_early_is_tried_again_by_who_steers_jobs(campaign: Campaign) -> None:
    step = claim_step()
    assert step is not None
    engine.mark_failed(step=step, error="the seller is gone")
    campaign.refresh_from_db()
    job, steers = campaign_job(campaign), make_user("Ad Ops")
    assert campaign.status == CampaignStatus.FAILED
    assert acts_of(campaign, job, who=steers).retry
    new = campaign_retry(campaign_id=campaign.pk, user=steers, reason="it is back")
    campaign.refresh_from_db()
    assert (new.retry_of, campaign.status) == (job, CampaignStatus.BRIEF_RECEIVED)


def test_what_failed_is_not_tried_again_for_a_flight_that_has_begun(campaign: Campaign) -> None:
    step = claim_step()
    assert step is not None
    engine.mark_failed(step=step, error="the seller is gone")
    campaign.refresh_from_db()
    begins, steers = campaign_brief(campaign).flight.start_at, make_user("Ad Ops")
    for moment in (begins, begins + timedelta(days=300)):
        refused = pytest.raises(CampaignActRefusedError, match="flight has begun")
        with clock.injected(lambda moment=moment: moment), refused:
            assert not acts_of(campaign, campaign_job(campaign), who=steers).retry
            campaign_retry(campaign_id=campaign.pk, user=steers, reason="it is back")
    campaign.refresh_from_db()
    assert campaign.status == CampaignStatus.FAILED
    with clock.injected(lambda: begins - timedelta(seconds=1)):
        campaign_retry(campaign_id=campaign.pk, user=steers, reason="it is back")


def test_a_deal_that_was_sent_is_not_called_off_with_the_campaign(campaign: Campaign, buyer: User) -> None:
    deal = put_forward(campaign)
    approve_deal(deal)
    deal.refresh_from_db()
    transition(deal, DealStatus.BOOKING, actor="system", reason="sent")
    campaign_cancel(campaign_id=campaign.pk, user=buyer, reason="the client withdrew")
    deal.refresh_from_db()
    assert deal.status == DealStatus.BOOKING


def test_calling_it_off_leaves_a_late_purchase_with_somebody(campaign: Campaign, buyer: User) -> None:
    """Its job waits for two answers: what was never sent ends with it, what a seller holds does not."""
    bought, undecided = put_forward(campaign), put_forward(campaign)
    asked = late_purchase(bought)
    never_sent = ask_deal(undecided)
    step = claim_step()
    assert step is not None
    wait = {"type": "approvals", "ids": [str(asked.pk), str(never_sent.pk)]}
    engine.mark_waiting(step=step, status=StepStatus.AWAITING_USER, reason="2 are open", waiting_for=wait)

    campaign_cancel(campaign_id=campaign.pk, user=buyer, reason="the client withdrew")

    for one in (asked, never_sent, bought):
        one.refresh_from_db()
    assert (asked.status, never_sent.status) == (ApprovalStatus.OPEN, ApprovalStatus.VOIDED)
    assert bought.status == DealStatus.BOOKING
    decide("unclaimed", "reject")
    assert cancellation().request["media_buy_id"] == BUY


def late_purchase(deal: Deal) -> Approval:
    """Its purchase was completed after its deadline, and people are asked about it."""
    approve_deal(deal)
    operation = deal_book(deal=deal)
    claim_one(operation_id=operation.pk)
    say(operation, "submitted", channel="reply")
    overdue(operation)
    say(operation, "completed", buy(deal))
    return Approval.objects.get(kind="unclaimed", status="open")


def test_what_runs_on_after_it_was_called_off_is_said_and_counted(campaign: Campaign, buyer: User) -> None:
    """One deal is booked, one is with its seller, one was never sent."""
    booked, out, unsent = (put_forward(campaign) for _ in range(3))
    for deal in (booked, out):
        approve_deal(deal)
        claim_one(operation_id=deal_book(deal=deal).pk)
        say(purchases_of(deal).get(), "submitted", channel="reply")
    say(purchases_of(booked).get(), "completed", buy(booked))
    campaign_cancel(campaign_id=campaign.pk, user=buyer, reason="the client withdrew")
    campaign.refresh_from_db()
    assert campaign.status == CampaignStatus.FAILED
    told = explain_row("campaign", campaign.pk, buyer).waiting_for
    assert "of its deals 1 booked, 1 may still be booked" in told
    rows = campaign_rows(campaign)
    assert stages(rows, ())[-1].line == "1 booked, 1 may still be booked"
    (bar,) = commitments(buyer)
    assert bar.taken == deal_amounts(booked).approved + deal_amounts(out).approved
    said = [event.text for event in timeline(rows)]
    assert any(f"called {unsent.seller} off" in one for one in said)
    assert not any("rejected" in one for one in said)
