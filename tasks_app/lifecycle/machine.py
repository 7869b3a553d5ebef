"""The document's own state machine: an order in memory, over the same declarations, without a database.

Source: document 002, "Using the State Machine Directly". Rules added here are local to the object; the
stored entities' guards are in `tasks_app.lifecycle.guards`.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from django.db.models import TextChoices

from tasks_app import clock, days
from tasks_app.lifecycle.declarations import Lifecycle, lifecycle
from tasks_app.lifecycle.errors import InvalidTransitionError, UnknownStatusError
from tasks_app.lifecycle.transitions import exact
from tasks_app.people.actors import SYSTEM, actor_key

StatusT = TypeVar("StatusT", bound=TextChoices)
# (order_id, from_status, to_status, context) to True, False, or the reason why not.
RuleGuard = Callable[[str, Any, Any, dict[str, Any]], "bool | str"]
_NO_RULE = "no matching transition rule"


class UnknownLegacyStatusError(UnknownStatusError):
    """A status that the document's mapping table does not have. `known`: those it has."""

    def __init__(self, entity: str, value: object, known: tuple[str, ...]) -> None:
        super().__init__(entity, "", "", str(value), "it is not in the document's table")
        self.known = known

    def __str__(self) -> str:
        return f"{self.to_status!r} is no known {self.entity} status; known: {', '.join(self.known)}"


@dataclass(frozen=True, kw_only=True)
class TransitionRule(Generic[StatusT]):
    """A permitted (from, to) pair, optionally guarded."""

    from_status: StatusT
    to_status: StatusT
    guard: RuleGuard | None = None
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class StateTransition:
    """One change that happened. `timestamp` is UTC; `metadata` keeps its decimals and floats as numbers.

    Raises UnknownActorError, TypeError (metadata that cannot be recorded: NaN, infinity, foreign objects),
    ValueError (a time without a zone).
    """

    from_status: str
    to_status: str
    transition_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    timestamp: datetime = field(default_factory=clock.now)
    actor: str = SYSTEM
    reason: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.timestamp.utcoffset() is None:
            raise ValueError("the timestamp has no zone")
        object.__setattr__(self, "timestamp", days.utc(self.timestamp))
        object.__setattr__(self, "actor", actor_key(self.actor))
        object.__setattr__(self, "metadata", _metadata(self.metadata))  # a copy of its own

    def to_dict(self) -> dict[str, Any]:
        """JSON; the time in ISO 8601, decimals as text."""
        metadata = exact(self.metadata, floats=True)
        return {**asdict(self), "timestamp": self.timestamp.isoformat(), "metadata": metadata}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Raises ValueError for data that `to_dict` did not make."""
        try:
            told = cls(**{**data, "timestamp": datetime.fromisoformat(data["timestamp"])})
            texts = (told.from_status, told.to_status, told.reason, str(uuid.UUID(told.transition_id)))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is no recorded transition: {error!r}") from error
        if not all(isinstance(text, str) for text in texts) or not isinstance(told.metadata, dict):
            raise ValueError("this is no recorded transition: a field has the wrong type")
        return told


def _metadata(value: Any) -> Any:
    """A copy of `value` in which finite decimals and floats stay numbers, all else as `exact` records it.
    Raises TypeError."""
    if isinstance(value, Decimal | float):
        if not math.isfinite(value):
            raise TypeError(f"{value} is no number that can be recorded")
        return value
    if isinstance(value, Mapping):
        return {exact(str(key)): _metadata(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_metadata(one) for one in value]
    return exact(value)


class OrderAuditLog:
    """The append-only record of one order. It hands out copies, so that nothing in it can be changed."""

    def __init__(self, order_id: str, transitions: list[StateTransition] | None = None) -> None:
        self.order_id = order_id
        self._transitions = [replace(told) for told in transitions or ()]

    @property
    def transitions(self) -> list[StateTransition]:
        """What happened, oldest first."""
        return [replace(told) for told in self._transitions]

    @property
    def current_status(self) -> str | None:
        """Where the latest transition led; None before the first."""
        return self._transitions[-1].to_status if self._transitions else None

    def append(self, transition: StateTransition) -> None:
        self._transitions.append(replace(transition))

    def to_dict(self) -> dict[str, Any]:
        return {"order_id": self.order_id, "transitions": [told.to_dict() for told in self._transitions]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Raises ValueError for data that `to_dict` did not make."""
        try:
            return cls(data["order_id"], [StateTransition.from_dict(told) for told in data["transitions"]])
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is no audit log: {error!r}") from error


