"""How a job stands in one word (document 001, 6.3.2, workflow status), and the token of its resumes."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection
from enum import StrEnum

from django.db.models import Count, Q

from tasks_app import clock
from tasks_app.jobs.models import WAITING, Job, Step, StepStatus

_AT_WORK = (StepStatus.QUEUED, StepStatus.EXECUTING)


class WorkflowStatus(StrEnum):
    """Document 001, section 6.3.2."""

    RUNNING = "RUNNING"  # a step executes, or a worker may take one
    WAITING_SINGLE = "WAITING_SINGLE"  # one thing is awaited, no worker is held
    WAITING_PARALLEL = "WAITING_PARALLEL"  # several things are awaited, no worker is held
    READY_TO_RESUME = "READY_TO_RESUME"  # something awaited has come; a worker takes its step next


WORKFLOW_STATUSES = [(str(one), str(one)) for one in WorkflowStatus]


def workflow_status(*, at_work: int, waiting: int, come: int, over: bool) -> WorkflowStatus | None:
    """`at_work`: steps queued or executing; `waiting`: steps asleep, without those that only wait for
    their own items; `come`: those of them whose wait is over. None for a job that has ended."""
    if over:
        return None
    if at_work:
        return WorkflowStatus.RUNNING
    if come:
        return WorkflowStatus.READY_TO_RESUME
    if waiting > 1:
        return WorkflowStatus.WAITING_PARALLEL
    return WorkflowStatus.WAITING_SINGLE if waiting else WorkflowStatus.RUNNING


def workflow_statuses(jobs: Collection[Job]) -> dict[uuid.UUID, WorkflowStatus | None]:
    """The workflow status of each of these jobs, in one query."""
    asleep = Q(status__in=WAITING) & ~Q(waiting_for__contains={"type": "items"})
    still = [job.pk for job in jobs if job.ended_at is None]
    counted = (
        Step.objects.filter(job__in=still, status__in=(*_AT_WORK, *WAITING))
        .values("job")
        .order_by()
        .annotate(
            at_work=Count("pk", filter=Q(status__in=_AT_WORK)),
            waiting=Count("pk", filter=asleep),
            come=Count("pk", filter=asleep & Q(ready_at__lte=clock.now())),
        )
    )
    found = {job: counts for job, *counts in counted.values_list("job", "at_work", "waiting", "come")}
    told = {}
    for job in jobs:
        at_work, waiting, come = found.get(job.pk, (0, 0, 0))
        over = job.ended_at is not None
        told[job.pk] = workflow_status(at_work=at_work, waiting=waiting, come=come, over=over)
    return told


def resume_token(job: Job) -> str:
    """A text that changes whenever a step of the job falls asleep, is woken or is resumed: 32 hex digits."""
    asleep = Step.objects.filter(job=job, status__in=WAITING).order_by("id")
    digest = hashlib.sha256(f"{job.pk}".encode())
    for row in asleep.values_list("pk", "version", "ready_at").iterator():
        digest.update("{}:{}:{}".format(*row).encode())
    return digest.hexdigest()[:32]
