"""The end of a turn that fails, and turns that nobody finishes."""

from __future__ import annotations

from datetime import timedelta

from tasks_app import clock
from tasks_app.assistant.models import ASSISTANT, AssistantTurn
from tasks_app.assistant.types import TaskState
from tasks_app.database_clock import database_now
from tasks_app.lifecycle.transitions import transition, transition_many
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import notify
from tasks_app.people.roles import STEER_OPERATION

#: A turn without a step for so long is given up.
LONGEST_STEP = timedelta(minutes=15)
_GIVEN_UP = "The assistant did not answer within 15 minutes"


def fail_turn(turn: AssistantTurn, error: str) -> None:
    """End a locked turn as failed, in the caller's transaction. `error` is a sentence for the user."""
    changes = {"error": error, "ended_at": clock.now()}
    transition(turn, TaskState.FAILED, actor=ASSISTANT, reason=error, changes=changes)
    AssistantTurn.objects.filter(pk=turn.pk).update(lease_holder=None, lease_until=None)


def alert_operators(what: str, trace_id: str) -> None:
    """Tell operators of a defect of the assistant, in the caller's transaction."""
    notify(
        kind="assistant",
        title=f"The assistant has a defect: {what}",
        body=f"Look for the trace {trace_id} in the log.",
        level=Notification.Level.ALARM,
        right=STEER_OPERATION,
    )


def clear_stale_turns() -> int:
    """Free leases that ran out and fail turns without a step for 15 minutes; return how many.

    A chore of the sweep.
    """
    open_turns = AssistantTurn.objects.filter(ended_at__isnull=True)
    expired = open_turns.filter(lease_until__lt=database_now())
    freed = expired.update(lease_holder=None, lease_until=None)
    stuck = open_turns.filter(lease_until__isnull=True, status_since__lt=clock.now() - LONGEST_STEP)
    changes = {"error": _GIVEN_UP, "ended_at": clock.now()}
    return freed + transition_many(
        stuck, TaskState.FAILED, actor=ASSISTANT, reason=_GIVEN_UP, changes=changes
    )
