"""How a campaign ends: completed when nothing is open and at least one deal was booked."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from campaigns.models import ENDED, Campaign
from campaigns.models import CampaignStatus as C
from campaigns.services import campaign_brief
from orders.accounts import deal_account
from orders.calling_off import deals_call_off
from orders.changes.open_changes import cancels_all
from orders.models import CONFIRMED, LIVE, UNSETTLED, Deal, DealStatus
from orders.questions import DIFFERENT
from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.jobs.endings import JobRefusedError
from tasks_app.jobs.models import Job, JobStatus, StepStatus
from tasks_app.jobs.over import job_beginner, job_ender
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.models import Operation
from tasks_app.people.actors import SYSTEM
from tasks_app.people.roles import STEER_JOB, SUBMIT_CAMPAIGN

# In an outcome, beside the fates of deals: what was not taken, each with why, and how many more there were
# than are kept.
LEFT_OUT, LEFT_OUT_MORE = "left_out", "left_out_more"
_LEFT_OUT_KEPT = 1000
# Either calls a campaign off, with what was put forward and not sent.
CALL_OFF = (SUBMIT_CAMPAIGN, STEER_JOB)


def open_questions(campaign: Campaign) -> tuple[uuid.UUID, ...]:
    """Open approvals about deals that are neither booked nor lost, and whether what was booked will do."""
    hanging = Deal.objects.filter(campaign_id=campaign.pk, status__in=UNSETTLED).values("pk")
    asked = Approval.objects.filter(subject_type="deal", status=ApprovalStatus.OPEN)
    found = asked.filter(subject_id__in=hanging) | _unaccepted(campaign)
    return tuple(found.values_list("pk", flat=True))


def operation_out(campaign: Campaign) -> Operation | None:
    """What has not ended about a deal that is neither booked nor lost: its cancellation, or a purchase that
    was approved in the place of one that came to nothing; and the cancellation of one that is booked."""
    hanging = Deal.objects.filter(campaign_id=campaign.pk, status__in=UNSETTLED).values("pk")
    out = Operation.objects.filter(subject_type="deal", subject_id__in=hanging, published_at=None)
    return out.order_by("pk").first() or next(iter(_leaving(campaign)), None)


def booked_and_open(campaign: Campaign) -> set[uuid.UUID]:
    """The booked deals that may yet be none: people are asked whether what was booked will do, or the
    cancellation is not over."""
    asked = _unaccepted(campaign).values_list("subject_id", flat=True)
    return {pk for pk in (*asked, *(one.subject_id for one in _leaving(campaign))) if pk is not None}


def _unaccepted(campaign: Campaign) -> QuerySet[Approval]:
    booked = Deal.objects.filter(campaign_id=campaign.pk, status__in=LIVE).values("pk")
    asked = Approval.objects.filter(kind=DIFFERENT, subject_type="deal", status=ApprovalStatus.OPEN)
    return asked.filter(subject_id__in=booked)


def _leaving(campaign: Campaign) -> list[Operation]:
    booked = Deal.objects.filter(campaign_id=campaign.pk, status__in=LIVE).values("pk")
    changes = Operation.objects.filter(
        subject_type="deal", subject_id__in=booked, task_type="update_media_buy", published_at=None
    )
    return [one for one in changes.order_by("pk") if cancels_all(one.request)]


def account_out(campaign: Campaign) -> uuid.UUID | None:
    """The account under which an approved deal is to be bought once its seller, or who switched it off here,
    has made it active."""
    approved = Deal.objects.filter(campaign_id=campaign.pk, status=DealStatus.ACCEPTED).order_by("id")
    deals = approved.select_related("account__advertiser", "account__seller", "advertiser", "seller")
    return next((deal.account_id for deal in deals if deal_account(deal).awaited), None)


@transaction.atomic
def campaign_execute(*, accepted: Sequence[Deal]) -> None:
    """awaiting_approval → executing_bookings with the first of its deals that are to be booked. Harmless when
    repeated."""
    of = {deal.campaign_id for deal in accepted if deal.campaign_id is not None}
    told = {"accepted": [deal.reference for deal in accepted]}
    waiting = Campaign.objects.filter(pk__in=of, status=C.AWAITING_APPROVAL)
    for campaign in waiting.select_for_update(no_key=True):
        transition(campaign, C.EXECUTING_BOOKINGS, actor=SYSTEM, metadata=told)


@transaction.atomic
def campaign_finish(*, campaign: Campaign) -> bool:
    """executing_bookings → completed or failed, telling how each deal ended; answers whether it is over. Not
    while a deal is open, or may yet be cancelled: it may yet be booked, or cost money. Harmless when
    repeated."""
    campaign.refresh_from_db()
    if campaign.status != C.EXECUTING_BOOKINGS:
        return True
    if booked_and_open(campaign):
        return False
    ended: dict[str, list[str]] = {"booked": [], "rejected": [], "failed": []}
    deals = Deal.objects.filter(campaign_id=campaign.pk)
    refused = _refused(deals)
    for deal in deals.order_by("id"):
        if deal.status in UNSETTLED:
            return False
        ended.setdefault(_fate(deal.status, refused=deal.pk in refused), []).append(deal.reference)
    to = C.COMPLETED if ended["booked"] else C.FAILED
    told = ", ".join(f"{len(deals)} {fate}" for fate, deals in ended.items() if deals)
    outcome = {**campaign.outcome, **ended}
    transition(campaign, to, actor=SYSTEM, reason=told, metadata=ended, changes={"outcome": outcome})
    return True


def fates(campaign: Campaign) -> dict[str, list[str]]:
    """The references of its deals by how they ended; empty before."""
    return {fate: deals for fate, deals in campaign.outcome.items() if fate not in (LEFT_OUT, LEFT_OUT_MORE)}


def runs_on_words(booked: int, out: int) -> str:
    """Of a campaign that has failed, what goes on without it: deals that are booked, and those that are out
    with their sellers; empty where nothing does."""
    out_words = f"{out} may still be booked" if out else ""
    return ", ".join(filter(None, (f"{booked} booked" if booked else "", out_words)))


def campaign_put_forward(
    *, campaign: Campaign, deals: Sequence[Deal], left_out: Sequence[Mapping[str, Any]]
) -> None:
    """researching → awaiting_approval with what was put forward; what was not is kept, each with its reason.
    Harmless when repeated."""
    if campaign.status == C.RESEARCHING:
        transition(
            campaign,
            C.AWAITING_APPROVAL,
            actor=SYSTEM,
            metadata={"deals": [deal.reference for deal in deals]},
            changes={"outcome": outcome_kept(left_out)},
        )


def outcome_kept(left_out: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What was left out, as an outcome keeps it."""
    more = len(left_out) - _LEFT_OUT_KEPT
    kept = {LEFT_OUT: [dict(one) for one in left_out[:_LEFT_OUT_KEPT]]} if left_out else {}
    return {**kept, **({LEFT_OUT_MORE: more} if more > 0 else {})}


