"""Deadlines by type: an operation past its own is `timed_out`, our verdict; the seller may still answer."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import structlog
from django.db import transaction

from tasks_app import clock
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations import policy
from tasks_app.operations.models import PENDING, Operation
from tasks_app.operations.models import OperationStatus as S

log = structlog.get_logger(__name__)
_listeners: list[Callable[[Operation], None]] = []


def on_overdue(listener: Callable[[Operation], None]) -> None:
    """Call `listener(operation)` in the commit that declares it overdue."""
    if listener not in _listeners:
        _listeners.append(listener)


def time_out_due(*, limit: int) -> int:
    """Declare overdue what is; one operation, one commit. Answers how many."""
    due = Operation.objects.filter(deadline_at__lte=clock.now(), status__in=(*PENDING, S.CALLING_ADCP))
    ids = list(due.order_by("deadline_at").values_list("pk", flat=True)[:limit])
    return sum(_time_out_or_leave(operation_id) for operation_id in ids)


def _time_out_or_leave(operation_id: uuid.UUID) -> bool:
    try:
        return _time_out(operation_id)
    except Exception:  # whatever a listener raises must not stop the others
        log.exception("time_out_failed", operation=str(operation_id))
        return False


@transaction.atomic
def _time_out(operation_id: uuid.UUID) -> bool:
    operation = (
        Operation.objects.filter(
            pk=operation_id, deadline_at__lte=clock.now(), status__in=(*PENDING, S.CALLING_ADCP)
        )
        .select_related("seller")
        .select_for_update(of=("self",), skip_locked=True)
        .first()
    )
    if operation is None:
        return False
    poll = None
    if operation.task_id and operation.is_mutation:
        poll = policy.next_poll(operation, status=S.TIMED_OUT, now=clock.now(), retry_after_s=None)
    transition(
        operation,
        S.TIMED_OUT,
        actor="system",
        changes={"overdue_at": clock.now(), "next_poll_at": poll, "send_at": None, "lease_until": None},
    )
    for listener in _listeners:
        listener(operation)
    return True
