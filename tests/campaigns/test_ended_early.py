"""What becomes of a campaign whose job is cancelled, or retried."""

from __future__ import annotations

import pytest

from campaigns.models import Campaign, CampaignStatus
from campaigns.services import campaign_job, campaign_submit
from orders.models import Deal, DealStatus
from orders.questions import ask_deal
from tasks_app.approvals.models import ApprovalStatus
from tasks_app.jobs import engine
from tasks_app.jobs.endings import JobRefusedError, job_cancel
from tasks_app.jobs.models import Job, JobStatus
from tasks_app.jobs.retrying import job_retry
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.sellers.models import Seller
from tests.campaigns.briefs import brief
from tests.factories import make_advertiser, make_deal, make_seller, make_user
from tests.jobs.claiming import claim_step

pytestmark = pytest.mark.django_db


@pytest.fixture
def campaign() -> Campaign:
    make_seller()
    domain = make_advertiser("Lindqvist Coffee").brand_domain
    made = campaign_submit(user=make_user("Buyer"), raw=brief(brand_domain=domain))
    assert made.problems == []
    return made


def job_of(campaign: Campaign) -> Job:
    job = campaign_job(campaign)
    assert job is not None
    return job


def path(campaign: Campaign) -> list[str]:
    trail = AuditEntry.objects.filter(entity_id=campaign.pk).order_by("seq")
    return list(trail.values_list("to_status", flat=True))


def test_cancelling_the_job_fails_the_campaign_and_calls_off_what_was_put_forward(campaign: Campaign) -> None:
    deal = make_deal(seller=Seller.objects.get())
    Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign.pk)
    asked = ask_deal(deal)
    job_cancel(job_id=job_of(campaign).pk, actor=make_user("Ad Ops"), reason="the client withdrew")
    campaign.refresh_from_db()
    deal.refresh_from_db()
    assert (campaign.status, deal.status) == (CampaignStatus.FAILED, DealStatus.CANCELLED)
    trail = AuditEntry.objects.filter(entity_id=deal.pk).order_by("-seq").first()
    assert trail is not None
    assert "the client withdrew" in trail.reason
    asked.refresh_from_db()
    assert asked.status == ApprovalStatus.VOIDED


def failed(campaign: Campaign, *, after: int) -> Job:
    """Its job, failed in the step after so many."""
    job = job_of(campaign)
    if after:
        drain(after)
    step = claim_step()
    assert step is not None
    engine.mark_failed(step=step, error="it broke")
    job.refresh_from_db()
    assert job.status == JobStatus.FAILED
    return job


@pytest.mark.parametrize(
    ("after", "walked"),
    [
        (0, ["failed", "initialized", "brief_received"]),
        (1, ["failed", "initialized", "brief_received"]),
    ],
)
def test_a_retried_job_takes_its_campaign_up_again(campaign: Campaign, after: int, walked: list[str]) -> None:
    old = failed(campaign, after=after)
    campaign.refresh_from_db()
    assert campaign.status == CampaignStatus.FAILED
    new = job_retry(job_id=old.pk, actor=make_user("Ad Ops"), reason="mended")
    assert path(campaign)[-len(walked) :] == walked
    assert campaign_job(campaign) == new
    drain(2 - after)
    campaign.refresh_from_db()
    assert campaign.status == CampaignStatus.RESEARCHING


def test_with_deals_put_forward_it_is_not_taken_up_again(campaign: Campaign) -> None:
    old = failed(campaign, after=1)
    deal = make_deal(seller=Seller.objects.get())
    Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign.pk)
    with pytest.raises(JobRefusedError, match="submit a new brief"):
        job_retry(job_id=old.pk, actor=make_user("Ad Ops"), reason="mended")
    campaign.refresh_from_db()
    assert campaign.status == CampaignStatus.FAILED
    assert not Job.objects.filter(retry_of=old).exists()
