"""Actions: what a step does. Registered by the storeys above; run outside any transaction of the engine.

An action may run again after a crash: it finds what it made before (an operation by its purpose, an
approval by its subject) instead of making it twice.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from django.db.models import Q

from tasks_app.jobs.models import Job, Step
from tasks_app.operations.models import READS, Operation
from tasks_app.operations.models import OperationStatus as O

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
        """A purpose for an operation of this step. In a retried job it is that of what the step asked for
        before, where that changes something at the seller and did not fail: it is not done twice."""
        return self._asked_before(what) or f"step:{self.step.pk}:{what}"

    def _asked_before(self, what: str) -> str | None:
        if self.step.lineage is None:
            return None
        chain = Q(pk=self.step.lineage) | Q(lineage=self.step.lineage)
        earlier = Step.objects.filter(chain).exclude(pk=self.step.pk).values_list("pk", flat=True)
        asked = Operation.objects.filter(purpose__in=[f"step:{pk}:{what}" for pk in earlier])
        stands = asked.exclude(task_type__in=READS).exclude(status__in=(O.FAILED, O.REJECTED, O.CANCELED))
        return stands.order_by("-id").values_list("purpose", flat=True).first()


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


Result = Done | WaitForOperation | WaitForApprovals | WaitUntil | WaitForEvent
Action = Callable[[Run], Result]


class StepFailedError(Exception):
    """The step failed and trying again cannot help; the text says why, for people."""


_actions: dict[str, Action] = {}


def action_register(name: str, action: Action) -> None:
    """Make `action` known. Raises ValueError for a name that is taken by another."""
    if _actions.setdefault(name, action) is not action:
        raise ValueError(f"action {name} is registered already")


def action_named(name: str) -> Action:
    """The registered action. Raises StepFailedError."""
    try:
        return _actions[name]
    except KeyError:
        raise StepFailedError(f"there is no action {name!r}") from None
