"""Waking workers: a django-q2 task that says "there is work", nothing more. Losing it costs a moment."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Q

from tasks_app import clock
from tasks_app.jobs.models import Lane, Step, StepStatus
from tasks_app.waking import wake_workers

DRAIN = "tasks_app.jobs.worker.drain"
# With the sweep's tick (1 s) a lost wake-up costs at most two seconds.
_MISSED = timedelta(seconds=0.5)
_here = threading.local()


def wake(lanes: Iterable[str] = (Lane.RECIPES,)) -> None:
    """Wake workers for ready steps, named by their lanes, once the present commit is durable; where that
    fails it is logged. A worker that drains takes one of its lane itself."""
    transaction.on_commit(partial(_owe, Counter(str(lane) for lane in lanes)), robust=True)


def resume(*, waiting_for: dict[str, Any]) -> int:
    """Wake the steps that wait for exactly this, in the caller's commit. Answers how many."""
    asleep = Step.objects.filter(
        status__in=(StepStatus.AWAITING_TOOL, StepStatus.AWAITING_USER),
        waiting_for__contains=waiting_for,
        ready_at__isnull=True,
    )
    found = asleep.order_by("id").select_for_update(no_key=True).values_list("pk", "lane")
    lanes = dict(found)
    if lanes:
        Step.objects.filter(pk__in=lanes).update(ready_at=clock.now())
        wake(lanes.values())
    return len(lanes)


def wake_if_missed() -> int:
    """Wake a worker of each lane in which ready work is waiting longer than a wake-up takes, or a step's
    worker is gone. Answers how many."""
    now = clock.now()
    missed = Q(ready_at__lte=now - _MISSED) | Q(status=StepStatus.EXECUTING, lease_until__lt=now)
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
        for lane in Lane.values:
            _wake(lane)
        raise
    finally:
        owed, _here.owed = _here.owed, None
    for lane, ready in (owed - taken).items():
        _wake(lane, ready)


def _wake(lane: str, wanted: int = 1) -> int:
    return wake_workers(DRAIN, wanted, lane=lane, lanes=[lane]) if wanted > 0 else 0


def _owe(ready: Counter[str]) -> None:
    owed: Counter[str] | None = getattr(_here, "owed", None)
    if owed is not None:
        owed.update(ready)
        return
    for lane, wanted in ready.items():
        _wake(lane, wanted)
