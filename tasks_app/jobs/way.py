"""The way through a job that decides when it ends, of the steps that a page shows."""

from __future__ import annotations

import uuid
from datetime import timedelta

from tasks_app import clock
from tasks_app.jobs.critical import CriticalPath, Span, critical_path
from tasks_app.jobs.left import answers_left, wait_left
from tasks_app.jobs.models import Step, StepStatus
from tasks_app.jobs.selectors import JobRows

_ESTIMATES = 4  # of sellers' tasks, for one page


def way_of(rows: JobRows) -> CriticalPath:
    """The critical path through the recipe's own steps, as far as they were read: what is done as measured,
    what waits by its set time or its seller's latest answers."""
    before: dict[uuid.UUID, list[uuid.UUID]] = {}
    for first, then in rows.edges:
        before.setdefault(then, []).append(first)
    left = answers_left(rows.operations.values(), at_most=_ESTIMATES)
    spans = [
        Span(
            id=step.pk,
            before=tuple(before.get(step.pk, ())),
            started=step.started_at,
            ended=step.ended_at,
            expected=_left(step, rows, left),
        )
        for step in rows.own
        if step.status != StepStatus.CANCELLED
    ]
    return critical_path(spans, clock.now())


def _left(step: Step, rows: JobRows, answers: dict[str, timedelta]) -> timedelta | None:
    """How long an open step still takes: the longest of what it, its items and its nested job wait for."""
    if step.ended_at is not None:
        return None
    known = [found for one in _inside(step, rows) if (found := wait_left(one, answers)) is not None]
    return max(known, default=None)


def _inside(step: Step, rows: JobRows) -> list[Step]:
    found = [step, *rows.items_of(step)]
    for one in list(found):
        child = rows.children.get(one.pk)
        if child is not None:
            found += rows.child_steps.get(child.pk, [])
    return [one for one in found if one.ended_at is None]
