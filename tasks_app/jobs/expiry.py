"""A job's time to live (document 001, sections 6.1 and 6.5.3): 24 hours unless its recipe says otherwise.

The clock stands still while a person, a seller's decision about an account or an outside event is awaited,
or an operation, which has a deadline of its own, and while no sweep of ours was at work. How long that was is
read from the jobs' events and the outages when the time seems to be over, so that waiting costs no write.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import transaction

from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.jobs import events, wake
from tasks_app.jobs.endings import job_expire
from tasks_app.jobs.models import JOB_ENDED, WAITING, Job, Step, WorkflowEvent
from tasks_app.operations.models import Operation
from tasks_app.operations.pulse import outages_since
from tasks_app.sellers.accounts import AWAITED
from tasks_app.sellers.models import Account
from tasks_app.troubles.rows import due_again, each_row, held_back
from tasks_app.troubles.works import work_on

log = structlog.get_logger(__name__)
_AT_ONCE = 100
_WORK = work_on("jobs_expired", "job")
# After a wake-up was found lost and made up for, the job has so long to get on.
_GRACE = timedelta(minutes=10)
_OTHERS = ("operation", "approvals", "account", "event")
_STILL_ASLEEP = ("step.late_result", "step.recovered")


@dataclass(frozen=True, kw_only=True)
class Waited:
    """`total`: how long a job has waited for people and sellers; `still`: whether it waits now."""

    total: timedelta
    still: bool


def jobs_expire_due() -> int:
    """Look at every job whose time seems to be over. Answers how many have expired."""
    due = Job.objects.filter(ended_at__isnull=True, expires_at__lte=clock.now()).order_by("expires_at")
    due = due.exclude(pk__in=held_back(_WORK))
    return each_row(_WORK, due.values_list("pk", flat=True)[:_AT_ONCE], _expire_or_extend, commits=True)


def _expire_or_extend(job_id: uuid.UUID) -> bool:
    job = Job.objects.get(pk=job_id)
    now, ttl = clock.now(), timedelta(hours=job.plan.get("ttl_hours", 24))
    waited = job_waited(job, now)
    over = _planned_at(job) + ttl + waited.total
    woken = job_recover(job)
    if over > now or waited.still or woken:
        again = max(over, now + _GRACE)
        Job.objects.filter(pk=job.pk, ended_at__isnull=True).update(expires_at=again)
        return False
    hours = ttl.total_seconds() / 3600
    return job_expire(job_id=job.pk, reason=f"Not done within {hours:g} h of its own time")


def _planned_at(job: Job) -> datetime:
    planned = WorkflowEvent.objects.filter(job=job, type="job.planned").values_list("at", flat=True).first()
    return planned or job.created_at


def job_waited(job: Job, now: datetime) -> Waited:
    """How long the job, or one nested in it, has waited for a person or a seller, or for us to be back; times
    side by side count once."""
    steps = _steps_of(job)
    spans = _merged([*_spans(steps, now), *outages_since(_planned_at(job))])
    still = any(step.status in WAITING and _holds_clock(step) for step in steps)
    return Waited(total=sum((end - begin for begin, end in spans), timedelta()), still=still)


def _steps_of(job: Job) -> list[Step]:
    steps, level = [], [job.pk]
    while level:
        found = list(Step.objects.filter(job__in=level).only("id", "status", "waiting_for", "job_id"))
        steps += found
        level = list(Job.objects.filter(parent_step__in=found).values_list("pk", flat=True))
    return steps


def _holds_clock(step: Step) -> bool:
    """Whether it waits for a person, an outside event, or an operation that is still out."""
    wait = step.waiting_for or {}
    return wait.get("type") in _OTHERS and not _has_come(wait)


def _spans(steps: Iterable[Step], now: datetime) -> list[tuple[datetime, datetime]]:
    """From going to sleep for a person or an operation to the step's next event, by the jobs' events."""
    spans: list[tuple[datetime, datetime]] = []
    asleep: dict[str, datetime] = {}
    told = WorkflowEvent.objects.filter(job__in={step.job_id for step in steps}, type__startswith="step.")
    for kind, correlation, payload, at in told.values_list("type", "correlation", "payload", "at"):
        step = correlation["step_id"]
        if step in asleep and kind not in _STILL_ASLEEP:
            spans.append((asleep.pop(step), at))
        if kind == "step.waiting" and payload.get("type") in _OTHERS:
            asleep[step] = at
    open_still = {str(step.pk) for step in steps if step.status in WAITING}
    return spans + [(since, now) for step, since in asleep.items() if step in open_still]


def _merged(spans: Iterable[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    merged: list[tuple[datetime, datetime]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


@transaction.atomic
def job_recover(job: Job) -> int:
    """Wake steps, of nested jobs too, that sleep although what they wait for has come: the last try before
    giving up. Answers how many."""
    below = [step.pk for step in _steps_of(job)]
    asleep = Step.objects.filter(wake.sleeps(), pk__in=below, status__in=WAITING).order_by("id")
    woken = 0
    for step in asleep.select_related("job").select_for_update(no_key=True, of=("self",)):
        if _has_come(step.waiting_for or {}) and wake.steps_wake({step.pk: step.lane}):
            woken += 1
            events.record(step.job, "step.recovered", step=step, payload=step.waiting_for)
            log.warning("lost_wake_up", job=job.reference, step=step.key)
    return woken


def steps_wake_again() -> int:
    """Wake the steps that could not be woken when what they wait for came. Answers how many."""
    return each_row(wake.WORK, due_again(wake.WORK)[:_AT_ONCE], _wake_again)


def _wake_again(step_id: uuid.UUID) -> int:
    asleep = Step.objects.filter(wake.sleeps(), pk=step_id, status__in=WAITING)
    step = asleep.select_for_update(no_key=True).first()
    if step is None or not _has_come(step.waiting_for or {}):
        return 0
    return wake.steps_ready({step.pk: step.lane})


def _has_come(wait: dict[str, Any]) -> bool:
    if wait.get("type") == "operation":
        return Operation.objects.filter(pk=wait["id"], published_at__isnull=False).exists()
    if wait.get("type") == "approvals":
        return not Approval.objects.filter(pk__in=wait["ids"], status=ApprovalStatus.OPEN).exists()
    if wait.get("type") == "account":
        return not Account.objects.filter(pk=wait["id"], status__in=AWAITED).exists()
    if wait.get("type") == "event":
        return False  # who delivers it wakes the step in the same commit
    if wait.get("type") == "job":
        return Job.objects.filter(pk=wait["id"], status__in=JOB_ENDED).exists()
    return False
