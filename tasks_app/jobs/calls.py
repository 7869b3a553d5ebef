"""The engine's server-side calls (lifecycle/sql/steps.sql): a step completed, its successors released and the
next claimed, in one statement and one commit.

They take guardless edges only, and decide nothing that needs an expression: what they leave undone, the
engine does move by move.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, models
from django.db.models.base import ModelState

from tasks_app import clock
from tasks_app.jobs.models import Job, Step
from tasks_app.lifecycle import guards
from tasks_app.lifecycle.declarations import lifecycle
from tasks_app.lifecycle.models import Stateful
from tasks_app.lifecycle.prepared import prepared_row
from tasks_app.lifecycle.transitions import recorded, trace_id

# The edges that the calls take; the SQL names the same.
EDGES = (
    ("step", "received", "queued"),
    ("step", "queued", "executing"),
    ("step", "awaiting_tool", "executing"),
    ("step", "awaiting_user_confirmation", "executing"),
    ("step", "executing", "completed"),
    ("job", "QUEUED", "DISPATCHING"),
    ("job", "DISPATCHING", "PROCESSING"),
    ("job", "DISPATCHING", "COMPLETED"),
    ("job", "PROCESSING", "COMPLETED"),
    ("job", "PREVIEW", "COMPLETED"),
)
_TAKEN = frozenset(EDGES)
M = TypeVar("M", bound=Stateful)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a claim came to. `step`: the one taken; None where none is ready, or (`apart`) where it has to be
    claimed move by move. `running`: whether the step's job is known to run already."""

    step: Step | None = None
    apart: bool = False
    running: bool = True


@dataclass(frozen=True, kw_only=True)
class Completion:
    """What a completion came to. `done` False: nothing was written. `released`: the lanes of the steps that
    became ready. `claim`: where one was asked for."""

    done: bool
    released: tuple[str, ...] = ()
    claim: Claim | None = None


def step_claim(lanes: Sequence[str]) -> Claim:
    """Take the next ready step of `lanes`: the attempt and the lease in one commit."""
    if guards.any_on(_TAKEN):
        return Claim(apart=True)
    row = prepared_row(
        "select fd_step_claim(%s::text[], %s, %s, %s, %s)::text",
        [_array(tuple(lanes)), settings.STEP_LEASE_S, _why(), trace_id(), clock.frozen()],
    )
    return _claim(json.loads(row[0])) if row else Claim(apart=True)


def step_done(
    step: Step,
    outputs: dict[str, Any],
    *,
    told: Sequence[str] | None,
    lanes: Sequence[str] | None = None,
    trace: str = "",
) -> Completion:
    """Complete the step as the attempt that `step` is, and claim the next of `lanes` (None: none).

    `told`: the recipes whose jobs' ends somebody listens to, None for all; `trace`: the trace id of what
    follows. Raises TypeError or ValueError for outputs that cannot be recorded.
    """
    if guards.any_on(_TAKEN):
        return Completion(done=False)
    row = prepared_row(
        "select fd_step_done(%s, %s, %s, %s, %s::text[], %s::text[], %s, %s, %s, %s, %s)::text",
        [
            step.job_id,
            step.pk,
            step.attempts,
            recorded(outputs, floats=True),
            None if told is None else _array(tuple(told)),
            None if lanes is None else _array(tuple(lanes)),
            settings.STEP_LEASE_S,
            _why(),
            trace_id(),
            trace,
            clock.frozen(),
        ],
    )
    if row is None or row[0] is None:
        return Completion(done=False)
    told_back = json.loads(row[0])
    claim = None if told_back["claim"] is None else _claim(told_back["claim"])
    return Completion(done=True, released=tuple(told_back["released"]), claim=claim)


def _claim(answer: dict[str, Any]) -> Claim:
    if answer["claimed"] != "taken":
        return Claim(apart=answer["claimed"] != "none")
    step = _instance(Step, answer["step"])
    if "job" in answer:
        step.job = _instance(Job, answer["job"])
    return Claim(step=step, running=answer["running"])


def _instance(model: type[M], row: dict[str, Any]) -> M:
    """A row as Django reads it; columns that are not in it are read when they are asked for.

    As `from_db()` makes it, without the loops and signals of the constructor: a fifth of a worker's time.
    """
    instance = model.__new__(model)
    instance._state = ModelState()
    instance._state.adding, instance._state.db = False, DEFAULT_DB_ALIAS
    instance.__dict__.update(
        {
            name: row[column] if read is None or row[column] is None else read(row[column])
            for name, column, read in _columns(model)
            if column in row
        }
    )
    return instance


@cache
def _columns(model: type[Stateful]) -> tuple[tuple[str, str, Callable[[str], Any] | None], ...]:
    """Attribute, column, and what makes its value of JSON's."""
    return tuple((field.attname, str(field.column), _reader(field)) for field in model._meta.concrete_fields)


def _reader(field: models.Field[Any, Any]) -> Callable[[str], Any] | None:
    kind = field.target_field if isinstance(field, models.ForeignKey) else field
    if isinstance(kind, models.UUIDField):
        return uuid.UUID
    return datetime.fromisoformat if isinstance(kind, models.DateTimeField) else None


@cache
def _array(names: tuple[str, ...]) -> str:
    """Names as PostgreSQL reads an array's text; the same few in every call."""
    return "{" + ",".join(json.dumps(name, ensure_ascii=False) for name in names) + "}"


@cache
def _why() -> str:
    """What the entries of a job's moves give as their reason, as transition() does."""
    edges = lifecycle("job").edges
    return json.dumps({f"{a}>{b}": edges[a, b] for entity, a, b in EDGES if entity == "job"})
