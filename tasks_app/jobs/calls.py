"""The engine's server-side calls (migrations/sql/steps.sql): steps completed, their successors released and
the next claimed, in one statement and one commit.

They take guardless edges only, and decide nothing that needs an expression: what they leave undone, the
engine does move by move.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
class Taken:
    """A step that was claimed. `running`: whether its job is known to run already."""

    step: Step
    running: bool


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a claim came to. `taken`: the steps; none where none is ready, or (`apart`) where one has to be
    claimed move by move."""

    taken: tuple[Taken, ...] = ()
    apart: bool = False


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What to claim: of these lanes at most `many` steps, after the first one only as far as their actions
    are among `together`. `trace`: the trace id of the claim."""

    lanes: tuple[str, ...]
    many: int = 1
    together: tuple[str, ...] = ()
    trace: str = field(default_factory=trace_id)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A step whose action has ended well, as the attempt that `step` is: its outputs, the trace id of what
    follows from it. Raises TypeError or ValueError for outputs that cannot be recorded."""

    step: Step
    outputs: dict[str, Any]
    trace: str = field(default_factory=trace_id)
    recorded: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "recorded", recorded(self.outputs, floats=True))

    def told(self) -> str:
        """As the call reads it."""
        step = self.step
        return (
            f'{{"job":"{step.job_id}","step":"{step.pk}","attempt":{step.attempts},'
            f'"trace":{json.dumps(self.trace)},"outputs":{self.recorded}}}'
        )


@dataclass(frozen=True, kw_only=True)
class Completion:
    """What completing steps came to. `done`: of each whether it was; of one that was not, nothing was
    written. `released`: the lanes of the steps that became ready. `claim`: where one was asked for and all
    were done."""

    done: tuple[bool, ...]
    released: tuple[str, ...] = ()
    claim: Claim | None = None


def steps_claim(wanted: Wanted) -> Claim:
    """Take the next ready steps: the attempts and the leases in one commit."""
    if guards.any_on(_TAKEN):
        return Claim(apart=True)
    row = prepared_row(
        "select fd_steps_claim(%s::text[], %s, %s::text[], %s, %s, %s, %s)::text",
        [*_asked(wanted), settings.STEP_LEASE_S, _why(), wanted.trace, clock.frozen()],
    )
    return _claim(json.loads(row[0])) if row else Claim(apart=True)


def steps_done(
    ended: Sequence[Ended], *, told: Sequence[str] | None, wanted: Wanted | None = None
) -> Completion:
    """Complete steps, in the order in which they ended, and claim the next ones, in one commit.

    `told`: the recipes whose jobs' ends somebody listens to, None for all.
    """
    nothing = Completion(done=(False,) * len(ended))
    if guards.any_on(_TAKEN):
        return nothing
    row = prepared_row(
        "select fd_steps_done(%s, %s::text[], %s::text[], %s, %s::text[], %s, %s, %s, %s)::text",
        [
            f"[{','.join(one.told() for one in ended)}]",
            None if told is None else _array(tuple(told)),
            *((None, 0, None) if wanted is None else _asked(wanted)),
            settings.STEP_LEASE_S,
            _why(),
            "" if wanted is None else wanted.trace,
            clock.frozen(),
        ],
    )
    if row is None or row[0] is None:
        return nothing
    answer = json.loads(row[0])
    claim = None if answer["claim"] is None else _claim(answer["claim"])
    return Completion(done=tuple(answer["done"]), released=tuple(answer["released"]), claim=claim)


def _asked(wanted: Wanted) -> tuple[str, int, str]:
    return _array(wanted.lanes), wanted.many, _array(wanted.together)


def _claim(answer: dict[str, Any]) -> Claim:
    if answer["claimed"] != "taken":
        return Claim(apart=answer["claimed"] != "none")
    return Claim(taken=tuple(_taken(one) for one in answer["taken"]))


def _taken(one: dict[str, Any]) -> Taken:
    step = _instance(Step, one["step"])
    if "job" in one:
        step.job = _instance(Job, one["job"])
    return Taken(step=step, running=one["running"])


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
