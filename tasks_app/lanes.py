"""The lanes of the queue (document 001, section 6.4): what each carries, and which a worker serves."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

_PREFIX = "flightdeck"


class WorkerLane(StrEnum):
    """In the order in which a worker that serves all of them prefers them."""

    POLLING = "polling"  # the sweep and the relay of events: one task for as long as the worker runs
    WEBHOOKS = "webhooks"  # deliveries that came in a burst
    RECIPES = "recipes"  # steps of jobs
    MAIN = "main"  # everything else: starts, reports, reconciliation, readings of media buys
    BACKGROUND = "background"  # steps that nobody waits for


def queue_of(lane: str) -> str:
    """The name of the lane's queue. Raises ValueError for no lane."""
    return f"{_PREFIX}.{WorkerLane(lane)}"


def lanes_read(names: str) -> tuple[WorkerLane, ...]:
    """`recipes,background` as lanes, in that order; all of them where nothing is named. Raises ValueError,
    naming what is no lane or is named twice."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in list(WorkerLane)]
    if unknown:
        raise ValueError(f"no lane is called {', '.join(unknown)}; there are {', '.join(WorkerLane)}")
    if len(set(wanted)) < len(wanted):
        raise ValueError("each lane is named once")
    return tuple(WorkerLane(name) for name in wanted) or tuple(WorkerLane)


def queues_of(lanes: Sequence[str]) -> list[str]:
    """Their queues, in the same order."""
    return [queue_of(lane) for lane in lanes]
