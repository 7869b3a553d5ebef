"""Deadlines by type: an operation past its own is `timed_out`, our verdict; the seller may still answer.

All that are due move in one statement. Who asks people about them (`on_overdue`) is told afterwards, each
operation in a commit of its own that marks it told (`overdue_told_at`): a crash in between is healed by the
next sweep, and nobody is told twice. Source: document 000 ("Timeout Handling").
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Q, QuerySet

from tasks_app import clock
from tasks_app.lifecycle.transitions import transition_many
from tasks_app.operations import policy
from tasks_app.operations.leases import is_out
from tasks_app.operations.models import PENDING, READS, Operation
from tasks_app.operations.models import OperationStatus as S

log = structlog.get_logger(__name__)
_listeners: list[Callable[[Operation], None]] = []
NEVER_SENT = "NEVER_SENT"
_NEVER_SENT_WORDS = "It could not be sent before its deadline: nothing reached the seller"


def on_overdue(listener: Callable[[Operation], None]) -> None:
    """Call `listener(operation)` once an operation is overdue, in the commit that marks it told."""
    if listener not in _listeners:
        _listeners.append(listener)


def time_out_due(*, limit: int) -> int:
    """Do what the deadlines ask for, at most `limit` of each: fail what was never sent, have calls without an
    answer looked up, declare overdue what is, and tell. Answers how many were told of."""
    fail_unsent(limit=limit)
    mark_for_lookup(limit=limit)
    mark_overdue(limit=limit)
    return tell_overdue(limit=limit)


def mark_overdue(*, limit: int) -> int:
    """Move what is past its deadline to `timed_out`, in one statement; answers how many moved.

    A mutation whose call has no answer is overdue only once the seller was asked for it (`looked_up_at`);
    a call that is out at this moment may still answer.
    """
    now = clock.now()
    asked = Q(task_type__in=READS) | Q(looked_up_at__isnull=False)
    due = _due(Q(status__in=PENDING) | (Q(status=S.CALLING_ADCP) & _idle() & asked), limit)
    return _move(
        due,
        S.TIMED_OUT,
        overdue_at=now,
        overdue_told_at=None,
        next_poll_at=None,
        send_at=None,
    )


def mark_for_lookup(*, limit: int) -> int:
    """Make a look-up due of every mutation past its deadline whose call has no answer; answers how many."""
    unknown = Q(status=S.CALLING_ADCP, looked_up_at__isnull=True, next_poll_at__isnull=True) & _idle()
    due = _due(unknown & ~Q(task_type__in=READS), limit)
    return Operation.objects.filter(pk__in=due.values("pk")).update(next_poll_at=clock.now(), send_at=None)


def fail_unsent(*, limit: int) -> int:
    """Fail what was to be sent and never was by its deadline: nothing reached the seller. What is held for
    people is not due. Answers how many failed."""
    due = Operation.objects.filter(
        status=S.REQUESTED, send_at__isnull=False, deadline_at__lte=clock.now()
    ).order_by("deadline_at")
    return _move(
        due[:limit],
        S.FAILED,
        error={"code": NEVER_SENT, "message": _NEVER_SENT_WORDS},
        message=_NEVER_SENT_WORDS,
        send_at=None,
        settled_at=clock.now(),
    )


def tell_overdue(*, limit: int) -> int:
    """Tell the listeners of what is overdue and nobody was told of; answers how many."""
    untold = Operation.objects.filter(status=S.TIMED_OUT, overdue_told_at__isnull=True)
    ids = list(untold.order_by("overdue_at").values_list("pk", flat=True)[:limit])
    return sum(_tell_or_leave(operation_id) for operation_id in ids)


def _due(which: Q, limit: int) -> QuerySet[Operation]:
    due = Operation.objects.filter(which, deadline_at__lte=clock.now())
    return due.order_by("deadline_at")[:limit]


def _idle() -> Q:
    return ~Q(is_out())


def _move(due: QuerySet[Operation], to: str, **changes: Any) -> int:
    """The moved rows are chosen first, without waiting for those that somebody holds."""
    with transaction.atomic():
        locked = due.select_for_update(skip_locked=True, no_key=True)
        ids = list(locked.values_list("pk", flat=True))
        if not ids:
            return 0
        return transition_many(Operation.objects.filter(pk__in=ids), to, actor="system", changes=changes)


def _tell_or_leave(operation_id: uuid.UUID) -> bool:
    try:
        return _tell(operation_id)
    except Exception:  # whatever a listener raises must not stop the others
        log.exception("overdue_not_told", operation=str(operation_id))
        return False


@transaction.atomic
def _tell(operation_id: uuid.UUID) -> bool:
    operation = (
        Operation.objects.filter(pk=operation_id, status=S.TIMED_OUT, overdue_told_at__isnull=True)
        .select_related("seller", "team")
        .select_for_update(of=("self",), skip_locked=True, no_key=True)
        .first()
    )
    if operation is None:
        return False
    for listener in _listeners:
        listener(operation)
    now = clock.now()
    changes: dict[str, Any] = {"overdue_told_at": now}
    if operation.task_id and operation.is_mutation:
        changes["next_poll_at"] = policy.next_poll(operation, status=S.TIMED_OUT, now=now, retry_after_s=None)
    Operation.objects.filter(pk=operation.pk).update(**changes)
    return True
