"""Draining the queue: what a wake-up does. Claims ready steps until none is left or its slice ends."""

from __future__ import annotations

import asyncio
import faulthandler
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import structlog
from django.conf import settings
from django.db import close_old_connections, transaction

from tasks_app import clock, stopping
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.database_connection import connection_checked
from tasks_app.events.relay import Relay
from tasks_app.jobs import claims, engine
from tasks_app.jobs.actions import (
    Done,
    Result,
    Run,
    StepFailedError,
    WaitForAccount,
    WaitForApprovals,
    WaitForEvent,
    WaitForOperation,
)
from tasks_app.jobs.adoption import nested_before
from tasks_app.jobs.aside import perform
from tasks_app.jobs.attempts import attempt, refuse_exhausted
from tasks_app.jobs.endings import late_wait_withdraw
from tasks_app.jobs.hand import Hand
from tasks_app.jobs.models import JOB_ENDED, Job, JobStatus, Step, StepStatus
from tasks_app.jobs.outside import event_heard, event_wait
from tasks_app.jobs.planning import job_start
from tasks_app.jobs.recipes import StepSpec
from tasks_app.jobs.retrying import job_retry_nested
from tasks_app.jobs.scope import scope_of
from tasks_app.jobs.serving import sweep_wake
from tasks_app.jobs.templates import resolve
from tasks_app.jobs.wake import taking_next, wake
from tasks_app.operations.models import Operation
from tasks_app.operations.sweep import TURN_S, sweep_for
from tasks_app.sellers.accounts import AWAITED
from tasks_app.sellers.models import Account

log = structlog.get_logger(__name__)
# A sweep that looks at nothing for so long beyond its tick hangs; so does a relay that long at one turn.
_HANGS_S = 75
_DRAIN_S = 45  # the queue's time limit covers a whole drain: the last step needs room below it


def drain(steps: int | None = None, *, lanes: Sequence[str] = claims.ALL) -> int:
    """Run ready steps of `lanes`, at most `steps` (settings.DRAIN_STEPS) or for so long. Answers how many
    ran."""
    slice_, until = steps or settings.DRAIN_STEPS, time.monotonic() + _DRAIN_S
    connection_checked()
    done = 0

    def room(hand: Hand) -> int:
        over = time.monotonic() >= until or stopping.asked()
        return 0 if over else max(0, slice_ - done - len(hand.steps))

    with Hand(lanes) as hand:
        left = room(hand)
        hand.settle(left)
        while hand:
            with taking_next() as taken:
                step = hand.next()
                if step is not None:
                    done += 1
                    run_step(step, hand)
                for one in hand.returned():
                    with attempt(one.step):
                        _record(one.step, one.result(), hand)
                left = room(hand)
                taken.update(step.lane for step in hand.settle_due(left))
                if not left:
                    taken.update(lanes)  # one of each is woken below
    if not left:
        wake(lanes)  # for what it leaves to others
    return done


def sweep_turn() -> dict[str, int]:
    """The sweep loop's turn, the relay of events beside it. Each puts the next one in; the pushers of the
    lane see to it where one is lost (`serving`). One that hangs ends its process, and says where it hung;
    where the relay hangs, the turn ends first, and with it the calls that are out."""
    close_old_connections()
    _watched()
    try:
        with Relay() as relay:
            turn = sweep_for(seconds=TURN_S, handover=_next_turn, alive=partial(_alive, relay))
            return asyncio.run(turn).as_dict()
    finally:
        faulthandler.cancel_dump_traceback_later()


def sweep_slice() -> None:
    """What a version before has put into the queue, with less time than a turn takes: the turn follows."""
    sweep_wake()


def _alive(relay: Relay) -> bool:
    """Whether a turn goes on: a relay that hangs takes no more. Where nothing asks, this process ends."""
    _watched()
    return relay.at_work_s() < _HANGS_S


def _watched() -> None:
    """This process ends, at once, where nothing calls this again for so long."""
    with suppress(AttributeError, OSError, RuntimeError, ValueError):  # where there is nowhere to write
        said_to = sys.__stderr__ or sys.stderr
        faulthandler.dump_traceback_later(_HANGS_S + settings.SWEEP_TICK_S, exit=True, file=said_to)


def _next_turn() -> None:
    if not stopping.asked():
        sweep_wake()


def run_step(step: Step, hand: Hand | None = None) -> None:
    """Execute one claimed step and record its result, whatever it is; that it is done, `hand` may record
    together with others. It may run the action beside others: then its result is not there yet."""
    with attempt(step):
        run = _prepare(step)
        if not isinstance(run, Run):
            _record(step, run, hand)
        elif hand is None or not hand.run_aside(run):
            _record(step, perform(run), hand)


def _record(step: Step, result: Result | None, hand: Hand | None) -> None:
    if isinstance(result, Done) and hand is not None:
        hand.end(step, result.outputs)
    else:
        _settle(step, result)


