"""Telling the upper storeys that an operation has ended: once, in one commit with its effects.

The winner is durable before any effect (`settled_at`), and so is the claim to its publication: whoever holds
the row's lock while `published_at` is empty is the one publisher, and its effects are rows that the commit
which sets `published_at` makes visible, all or none. A killed owner's lock and effects go together; the sweep
publishes then. An end whose result is still asked for waits until `publish_at`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from django.db import transaction
from django.db.models import Q

from tasks_app import clock
from tasks_app.operations.models import Operation
from tasks_app.troubles.rows import each_row, held_back, together
from tasks_app.troubles.works import work_on

_WORK = work_on("publish", "operation")
_listeners: list[Callable[[Operation], None]] = []
_tellers: list[Callable[[Operation], None]] = []


def on_settled(listener: Callable[[Operation], None], *, tells: bool = False) -> None:
    """Call `listener(operation)` when an operation has ended; it writes rows only, in the commit that
    marks the operation published. One that `tells` people what they can do comes after all that move what
    the operation is about."""
    among = _tellers if tells else _listeners
    if listener not in among:
        among.append(listener)


def publish(*, operation_id: uuid.UUID) -> bool:
    """Publish a settled operation; False when it is not settled, was published, or is being published."""
    with transaction.atomic():
        operation = (
            Operation.objects.filter(_due(), pk=operation_id)
            .select_related("seller", "account")
            .select_for_update(of=("self",), skip_locked=True)
            .first()
        )
        if operation is None:
            return False
        _hear([operation])
        Operation.objects.filter(pk=operation.pk).update(published_at=clock.now())
    return True


def publish_or_leave(*, operation_id: uuid.UUID) -> bool:
    """Publish; where a listener raises, the operation is put back: its end is durable, only its effects are
    still to come."""
    return bool(each_row(_WORK, [operation_id], _publish, commits=True))


def _publish(operation_id: uuid.UUID) -> bool:
    return publish(operation_id=operation_id)


def publish_many(*, operation_ids: Sequence[uuid.UUID]) -> int:
    """Publish what of these is due, in one commit where that goes well, else each in its own. Answers how
    many."""
    return sum(together(_WORK, operation_ids, _publish_together))


def _publish_together(operation_ids: Sequence[uuid.UUID]) -> list[int]:
    rows = Operation.objects.filter(_due(), pk__in=operation_ids).select_related("seller", "account")
    operations = list(rows.select_for_update(of=("self",), skip_locked=True).order_by("pk"))
    _hear(operations)
    Operation.objects.filter(pk__in=[o.pk for o in operations]).update(published_at=clock.now())
    return [len(operations)]


def _hear(operations: Sequence[Operation]) -> None:
    for listeners in (_listeners, _tellers):
        for operation in operations:
            for listener in listeners:
                listener(operation)


def publish_due(*, limit: int) -> int:
    """Publish settled operations that nobody has. Answers how many."""
    due = Operation.objects.filter(_due()).exclude(pk__in=held_back(_WORK)).order_by("settled_at")
    return each_row(_WORK, due.values_list("pk", flat=True)[:limit], _publish, commits=True)


def _due() -> Q:
    settled = Q(settled_at__isnull=False, published_at__isnull=True)
    return settled & (Q(publish_at__isnull=True) | Q(publish_at__lte=clock.now()))
