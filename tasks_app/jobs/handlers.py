"""What wakes a sleeping step: an operation's end, the last of its approvals, news of an account."""

from __future__ import annotations

from typing import Any

from tasks_app.approvals.intents import intents_decide
from tasks_app.approvals.kinds import on_closed
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.policy_escalation import approvals_escalate
from tasks_app.approvals.services import approvals_count_again, approvals_expire_due
from tasks_app.approvals.telling import approvals_remind, approvals_tell
from tasks_app.events.retention import events_prune
from tasks_app.jobs import outside, schedules, serving, wake
from tasks_app.jobs.actions import action_register
from tasks_app.jobs.endings import nested_end_due
from tasks_app.jobs.expiry import jobs_expire_due, steps_wake_again
from tasks_app.jobs.models import Step, StepStatus
from tasks_app.jobs.retrying import job_starters
from tasks_app.jobs.selectors import schedule_names
from tasks_app.lifecycle.names import namer_register
from tasks_app.metrics import metrics_register
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import on_settled
from tasks_app.operations.sweep import chore_register
from tasks_app.people.setting_off import set_off_register
from tasks_app.sellers.accounts import AWAITED, on_account_changed
from tasks_app.sellers.models import Account


def register() -> None:
    """Called when the application starts."""
    on_settled(_operation_settled)
    on_closed(_approval_closed)
    on_account_changed(_account_changed)
    set_off_register(job_starters)
    chore_register("decided_together", intents_decide)
    chore_register("approvals_counted", approvals_count_again)
    chore_register("expired_approvals", approvals_expire_due)
    chore_register("approvals_escalated", approvals_escalate)
    chore_register("approvals_told", approvals_tell)
    chore_register("approvals_reminded", approvals_remind)
    chore_register("woken", wake.wake_if_missed)
    chore_register("steps_woken", steps_wake_again)
    chore_register("expired_jobs", jobs_expire_due)
    chore_register("nested_jobs_ended", nested_end_due)
    chore_register("events_handed", outside.events_hand_again)
    chore_register("events_pruned", events_prune)
    chore_register("outside_events_forgotten", outside.events_forget)
    action_register(outside.WAIT, outside.wait_for_event, kind="idempotent")
    namer_register("schedule", schedule_names)
    chore_register("schedules_woken", schedules.schedules_wake)
    chore_register("lanes_told", serving.lanes_watch)
    metrics_register("lanes", serving.lane_metrics)


def _operation_settled(operation: Operation) -> None:
    wake.resume(waiting_for={"type": "operation", "id": str(operation.pk)})


def _account_changed(account: Account, _before: str) -> None:
    if account.status not in AWAITED:
        wake.resume(waiting_for={"type": "account", "id": str(account.pk)})


def _approval_closed(approval: Approval) -> None:
    """Wakes a step when the last of the approvals it waits for is closed.

    The step's lock serialises two last decisions made at once: the later sees the earlier committed.
    """
    this = {"type": "approvals", "ids": [str(approval.pk)]}
    asleep = Step.objects.filter(
        status=StepStatus.AWAITING_USER, waiting_for__contains=this, ready_at__isnull=True
    )
    waiting = list(asleep.order_by("id").select_for_update(no_key=True))
    wake.steps_wake({step.pk: step.lane for step in waiting if not _is_asked(step.waiting_for or {})})


def _is_asked(wait: dict[str, Any]) -> bool:
    """Whether one of the approvals that a step waits for is open."""
    return Approval.objects.filter(pk__in=wait["ids"], status=ApprovalStatus.OPEN).exists()
