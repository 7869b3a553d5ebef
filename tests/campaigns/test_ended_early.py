"""What becomes of a campaign whose job is cancelled, or retried."""

from __future__ import annotations

import pytest

from campaigns.models import Allocation, Campaign, CampaignStatus
from campaigns.presenters import left_out_words, outcome_words
from campaigns.services import campaign_job, campaign_submit
from orders.models import Deal, DealStatus
from orders.questions import ask_deal
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import ApprovalStatus
from tasks_app.jobs import engine
from tasks_app.jobs.endings import JobRefusedError, job_cancel
from tasks_app.jobs.models import Job, JobStatus
from tasks_app.jobs.retrying import job_retry
from tasks_app.jobs.steering import step_skip
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tasks_app.sellers.models import Seller
from tests.campaigns.briefs import brief
from tests.factories import make_advertiser, make_deal, make_seller, make_user
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import statuses
from tests.operations.making import observed

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
    assert trail.metadata == {"campaign": campaign.reference}, "its end is what who asked is told"
    asked.refresh_from_db()
    assert asked.status == ApprovalStatus.VOIDED


def answered(products: list[dict[str, object]]) -> None:
    """Its one seller is asked for products, and answers these."""
    drain()
    operation = Operation.objects.filter(task_type="get_products").latest("id")
    claim_one(operation_id=operation.pk)
    payload = {"products": products}
    seen = Seen(kind="answer", status="completed", raw_status="completed", payload=payload)
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    publish(operation_id=operation.pk)
    drain()


def in_yen(number: int) -> dict[str, object]:
    price = {"pricing_option_id": "po-1", "pricing_model": "cpm", "currency": "JPY", "fixed_price": 10}
    named = {"product_id": f"p-{number}", "name": f"Product {number}"}
    return {**named, "channels": ["display", "olv", "ctv", "audio", "dooh"], "pricing_options": [price]}


def test_where_nothing_fits_every_product_that_was_offered_is_kept_with_its_reason(
    campaign: Campaign,
) -> None:
    answered([*(in_yen(number) for number in range(8)), {"product_id": "bare", "pricing_options": []}])
    campaign.refresh_from_db()
    assert campaign.status == CampaignStatus.FAILED
    assert path(campaign)[-1] == CampaignStatus.FAILED
    assert path(campaign).count(CampaignStatus.FAILED) == 1
    why = dict(left_out_words(campaign))
    assert {name.rpartition(", ")[2] for name in why} == {*(f"Product {n}" for n in range(8)), "bare"}
    assert "sold in JPY" in why["Norrland Digital, Product 7"]
    assert why["Norrland Digital, bare"] == "has no pricing option with a usable id"
    job = job_of(campaign)
    assert job.status == JobStatus.FAILED
    assert "more" in job.error
    assert outcome_words(campaign) == []


def test_a_retry_begins_without_what_was_left_out_before(campaign: Campaign) -> None:
    answered([in_yen(1)])
    campaign.refresh_from_db()
    assert left_out_words(campaign)
    job_retry(job_id=job_of(campaign).pk, actor=make_user("Ad Ops"), reason="mended")
    campaign.refresh_from_db()
    assert (campaign.status, left_out_words(campaign)) == (CampaignStatus.RESEARCHING, [])


def unoffered(campaign: Campaign) -> Job:
    """Its job, failed as its only seller offered nothing."""
    answered([])
    job = job_of(campaign)
    assert job.status == JobStatus.FAILED
    return job


@pytest.mark.parametrize("step", ["validate", "allocate"])
def test_retried_from_there_its_budget_is_split_anew(campaign: Campaign, step: str) -> None:
    old = unoffered(campaign)
    Allocation.objects.update(amount=1)
    new = job_retry(job_id=old.pk, actor=make_user("Ad Ops"), reason="the split is mended", from_step=step)
    drain()
    campaign.refresh_from_db()
    assert statuses(new)["allocate"] == "completed"
    assert campaign.status == CampaignStatus.RESEARCHING
    assert sum(one.amount for one in campaign.allocations.all()) == campaign.budget


@pytest.mark.parametrize("step", ["validate", "allocate", "research"])
def test_retried_from_there_its_sellers_are_asked_again(campaign: Campaign, step: str) -> None:
    old = unoffered(campaign)
    asked = Operation.objects.count()
    job_retry(job_id=old.pk, actor=make_user("Ad Ops"), reason="there is stock now", from_step=step)
    drain()
    assert Operation.objects.count() == asked + 1


def test_a_seller_that_people_skip_is_no_answer(campaign: Campaign) -> None:
    drain()
    asked = job_of(campaign).steps.get(key="research[0]")
    step_skip(step_id=asked.pk, actor=make_user("Ad Ops"), reason="never answers")
    drain()
    assert "nothing was offered" in job_of(campaign).error


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
