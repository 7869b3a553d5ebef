"""The critical path: the chain of steps that decides, or decided, when a job ends. Pure; no database."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from graphlib import TopologicalSorter

_NONE = timedelta()


@dataclass(frozen=True, kw_only=True)
class Span:
    """One step: `before` are its direct predecessors, `ended` is None while it is open. `expected`: what is
    left of an open one from now, or from its start where it has not begun; None where nobody knows."""

    id: uuid.UUID
    before: tuple[uuid.UUID, ...] = ()
    started: datetime | None = None
    ended: datetime | None = None
    expected: timedelta | None = None


@dataclass(frozen=True, kw_only=True)
class CriticalPath:
    """`steps` in their order; `measured`: time their finished part took; `expected`: what is known of the
    open part; `unknown`: how many open steps on it nobody can estimate."""

    steps: tuple[uuid.UUID, ...] = ()
    measured: timedelta = _NONE
    expected: timedelta = _NONE
    unknown: int = 0


@dataclass(frozen=True, order=True)
class _Finish:
    """When a step has ended or will have; between equal moments, behind how many open steps nobody can
    estimate, and how many steps deep."""

    at: datetime
    unknown: int
    depth: int
    id: uuid.UUID


def critical_path(spans: Iterable[Span], now: datetime) -> CriticalPath:
    """The chain that ends last. What is done counts as measured, what is open by its estimates; where there
    are none the longer chain of open steps decides. Steps that were abandoned are left out by the caller.

    Raises graphlib.CycleError, which a planned job's steps cannot.
    """
    known = {span.id: span for span in spans}
    finish: dict[uuid.UUID, _Finish] = {}
    came_from: dict[uuid.UUID, uuid.UUID] = {}
    for one in TopologicalSorter(
        {s.id: [b for b in s.before if b in known] for s in known.values()}
    ).static_order():
        span = known[one]
        last = max((finish[before] for before in span.before if before in known), default=None)
        if last is not None:
            came_from[one] = last.id
        finish[one] = _finish(span, last, now)
    if not finish:
        return CriticalPath()
    return _summed(_path(max(finish.values()).id, came_from), known)


def _finish(span: Span, last: _Finish | None, now: datetime) -> _Finish:
    depth = last.depth + 1 if last else 1
    if span.ended is not None:
        return _Finish(span.ended, 0, depth, span.id)
    begins = max(now, last.at) if last else now
    unknown = (last.unknown if last else 0) + (span.expected is None)
    return _Finish(begins + (span.expected or _NONE), unknown, depth, span.id)


def _path(end: uuid.UUID, came_from: Mapping[uuid.UUID, uuid.UUID]) -> tuple[uuid.UUID, ...]:
    steps = [end]
    while steps[-1] in came_from:
        steps.append(came_from[steps[-1]])
    return tuple(reversed(steps))


def _summed(steps: tuple[uuid.UUID, ...], known: Mapping[uuid.UUID, Span]) -> CriticalPath:
    spans = [known[one] for one in steps]
    still = [span for span in spans if span.ended is None]
    return CriticalPath(
        steps=steps,
        measured=sum((s.ended - s.started for s in spans if s.ended and s.started), _NONE),
        expected=sum((s.expected for s in still if s.expected), _NONE),
        unknown=sum(s.expected is None for s in still),
    )