def sellers_left_out(campaign: Campaign) -> list[dict[str, str]]:
    """What was left out that is no product: sellers that offered nothing, or were not read to the end."""
    return [one for one in campaign.outcome.get(LEFT_OUT, ()) if not one["product"]]


def campaign_fail_unoffered(
    *, campaign: Campaign, reason: str, left_out: Sequence[Mapping[str, Any]]
) -> None:
    """researching → failed: nothing that was offered could be put forward; every reason is kept. Harmless
    when repeated."""
    if campaign.status == C.RESEARCHING:
        transition(
            campaign,
            C.FAILED,
            actor=SYSTEM,
            reason=reason[:500],
            metadata={LEFT_OUT: len(left_out)},
            changes={"outcome": outcome_kept(left_out)},
        )


def campaign_job_ended(job: Job) -> None:
    """A campaign whose job came to no good end has failed, for the job's reason; one that ended stays. Raises
    JobRefusedError where its last step is skipped while something is open: nothing else would end it."""
    if job.subject_id is None:
        return
    campaign = Campaign.objects.select_for_update(no_key=True).get(pk=job.subject_id)
    if job.status == JobStatus.COMPLETED:
        if job.steps.filter(skipped=True).exists():
            _finish_skipped(campaign)
    elif C.FAILED in campaign.declared().targets(campaign.status):
        why, actor = job.error or f"{job.reference} is {job.status.lower()}", job_ender(job)
        told = {"job": job.reference}
        transition(campaign, C.FAILED, actor=actor, reason=why[:500], metadata=told, rights=CALL_OFF)
        _call_off_unsent(campaign, why, actor)


