"""Actions: what a step does. Registered by the storeys above; run outside any transaction of the engine.

An action may run again after a crash: it finds what it made before (an operation by its purpose, an
approval by its subject) instead of making it twice. It is declared `pure`, `idempotent` or `command`: only a
command has effects outside, which is enforced while it runs.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

from tasks_app.commands.boundary import Acting, ActionKind, acting
from tasks_app.commands.models import Command
from tasks_app.commands.services import command_stands
from tasks_app.jobs import claims
from tasks_app.jobs.adoption import command_key, steps_before
from tasks_app.jobs.models import Job, Step
from tasks_app.operations.turns import sharing
from tasks_app.tracing import caused_by

EVENT_NAME = r"[a-z][a-z0-9_.-]{0,79}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One execution of one step: the rows, and the step's inputs with their expressions resolved."""

    job: Job
    step: Step
    inputs: dict[str, Any]
    event: dict[str, Any] | None = None  # the payload of the outside event that it waited for
    event_late: bool = False  # that event has not come in time, and the step goes on without it

    def purpose(self, what: str) -> str:
        """The key of an operation or command of this step. In a retried job it is that of the command which
        the step ran before, where its effect stands: it is not had twice. A read is made anew."""
        return self._asked_before(what) or command_key(self.step.pk, what)

    def _asked_before(self, what: str) -> str | None:
        earlier = list(steps_before(self.step).values_list("pk", flat=True))
        asked = Command.objects.filter(key__in=[command_key(pk, what) for pk in earlier]).order_by("-id")
        return next((command.key for command in asked if command_stands(command)), None)


@dataclass(frozen=True, kw_only=True)
class Done:
    """The step is complete."""

    outputs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WaitForOperation:
    """The step sleeps, holding no worker, until the operation has ended; then the action runs again."""

    operation_id: uuid.UUID


@dataclass(frozen=True, kw_only=True)
class WaitForApprovals:
    """The step sleeps until every one of these approvals is closed; then the action runs again."""

    approval_ids: tuple[uuid.UUID, ...]


@dataclass(frozen=True, kw_only=True)
class WaitUntil:
    """The step sleeps until a moment."""

    moment: datetime


@dataclass(frozen=True, kw_only=True)
class WaitForAccount:
    """The step sleeps until the seller has decided about an account that is not active; then the action
    runs again. `look_again`: also after so long, for what wants the account may end before that."""

    account_id: uuid.UUID
    look_again: timedelta | None = None


@dataclass(frozen=True, kw_only=True)
class WaitForEvent:
    """The step sleeps until an event of this name and correlation is delivered to its team (`outside`); then
    the action runs again, with `Run.event`. Not come by `until`: the step fails, or goes on with
    `Run.event_late`. Raises ValueError for a name that no event can have."""

    name: str
    correlation: str = ""
    until: datetime | None = None
    late: Literal["fail", "continue"] = "fail"

    def __post_init__(self) -> None:
        if not re.fullmatch(EVENT_NAME, self.name) or len(self.correlation) > 200:
            raise ValueError(f"no event can be called {self.name!r} {self.correlation!r}")
        if self.late not in ("fail", "continue"):
            raise ValueError(f"late is fail or continue, not {self.late!r}")


Result = Done | WaitForOperation | WaitForApprovals | WaitForAccount | WaitUntil | WaitForEvent
Action = Callable[[Run], Result]


class StepFailedError(Exception):
    """The step failed and trying again cannot help; the text says why, for people."""


_actions: dict[str, tuple[Action, ActionKind]] = {}


def action_register(name: str, action: Action, *, kind: str) -> None:
    """Make `action` known, declared `pure` (nothing but its outputs), `idempotent` (rows of ours, reads at
    sellers) or `command` (effects outside, each under a key). Raises ValueError for another kind, or a name
    that is taken by another."""
    registered = (action, ActionKind(kind))
    if _actions.setdefault(name, registered) != registered:
        raise ValueError(f"action {name} is registered already")


def action_known(name: str) -> bool:
    """Whether somebody registered it."""
    return name in _actions


def action_is_pure(name: str) -> bool:
    """Whether an action has nothing but its outputs: to run it again changes nothing."""
    return name in _actions and _actions[name][1] == ActionKind.PURE


def action_perform(name: str, run: Run) -> Result:
    """Run an action, within what it is declared for; what it decides and asks for goes back to its job.

    Raises StepFailedError where nobody registered it, EffectRefusedError where it does more than it declared,
    and whatever it raises.
    """
    if name not in _actions:
        raise StepFailedError(f"there is no action {name!r}")
    action, kind = _actions[name]
    now = Acting(
        action=name,
        kind=kind,
        repeated=kind == ActionKind.COMMAND and _is_repeated(run),
        hold=partial(claims.attempt_hold, run.step),
    )
    job = run.job
    with (
        acting(now),
        sharing(job.subject_id or job.pk, priority=run.step.priority),
        caused_by(request=job.request_id, team=job.team_id, user=job.requested_by),
    ):
        return action(run)


def _is_repeated(run: Run) -> bool:
    """Whether it was tried before: by this step, in an error or with its worker, or by the one it retries."""
    if run.step.failures or run.job.retry_of_id is not None:
        return True
    return run.step.attempts > 1 and claims.lost_attempts(run.step) > 0
