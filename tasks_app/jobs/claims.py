"""Taking steps: by priority, then first come; attempts and lease are durable before the work."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic, sleep

import structlog
from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import Q

from tasks_app import clock
from tasks_app.database_clock import database_in, database_moment, database_now
from tasks_app.jobs import calls, engine, events
from tasks_app.jobs.models import Lane, Step, WorkflowEvent
from tasks_app.jobs.models import StepStatus as S
from tasks_app.lifecycle.transitions import transition
from tasks_app.people.actors import SYSTEM
from tasks_app.troubles.rows import connection_lost, each_row, held_back, troubled_until
from tasks_app.troubles.works import work_on

ALL = tuple(Lane.values)


class OvertakenError(Exception):
    """The attempt is its step's no more: that was ended, or another worker has it."""


class HeldError(Exception):
    """Somebody else changes the step at this moment."""


_WORK = work_on("steps_claimed", "step")
_HELD_S = 2.0  # longer than a claim takes to commit, shorter than anybody waits for what the caller holds
_LOOK_AGAIN_S = 0.005
log = structlog.get_logger(__name__)


def claim_steps(wanted: calls.Wanted, *, claim: calls.Claim | None = None) -> list[Step]:
    """Take the next ready steps, and have their jobs run. `claim`: what was taken with a completion."""
    taken = pop_ready(wanted, claim=claim)
    return [one.step for one in taken if one.running or _begin(one.step)]


def _begin(step: Step) -> bool:
    """Have its job run, which somebody held. Where that cannot be, its lease runs out, and it comes again."""

    def begin(_: uuid.UUID) -> int:
        return engine.mark_running(job_id=step.job_id)

    return each_row(_WORK, [step.pk], begin) == 1


def pop_ready(wanted: calls.Wanted, *, claim: calls.Claim | None = None) -> tuple[calls.Taken, ...]:
    """Take the next ready steps, lowest priority number first, then first come: attempts and leases are
    durable before the work. Also takes over steps whose worker stopped renewing its lease. What the call to
    the database leaves is taken move by move."""
    claim = claim or _claim(wanted)
    if not claim.apart:
        return claim.taken
    taken: list[calls.Taken] = []
    while _take_next(wanted.lanes, taken) and not taken:
        pass  # one that cannot be moved was put back: the next one
    return tuple(taken)


def _claim(wanted: calls.Wanted) -> calls.Claim:
    """What the call takes; where it raises, one of the steps cannot be moved: each by itself tells which."""
    try:
        return calls.steps_claim(wanted)
    except Exception as error:  # the call takes several in one commit
        if connection_lost():
            raise
        log.warning("not_claimed_together", error=str(error))
        return calls.Claim(apart=True)


@transaction.atomic
def _take_next(lanes: Sequence[str], taken: list[calls.Taken]) -> bool:
    """Take the next step, where there is one (the answer) that can be moved."""
    step = _next_step(lanes)
    if step is None:
        return False

    running: list[bool] = []

    def take(_: uuid.UUID) -> int:
        _take(step)
        running.append(engine.mark_running(job_id=step.job_id, wait=False))
        return 1

    was_lost = step.status == S.EXECUTING
    if each_row(_WORK, [step.pk], take):
        taken.append(calls.Taken(step=step, running=running[0]))
        return True
    # Out of the call's sight too, as far as the row can be written at all.
    again = troubled_until(_WORK, step.pk)
    with suppress(DatabaseError), transaction.atomic():
        column = "lease_until" if was_lost else "ready_at"
        Step.objects.filter(pk=step.pk).update(**{column: again})
    return True


def _next_step(lanes: Sequence[str]) -> Step | None:
    now = clock.now()
    # One query each, so that either reads the head of its own index. A dead worker's step came before all
    # that are ready, so among equals it goes first.
    lost = _head(Q(status=S.EXECUTING, lease_until__lt=database_now()), lanes)
    ready = Q(ready_at__lte=now) if lost is None else Q(ready_at__lte=now, priority__lt=lost.priority)
    return _head(ready, lanes) or lost


def _head(due: Q, lanes: Sequence[str]) -> Step | None:
    rows = Step.objects.filter(due, lane__in=lanes).order_by("priority", "ready_at", "id")
    rows = rows.exclude(pk__in=held_back(_WORK))
    rows = rows.select_related("job").defer("job__plan", "job__inputs")
    return rows.select_for_update(of=("self",), skip_locked=True, no_key=True).first()


def _take(step: Step) -> None:
    lease = database_moment() + timedelta(seconds=settings.STEP_LEASE_S)
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


def attempt_hold(step: Step) -> None:
    """Keep this attempt the step's until the caller's commit, so that whoever ends the job, or retries it,
    comes before its effect or finds it. Raises OvertakenError, and HeldError where somebody else holds the
    step for longer than a moment: they may hold what the caller goes on to wait for.

    A claim holds it for that moment: one that read the step as ready just before another took it locks the
    row, finds it taken, and keeps the lock until it commits (PostgreSQL, "Read Committed Isolation Level").
    """
    mine = Step.objects.filter(pk=step.pk, status=S.EXECUTING, attempts=step.attempts)
    until = monotonic() + _HELD_S
    while not list(mine.select_for_update(skip_locked=True, no_key=True).values_list("pk")):
        if not mine.exists():
            raise OvertakenError(f"attempt {step.attempts} of {step.key} is over: it has no effect any more")
        if monotonic() >= until:
            raise HeldError(f"somebody else holds {step.key} at this moment")
        sleep(_LOOK_AGAIN_S)


def renew_lease(step: Step) -> bool:
    """Keep a step while its action runs; False when another worker has taken it over."""
    return bool(renew_leases([step]))


def renew_leases(steps: Collection[Step]) -> frozenset[uuid.UUID]:
    """Keep steps that are held; answers those that no other worker has taken over."""
    mine = Q(pk__in=[])
    for step in steps:
        mine |= Q(pk=step.pk, attempts=step.attempts)
    kept = Step.objects.filter(mine, status=S.EXECUTING)
    if kept.update(lease_until=database_in(settings.STEP_LEASE_S)) == len(steps):
        return frozenset(step.pk for step in steps)
    return frozenset(kept.values_list("pk", flat=True))