class OrderStateMachine(Generic[StatusT]):
    """One order's status, moved along declared edges only.

    `rules`, where given, are all that this order may do; without them it may do everything declared. Raises
    UnknownStatusError, and InvalidTransitionError for a rule whose edge is not declared.
    """

    entity: ClassVar[str]
    statuses: ClassVar[type[TextChoices]]

    def __init__(
        self,
        order_id: str,
        initial_status: StatusT | str | None = None,
        rules: Iterable[TransitionRule[StatusT]] | None = None,
    ) -> None:
        self.order_id = order_id
        self._status = self._known(self.declared().initial if initial_status is None else initial_status)
        self.audit_log = OrderAuditLog(order_id)
        self._rules: dict[tuple[str, str], list[TransitionRule[StatusT]]] = {
            edge: [] for edge in (self.declared().edges if rules is None else ())
        }
        for rule in rules or ():
            self.add_rule(rule)

    @classmethod
    def declared(cls) -> Lifecycle:
        return lifecycle(cls.entity)

    @property
    def status(self) -> StatusT:
        return self._status

    @property
    def history(self) -> list[StateTransition]:
        """What happened, oldest first."""
        return self.audit_log.transitions

    def can_transition(self, to_status: StatusT | str, context: Mapping[str, Any] | None = None) -> bool:
        """Whether the move is declared and no guard refuses it now. Raises UnknownStatusError."""
        return not self._refusal(self._known(to_status), context)

    def allowed_transitions(self) -> list[StatusT]:
        """Statuses that an edge of this order leads to from here, in declared order; guards are not asked."""
        return [self._known(to) for to in self._targets()]

    def add_rule(self, rule: TransitionRule[StatusT]) -> None:
        """Guard a declared edge of this object, or allow it where `rules` left it out; all guards must agree.

        Raises UnknownStatusError, and InvalidTransitionError where the edge is not declared: a new edge is a
        change of the declaration, never made at run time.
        """
        frm, to = self._known(rule.from_status), self._known(rule.to_status)
        edge = (frm.value, to.value)
        if edge not in self.declared().edges:
            raise InvalidTransitionError(
                "order", self.order_id, *edge, _NO_RULE, self.declared().targets(frm)
            )
        self._rules.setdefault(edge, []).append(rule)

    def transition(
        self,
        to_status: StatusT | str,
        *,
        actor: str = SYSTEM,
        reason: str = "",
        context: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> StateTransition:
        """Move and record; the reason defaults to the edge's description.

        Raises InvalidTransitionError, UnknownStatusError, UnknownActorError, TypeError (metadata that cannot
        be recorded); then nothing has changed.
        """
        to = self._known(to_status)
        refused = self._refusal(to, context)
        if refused:
            raise InvalidTransitionError(
                "order", self.order_id, self._status.value, to.value, refused, self._targets()
            )
        record = StateTransition(
            from_status=self._status.value,
            to_status=to.value,
            actor=actor,
            reason=reason or self._description(to),
            metadata=dict(metadata or {}),
        )
        self.audit_log.append(record)
        self._status = to
        return record

    def to_dict(self) -> dict[str, Any]:
        """`{"order_id", "status", "audit_log"}`, JSON. Added rules are code, and not in it."""
        return {
            "order_id": self.order_id,
            "status": self._status.value,
            "audit_log": self.audit_log.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The machine as saved, without added rules.

        Raises UnknownStatusError, and ValueError for data that `to_dict` did not make: a log of another
        order, with a gap, along an undeclared edge, or ending at another status.
        """
        try:
            machine, log = cls(data["order_id"], data["status"]), OrderAuditLog.from_dict(data["audit_log"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is no saved order: {error!r}") from error
        if not isinstance(machine.order_id, str):
            raise ValueError("this is no saved order: its order_id is no text")
        machine._check(log)
        machine.audit_log = log
        return machine

    def _check(self, log: OrderAuditLog) -> None:
        if log.order_id != self.order_id:
            raise ValueError(f"the audit log is of order {log.order_id}, not {self.order_id}")
        told = log.transitions
        for one in told:
            if (one.from_status, one.to_status) not in self.declared().edges:
                raise ValueError(f"the audit log has an undeclared {one.from_status} → {one.to_status}")
        if any(before.to_status != after.from_status for before, after in pairwise(told)):
            raise ValueError("the audit log has a gap")
        if told and told[-1].to_status != self._status.value:
            raise ValueError(f"the audit log ends at {told[-1].to_status}, not {self._status.value}")

    def _targets(self) -> tuple[str, ...]:
        now = self._status.value
        return tuple(to for to in self.declared().targets(now) if (now, to) in self._rules)

    def _refusal(self, to: StatusT, context: Mapping[str, Any] | None) -> str:
        edge = (self._status.value, to.value)
        if edge not in self._rules:
            return _NO_RULE
        for rule in self._rules[edge]:
            asked = rule.guard(self.order_id, self._status, to, dict(context or {})) if rule.guard else True
            if asked is not True:
                return asked if isinstance(asked, str) and asked else "guard condition failed"
        return ""

    def _description(self, to: StatusT) -> str:
        edge = (self._status.value, to.value)
        own = [rule.description for rule in self._rules[edge] if rule.description]
        return own[-1] if own else self.declared().edges[edge]

    def _known(self, status: StatusT | str) -> StatusT:
        try:
            return cast("StatusT", self.statuses(status))
        except ValueError:
            now = getattr(self, "_status", None)
            why = f"{status!r} is not a status of a {self.entity}"
            raise UnknownStatusError(
                "order", self.order_id, now.value if now else "nothing", str(status), why
            ) from None
