"""How a campaign ends (model.md): completed when nothing is open and at least one deal was booked."""

from __future__ import annotations

import uuid

from django.db import transaction

from campaigns.models import Campaign
from campaigns.models import CampaignStatus as C
from orders.models import CONFIRMED, UNDECIDED, UNSETTLED, Deal, DealStatus
from orders.services import deal_withdraw_held
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import approval_void
from tasks_app.jobs.endings import JobRefusedError
from tasks_app.jobs.models import Job, JobStatus, StepStatus
from tasks_app.lifecycle.transitions import transition
from tasks_app.people.actors import SYSTEM


def open_questions(campaign: Campaign) -> tuple[uuid.UUID, ...]:
    """Open approvals about deals that are neither booked nor lost."""
    hanging = Deal.objects.filter(campaign_id=campaign.pk, status__in=UNSETTLED).values("pk")
    asked = Approval.objects.filter(subject_type="deal", subject_id__in=hanging, status=ApprovalStatus.OPEN)
    return tuple(asked.values_list("pk", flat=True))


@transaction.atomic
def campaign_finish(*, campaign: Campaign) -> None:
    """executing_bookings → completed or failed, telling how each deal ended. Harmless when repeated."""
    campaign.refresh_from_db()
    if campaign.status != C.EXECUTING_BOOKINGS:
        return
    ended: dict[str, list[str]] = {"booked": [], "rejected": [], "failed": [], "open": []}
    for deal in Deal.objects.filter(campaign_id=campaign.pk).order_by("id"):
        ended[_fate(deal.status)].append(deal.reference)
    to = C.COMPLETED if ended["booked"] and not ended["open"] else C.FAILED
    told = ", ".join(f"{len(deals)} {fate}" for fate, deals in ended.items() if deals)
    transition(campaign, to, actor=SYSTEM, reason=told, metadata=ended, changes={"outcome": ended})


def campaign_job_ended(job: Job) -> None:
    """A campaign whose job came to no good end has failed, for the job's reason; one that ended stays."""
    if job.subject_id is None or job.status == JobStatus.COMPLETED:
        return
    campaign = Campaign.objects.select_for_update(no_key=True).get(pk=job.subject_id)
    if C.FAILED in campaign.declared().targets(campaign.status):
        why = job.error or f"{job.reference} is {job.status.lower()}"
        transition(campaign, C.FAILED, actor=SYSTEM, reason=why[:500], metadata={"job": job.reference})
        _call_off_unsent(campaign, why)


def campaign_job_retried(old: Job, new: Job) -> None:
    """A campaign that failed before anything was put forward goes on from where its job does. Raises
    JobRefusedError."""
    if old.recipe != "campaign" or old.subject_id is None:
        return
    campaign = Campaign.objects.select_for_update(no_key=True).get(pk=old.subject_id)
    if campaign.status != C.FAILED:
        raise JobRefusedError(f"Its campaign is {campaign.get_status_display().lower()}.")
    if Deal.objects.filter(campaign_id=campaign.pk).exists():
        raise JobRefusedError("Its campaign has deals, which were decided: submit a new brief instead.")
    adopted = new.steps.filter(key="allocate", status=StepStatus.COMPLETED).exists()
    onward = (C.BUDGET_ALLOCATED, C.RESEARCHING) if adopted else ()
    for to in (C.INITIALIZED, C.BRIEF_RECEIVED, *onward):
        transition(campaign, to, actor=SYSTEM, reason=f"{new.reference} retries {old.reference}")


def _call_off_unsent(campaign: Campaign, why: str) -> None:
    """What was put forward, or approved and not sent, is of no use any more, nor is the question about it."""
    unsent = (*UNDECIDED, DealStatus.ACCEPTED)
    undecided = Deal.objects.filter(campaign_id=campaign.pk, status__in=unsent).order_by("id")
    asked = Approval.objects.filter(
        subject_type="deal", subject_id__in=undecided.values("pk"), status=ApprovalStatus.OPEN
    )
    for approval in asked.order_by("pk").select_for_update(no_key=True):
        approval_void(approval=approval, reason=f"{campaign.reference}: {why}"[:500])
    for deal in undecided.select_for_update(of=("self",), no_key=True):
        transition(deal, DealStatus.CANCELLED, actor=SYSTEM, reason=f"{campaign.reference}: {why}"[:500])
        deal_withdraw_held(deal=deal, reason=f"{campaign.reference}: {why}"[:500])


def _fate(status: str) -> str:
    if status in CONFIRMED:
        return "booked"
    if status in UNSETTLED:
        return "open"
    return "rejected" if status in (DealStatus.CANCELLED, DealStatus.EXPIRED) else "failed"
