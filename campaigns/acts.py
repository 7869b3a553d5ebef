"""What people do about a campaign themselves: call it off, try it again. A refusal changes nothing."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from campaigns.models import ENDED, Campaign, CampaignStatus
from campaigns.outcome import CALL_OFF
from campaigns.services import campaign_job
from tasks_app.jobs.endings import JobRefusedError, job_cancel
from tasks_app.jobs.models import JOB_OPEN, Job
from tasks_app.jobs.retrying import job_retry, retry_refusal
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_JOB, SUBMIT_CAMPAIGN
from tasks_app.people.scope import visible

REASON_LENGTH = 400


class CampaignActRefusedError(Exception):
    """It is not done; the text says why. Nothing has changed."""


@dataclass(frozen=True, kw_only=True)
class Acts:
    """What may be done about a campaign now. `retry`: its job from where it failed; `again`: a new brief that
    begins with this one."""

    cancel: bool
    retry: bool
    again: bool


def may_submit(user: User) -> bool:
    """Whether the person submits briefs at all."""
    return user.is_active and user.has_perm(SUBMIT_CAMPAIGN)


def acts_of(campaign: Campaign, job: Job | None, *, who: User) -> Acts:
    """What `who` may do about the campaign, whose latest job this is."""
    runs = job is not None and job.status in JOB_OPEN and campaign.status not in ENDED
    return Acts(
        cancel=runs and may_cancel(who),
        retry=who.has_perm(STEER_JOB) and _is_retryable(campaign, job),
        again=may_submit(who),
    )


def campaign_retryable(campaign: Campaign) -> Job | None:
    """The job that failed and may be retried; None where the campaign goes on as a new one only."""
    job = campaign_job(campaign) if campaign.status == CampaignStatus.FAILED else None
    return job if _is_retryable(campaign, job) else None


def _is_retryable(campaign: Campaign, job: Job | None) -> bool:
    return campaign.status == CampaignStatus.FAILED and job is not None and not retry_refusal(job)


def may_cancel(user: User) -> bool:
    """Whether the person calls campaigns off at all."""
    return user.is_active and any(user.has_perm(right) for right in CALL_OFF)


def campaign_cancel(*, campaign_id: uuid.UUID, user: User, reason: str) -> Campaign:
    """Call a campaign off: its job ends, what was put forward or approved and not sent is cancelled, open
    questions are withdrawn. What is with a seller stays there and is followed to its end.

    Raises CampaignActRefusedError.
    """
    if not may_cancel(user):
        raise CampaignActRefusedError("You have no right to call campaigns off.")
    campaign, why = _mine(campaign_id, user), _reason(reason)
    job = campaign_job(campaign)
    if job is None or campaign.status in ENDED:
        raise CampaignActRefusedError(f"{campaign.reference} has ended already.")
    try:
        job_cancel(job_id=job.pk, actor=user, reason=f"Called off by {user}: {why}", rights=CALL_OFF)
    except JobRefusedError as error:
        raise CampaignActRefusedError(str(error)) from error
    campaign.refresh_from_db()
    return campaign


def campaign_retry(*, campaign_id: uuid.UUID, user: User, reason: str) -> Job:
    """Let a campaign that failed before anything was put forward go on from where its job failed.

    Raises CampaignActRefusedError, TransitionError.
    """
    campaign, why = _mine(campaign_id, user), _reason(reason)
    job = campaign_job(campaign)
    if job is None:
        raise CampaignActRefusedError(f"{campaign.reference} never had a job: submit its brief again.")
    try:
        return job_retry(job_id=job.pk, actor=user, reason=why, from_step="")
    except JobRefusedError as error:
        raise CampaignActRefusedError(str(error)) from error


def _reason(reason: str) -> str:
    if not reason.strip():
        raise CampaignActRefusedError("Say why.")
    if len(reason) > REASON_LENGTH:
        raise CampaignActRefusedError(f"The reason is too long: at most {REASON_LENGTH} characters.")
    return reason.strip()


def _mine(campaign_id: uuid.UUID, user: User) -> Campaign:
    campaign = visible(Campaign.objects.all(), user).filter(pk=campaign_id).first()
    if campaign is None:
        raise CampaignActRefusedError("There is no such campaign in your teams.")
    return campaign
