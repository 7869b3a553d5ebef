"""Taking steps: by priority, then first come; attempts and lease are durable before the work."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from tasks_app import clock
from tasks_app.jobs import calls, engine, events
from tasks_app.jobs.models import Lane, Step, WorkflowEvent
from tasks_app.jobs.models import StepStatus as S
from tasks_app.lifecycle.transitions import transition
from tasks_app.people.actors import SYSTEM

ALL = tuple(Lane.values)


def claim_steps(wanted: calls.Wanted, *, claim: calls.Claim | None = None) -> list[Step]:
    """Take the next ready steps, and have their jobs run. `claim`: what was taken with a completion."""
    taken = pop_ready(wanted, claim=claim)
    for one in taken:
        if not one.running:
            engine.mark_running(job_id=one.step.job_id)
    return [one.step for one in taken]


def pop_ready(wanted: calls.Wanted, *, claim: calls.Claim | None = None) -> tuple[calls.Taken, ...]:
    """Take the next ready steps, lowest priority number first, then first come: attempts and leases are
    durable before the work. Also takes over steps whose worker stopped renewing its lease. What the call to
    the database leaves is taken move by move."""
    claim = claim or calls.steps_claim(wanted)
    if not claim.apart:
        return claim.taken
    step = _take_next(wanted.lanes)
    return () if step is None else (calls.Taken(step=step, running=False),)


@transaction.atomic
def _take_next(lanes: Sequence[str]) -> Step | None:
    step = _next_step(lanes)
    if step is not None:
        _take(step)
    return step


def _next_step(lanes: Sequence[str]) -> Step | None:
    now = clock.now()
    # One query each, so that either reads the head of its own index; what was begun goes on first.
    for due in (Q(status=S.EXECUTING, lease_until__lt=now), Q(ready_at__lte=now)):
        rows = Step.objects.filter(due, lane__in=lanes).order_by("priority", "ready_at", "id")
        rows = rows.select_related("job").defer("job__plan", "job__inputs")
        step = rows.select_for_update(of=("self",), skip_locked=True, no_key=True).first()
        if step is not None:
            return step
    return None


def _take(step: Step) -> None:
    lease = clock.now() + timedelta(seconds=settings.STEP_LEASE_S)
    if step.status == S.EXECUTING:
        step.attempts += 1
        step.lease_until = lease
        Step.objects.filter(pk=step.pk).update(attempts=step.attempts, lease_until=lease)
        events.record(step.job, "step.taken_over", step=step)
        return
    resumed = step.status != S.QUEUED
    transition(
        step,
        S.EXECUTING,
        actor=SYSTEM,
        reason="What it waited for has come" if resumed else "A worker took it",
        changes={
            "attempts": step.attempts + 1,
            "lease_until": lease,
            "ready_at": None,
            "waiting_for": None,
            "started_at": step.started_at or clock.now(),
        },
    )
    events.record(step.job, "step.resumed" if resumed else "step.started", step=step)


def lost_attempts(step: Step) -> int:
    """How many attempts of this step ended with their worker, without a result."""
    taken_over = WorkflowEvent.objects.filter(job=step.job_id, type="step.taken_over")
    return taken_over.filter(correlation__step_id=str(step.pk)).count()


def renew_lease(step: Step) -> bool:
    """Keep a step while its action runs; False when another worker has taken it over."""
    return bool(renew_leases([step]))


def renew_leases(steps: Collection[Step]) -> frozenset[uuid.UUID]:
    """Keep steps that are held; answers those that no other worker has taken over."""
    mine = Q(pk__in=[])
    for step in steps:
        mine |= Q(pk=step.pk, attempts=step.attempts)
    kept = Step.objects.filter(mine, status=S.EXECUTING)
    lease = clock.now() + timedelta(seconds=settings.STEP_LEASE_S)
    if kept.update(lease_until=lease) == len(steps):
        return frozenset(step.pk for step in steps)
    return frozenset(kept.values_list("pk", flat=True))