def _prepare(step: Step) -> Run | Result | None:
    """What its action is to be called with; the result of a nested job; None where the step became other
    steps, or such a job, whose end it awaits."""
    spec = StepSpec.of_step(step.spec)
    refuse_exhausted(step, spec)
    scope = scope_of(step.job, step, spec.condition, spec.for_each, spec.inputs)
    if step.fan_out_id is None:
        resolve(spec.condition, scope)  # was met when it was queued; one that cannot be told fails here
    if spec.for_each:
        items = resolve(spec.for_each, scope)
        if not isinstance(items, list):
            raise StepFailedError(f"for_each of {step.key} is not a list")
        engine.expand(step=step, items=items)
        return None
    inputs = resolve(spec.inputs, scope)
    if spec.recipe:
        return _nested(step, spec, inputs)
    heard = event_heard(step)
    return Run(job=step.job, step=step, inputs=inputs, event=heard.payload, event_late=heard.late)


def _nested(step: Step, spec: StepSpec, inputs: dict[str, Any]) -> Result | None:
    """Start the child job, or take over its result: the parent sees one asynchronous step."""
    with transaction.atomic():
        child = Job.objects.select_for_update(no_key=True).filter(parent_step=step).first()
        if child is None:
            if not engine.still_mine(step):  # the attempt that took it over starts it
                return None
            child = _start_nested(step, spec, inputs)
        if child.status not in JOB_ENDED:
            slept = engine.mark_waiting(
                step=step,
                status=StepStatus.AWAITING_TOOL,
                reason=f"{child.reference} runs",
                waiting_for={"type": "job", "id": str(child.pk)},
            )
            if not slept:  # cancelled meanwhile: no job without its step
                transaction.set_rollback(True)
            return None
    if child.status != JobStatus.COMPLETED:
        raise StepFailedError(f"{child.reference} {child.status.lower()}: {child.error}")
    return Done(outputs=child.outputs or {})


def _start_nested(step: Step, spec: StepSpec, inputs: dict[str, Any]) -> Job:
    """A new job, or in a retried one what the job that ran for this step before came to, or its retry."""
    before = nested_before(step, inputs)
    if before is not None:
        if before.equal and before.job.status == JobStatus.COMPLETED:
            return before.job
        return job_retry_nested(before=before, parent_step=step, inputs=inputs)
    return job_start(
        recipe=spec.recipe,
        inputs=inputs,
        team=step.job.team,
        actor=step.job.requested_by,
        subject_type=step.job.subject_type,
        subject_id=step.job.subject_id,
        parent_step=step,
        priority=step.priority,
    )


def _settle(step: Step, result: Result | None) -> None:
    if result is None:
        return
    if isinstance(result, Done):
        engine.mark_complete(step=step, outputs=result.outputs)
    elif isinstance(result, WaitForOperation):
        _wait_for_operation(step, result)
    elif isinstance(result, WaitForApprovals):
        _wait_for_approvals(step, result)
    elif isinstance(result, WaitForAccount):
        _wait_for_account(step, result)
    elif isinstance(result, WaitForEvent):
        event_wait(step=step, wait=result)
    else:
        engine.mark_waiting(
            step=step,
            status=StepStatus.AWAITING_TOOL,
            reason=f"Until {result.moment.isoformat()}",
            waiting_for={"type": "time", "until": result.moment.isoformat()},
            ready_in=result.moment - clock.now(),
        )


@transaction.atomic
def _wait_for_operation(step: Step, wait: WaitForOperation) -> None:
    # The operation's lock orders us before or after its publication: the wake-up cannot fall between.
    operation = Operation.objects.select_for_update(no_key=True).get(pk=wait.operation_id)
    waiting_for = {"type": "operation", "id": str(operation.pk)}
    slept = engine.mark_waiting(
        step=step,
        status=StepStatus.AWAITING_TOOL,
        reason=f"{operation.task_type} is out with the seller",
        waiting_for=waiting_for,
        over=operation.published_at is not None,
    )
    if not slept:
        late_wait_withdraw(step, waiting_for)


@transaction.atomic
def _wait_for_account(step: Step, wait: WaitForAccount) -> None:
    # As above: whoever records what the seller says of the account takes its lock too.
    rows = Account.objects.select_related("advertiser", "seller")
    account = rows.select_for_update(of=("self",), no_key=True).get(pk=wait.account_id)
    engine.mark_waiting(
        step=step,
        status=StepStatus.AWAITING_TOOL,
        reason=f"The account is {account.get_status_display().lower()}",
        waiting_for={
            "type": "account",
            "id": str(account.pk),
            "seller": account.seller.name,
            "of": account.advertiser.name,
        },
        over=account.status not in AWAITED,
        ready_in=wait.look_again,
    )


@transaction.atomic
def _wait_for_approvals(step: Step, wait: WaitForApprovals) -> None:
    approvals = list(
        Approval.objects.filter(pk__in=wait.approval_ids).order_by("pk").select_for_update(no_key=True)
    )
    still_open = [a for a in approvals if a.status == ApprovalStatus.OPEN]
    waiting_for = {"type": "approvals", "ids": [str(pk) for pk in wait.approval_ids]}
    slept = engine.mark_waiting(
        step=step,
        status=StepStatus.AWAITING_USER,
        reason=f"{len(still_open)} decisions are open",
        waiting_for=waiting_for,
        over=not still_open,
    )
    if not slept:
        late_wait_withdraw(step, waiting_for)
