"""Waking workers: a word that says "there is work", nothing more. Losing it costs a moment.

One idle worker of each cluster listens for it (`ear`); further workers are woken by django-q2 tasks.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.models import Q

from tasks_app import clock
from tasks_app.database_clock import database_now
from tasks_app.database_connection import connection_checked
from tasks_app.jobs.models import Lane, Step, StepStatus
from tasks_app.lifecycle.prepared import prepared_row
from tasks_app.troubles.rows import together
from tasks_app.troubles.works import work_on
from tasks_app.waking import wake_workers

WORK = work_on("steps_woken", "step")
DRAIN = "tasks_app.jobs.worker.drain"
STEPS_READY = "fd_steps"  # the channel; what is told is a lane
# One round trip, and a commit of its own that waits for no disk: what a crash loses costs a moment. Commits
# that tell wait for each other until the disk has them: only what takes much longer tells in its own.
_TELL = """
select count(pg_notify(%s, lane)), case when %s then set_config('synchronous_commit', 'off', true) end
  from unnest(%s::text[]) lane
"""
# With the sweep's tick (1 s) a lost wake-up costs at most two seconds.
_MISSED = timedelta(seconds=0.5)
_here = threading.local()


def wake(lanes: Iterable[str] = (Lane.RECIPES,), *, with_commit: bool = False) -> None:
    """Wake workers for ready steps, named by their lanes, once the present commit is durable; where that
    fails it is logged. A worker that drains takes one of its lane itself. `with_commit`: where no worker
    drains here, those who listen are told by that commit itself (decision 0004)."""
    ready = Counter(str(lane) for lane in lanes)
    told = with_commit and _told_with_commit(ready)
    transaction.on_commit(partial(_owe, ready, told=told), robust=True)


def resume(*, waiting_for: dict[str, Any]) -> int:
    """Wake the steps that wait for exactly this, in the caller's commit; those that would wake by themselves
    later, too. Answers how many."""
    asleep = Step.objects.filter(
        sleeps(),
        status__in=(StepStatus.AWAITING_TOOL, StepStatus.AWAITING_USER),
        waiting_for__contains=waiting_for,
    )
    found = asleep.order_by("id").select_for_update(no_key=True).values_list("pk", "lane")
    return steps_wake(dict(found))


def sleeps() -> Q:
    """Of steps that wait: those that nothing has woken, also where they would wake by themselves later."""
    return Q(ready_at__isnull=True) | Q(ready_at__gt=clock.now())


def steps_wake(lanes: Mapping[uuid.UUID, str]) -> int:
    """Wake steps that sleep, with the lane of each. One that cannot be written keeps back neither the others
    nor what they waited for: it is woken later, by itself (`expiry.steps_wake_again`). Answers how many."""
    return sum(together(WORK, lanes, lambda ids: [steps_ready({pk: lanes[pk] for pk in ids})]))


def steps_ready(lanes: Mapping[uuid.UUID, str]) -> int:
    """Have steps that sleep go on, with the lane of each. Answers how many."""
    if not lanes:
        return 0
    wake(lanes.values())
    return Step.objects.filter(pk__in=lanes).update(ready_at=clock.now())


def wake_if_missed() -> int:
    """Wake a worker of each lane in which ready work is waiting longer than a wake-up takes, or a step's
    worker is gone. Answers how many."""
    now = clock.now()
    missed = Q(ready_at__lte=now - _MISSED) | Q(status=StepStatus.EXECUTING, lease_until__lt=database_now())
    return sum(_wake(lane) for lane in Lane.values if Step.objects.filter(missed, lane=lane).exists())


@contextmanager
def taking_next() -> Iterator[Counter[str]]:
    """Around one step of a drain: others are woken for what it makes ready, less the steps that this worker
    takes, which it counts by lane in what it is given. After an error nothing is counted on: everybody is
    woken."""
    _here.owed, taken = Counter(), Counter[str]()
    try:
        yield taken
    except BaseException:  # whatever it was, what became ready is for others
        _tell(Counter(Lane.values))
        raise
    finally:
        owed, _here.owed = _here.owed, None
    _tell(owed - taken)


def steps_tell(lanes: Collection[str]) -> None:
    """Tell one idle worker of each cluster that serves them: steps of these lanes are ready."""
    connection_checked()
    prepared_row(_TELL, [STEPS_READY, not connection.in_atomic_block, sorted(lanes)])


def _wake(lane: str, wanted: int = 1) -> int:
    return wake_workers(DRAIN, wanted, lane=lane, lanes=[lane]) if wanted > 0 else 0


def _told_with_commit(ready: Collection[str]) -> bool:
    """Whether it could be; not in a drain, whose worker may take the next step itself."""
    if not ready or _owed() is not None or not connection.in_atomic_block:
        return False
    steps_tell(ready)
    return True


def _owe(ready: Counter[str], *, told: bool) -> None:
    owed = _owed()
    if owed is not None:
        owed.update(ready)
        return
    _tell(ready, told=told)


def _owed() -> Counter[str] | None:
    """What the drain that goes on in this thread owes to others."""
    owed: Counter[str] | None = getattr(_here, "owed", None)
    return owed


def _tell(ready: Counter[str], *, told: bool = False) -> None:
    if ready and not told:
        steps_tell(ready)
    for lane, wanted in ready.items():
        _wake(lane, wanted - 1)