def _finish_skipped(campaign: Campaign) -> None:
    """Steps were skipped: where the last one was, nothing else ends the campaign. Raises JobRefusedError."""
    campaign_finish(campaign=campaign)
    if campaign.status not in ENDED:
        raise JobRefusedError(f"{campaign.reference} is open: this step ends it once nothing of it is.")


def campaign_job_retried(old: Job, new: Job) -> None:
    """A campaign that failed before anything was put forward goes on from where its job does. Raises
    JobRefusedError."""
    driven = _driven(old)
    if driven is None:
        return
    campaign = Campaign.objects.select_for_update(no_key=True).get(pk=driven)
    refused = _retry_refusal(campaign, has_deals=bool(_with_deals([campaign.pk])))
    if refused:
        raise JobRefusedError(refused)
    adopted = new.steps.filter(key="allocate", status=StepStatus.COMPLETED).exists()
    onward = (C.BUDGET_ALLOCATED, C.RESEARCHING) if adopted else ()
    for to in (C.INITIALIZED, C.BRIEF_RECEIVED, *onward):
        reason = f"{new.reference} retries {old.reference}"
        transition(
            campaign,
            to,
            actor=job_beginner(new),
            reason=reason,
            changes={"outcome": {}},
            rights=(STEER_JOB,),
        )


def campaign_retry_refusals(jobs: Collection[Job]) -> dict[uuid.UUID, str]:
    """Of the jobs that drove campaigns, those whose campaign goes on without them, and why; the rest may go
    on with their retry. Two queries."""
    driven = {job.pk: pk for job in jobs if (pk := _driven(job)) is not None}
    if not driven:
        return {}
    campaigns = Campaign.objects.in_bulk(set(driven.values()))
    decided = _with_deals(driven.values())
    told = {job: _retry_refusal(campaigns[pk], has_deals=pk in decided) for job, pk in driven.items()}
    return {job: why for job, why in told.items() if why}


def _with_deals(campaigns: Collection[uuid.UUID]) -> set[uuid.UUID | None]:
    held = Deal.objects.filter(campaign_id__in=campaigns).order_by()
    return set(held.values_list("campaign_id", flat=True).distinct())


def _driven(job: Job) -> uuid.UUID | None:
    """The campaign that a job drives."""
    return job.subject_id if job.recipe == "campaign" else None


def _retry_refusal(campaign: Campaign, *, has_deals: bool) -> str:
    if campaign.status != C.FAILED:
        return f"Its campaign is {campaign.get_status_display().lower()}."
    if has_deals:
        return "Its campaign has deals, which were decided: submit a new brief instead."
    try:
        begins = campaign_brief(campaign).flight.start_at
    except ValueError as error:  # briefs were read less strictly once
        return f"Its brief is wrong by now ({error}): submit it corrected instead."
    if begins <= clock.now():
        return "Its flight has begun: submit a new brief with new dates instead."
    return ""


def _call_off_unsent(campaign: Campaign, why: str, actor: str) -> None:
    """What was put forward, approved, or let go and certainly not had at its seller is of no use any more,
    nor is the question about it: of the campaign's deals, and of those in the place of lost ones."""
    deals = list(Deal.objects.filter(campaign_id=campaign.pk).values_list("pk", flat=True))
    reason, told = f"{campaign.reference}: {why}", {"campaign": campaign.reference}
    deals_call_off(deals, reason=reason, actor=actor, rights=CALL_OFF, told=told)


def _refused(deals: QuerySet[Deal]) -> set[uuid.UUID]:
    """Those that people were asked about and rejected, before anything was ordered."""
    about = {"subject_type": "deal", "subject_id__in": deals.values("pk")}
    asked = Approval.objects.filter(**about, status=ApprovalStatus.REJECTED)
    ordered = Operation.objects.filter(**about, task_type="create_media_buy", sent_at__isnull=False)
    return {*asked.values_list("subject_id", flat=True)} - {*ordered.values_list("subject_id", flat=True)}


def _fate(status: str, *, refused: bool) -> str:
    """How a deal ended, in a word: rejected by people, cancelled by them or its seller, expired, failed."""
    if status in CONFIRMED:
        return "booked"
    if status == DealStatus.CANCELLED:
        return "rejected" if refused else "cancelled"
    return "expired" if status == DealStatus.EXPIRED else "failed"
