"""How far our answer to a seller's question has come, and the words for it: pages, queues and messages say
the same of it.

An answer is given once, released by a second person where money may move, held where the kill switch stops
what leaves, sent at most once, and replied to. Source: AdCP L3/async-identity-and-convergence, "Resumability
and continuation generations".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from tasks_app.commands.gates import SELLER, gates_closed
from tasks_app.commands.models import Command
from tasks_app.desk import text
from tasks_app.operations.continuation import NOT_KNOWN, Continuation
from tasks_app.operations.models import PENDING, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pauses import answer_key, can_continue, continuations_current


class Stage(StrEnum):
    """Where an answer that was given is."""

    ASKED = "asked"  # a second person releases it
    AT_GATE = "at a gate"
    TO_SEND = "to be sent"
    LEFT = "left"  # its reply has not come
    LOST = "lost"  # it left, and whether it arrived is not known


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Our answer to what a seller asks, given and not replied to yet. `commands`: those by which it waits at
    a gate; `passes`: people let it past what stops it; `shut`: why nothing is sent to its seller now, empty
    where it is; `note`: what is known of one that has left."""

    stage: Stage
    given_at: datetime
    left_at: datetime | None = None
    commands: tuple[uuid.UUID, ...] = ()
    passes: bool = False
    shut: str = ""
    note: str = ""

    @property
    def has_left(self) -> bool:
        """Whether it is its seller's."""
        return self.stage in (Stage.LEFT, Stage.LOST)

    @property
    def is_with_people(self) -> bool:
        """Whether it leaves when people have decided."""
        return self.stage in (Stage.ASKED, Stage.AT_GATE)

    @property
    def needs_people(self) -> bool:
        """Whether it goes on when somebody has acted: decided, let its seller be called, or asked it."""
        return self.is_with_people or self.stage is Stage.LOST or self.is_shut

    @property
    def is_shut(self) -> bool:
        """Whether all that keeps it is that nothing is sent to its seller."""
        return self.stage is Stage.TO_SEND and bool(self.shut)

    @property
    def is_stopped(self) -> bool:
        """Whether it leaves but for the kill switch, where that is on."""
        return self.stage in (Stage.AT_GATE, Stage.TO_SEND) and not self.passes

    @property
    def words(self) -> str:
        """Our answer waits to be sent."""
        return f"Our answer {_WORDS[self.stage]}"

    @property
    def sentence(self) -> str:
        """Our answer, given today 09:06, waits to be sent: Norrland Digital is switched off."""
        return self.said(text.moment_short)

    def said(self, moment: Callable[[datetime], str]) -> str:
        """The same with its time as `moment` says it."""
        if self.left_at is not None:
            return f"Our answer left {moment(self.left_at)}; {self.note or _NO_REPLY}."
        why = f": {self.shut}" if self.is_shut else ""
        return f"Our answer, given {moment(self.given_at)}, {_WORDS[self.stage]}{why}."

    def acts(self, seller: str) -> str:
        """Who has to act next; `seller`: the name of its seller."""
        return "who may change sellers" if self.is_shut else _ACTS.get(self.stage, seller)


_PAUSED = (S.INPUT_REQUIRED, S.AUTH_REQUIRED)
_NO_REPLY = "its reply has not come"
_WORDS = {
    Stage.ASKED: "waits for somebody else to release it",
    Stage.AT_GATE: "is held at a gate",
    Stage.TO_SEND: "waits to be sent",
    Stage.LEFT: f"left; {_NO_REPLY}",
    Stage.LOST: f"left; {NOT_KNOWN}",
}
_ACTS = {
    Stage.ASKED: "an approver",
    Stage.AT_GATE: "an approver",
    Stage.TO_SEND: "a worker",
    Stage.LOST: "Ad Ops",
}


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Of several operations the answers that were `given`, by operation; `answerable`: those whose sellers
    ask, which nobody has answered, and whose transport gave a way to."""

    given: Mapping[uuid.UUID, Answer] = field(default_factory=dict)
    answerable: frozenset[uuid.UUID] = frozenset()

    def of(self, operation: Operation) -> Answer | None:
        """The answer that was given about one; None where there is none."""
        return self.given.get(operation.pk)

    def may_be_given(self, operation: Operation) -> bool:
        """Whether one can be answered now."""
        return operation.pk in self.answerable

    def beside(self, others: Answers) -> Answers:
        """These and those of others."""
        return Answers(given={**self.given, **others.given}, answerable=self.answerable | others.answerable)


NO_ANSWERS = Answers()


def answers_of(operations: Iterable[Operation]) -> Answers:
    """The answers about these, each with its seller: at most two queries, none where none can be."""
    rows = {one.pk: one for one in operations if one.status in PENDING and can_continue(one)}
    pauses = continuations_current(rows.values())
    given = {pk: pause for pk, pause in pauses.items() if pause.is_given and _is_awaited(rows[pk], pause)}
    commands = _commands(rows, given)
    return Answers(
        given={pk: _answer(rows[pk], pause, commands) for pk, pause in given.items()},
        answerable=frozenset(pk for pk, pause in pauses.items() if pause.is_answerable),
    )


def answer_of(operation: Operation) -> Answer | None:
    """The answer that was given about one; None where there is none."""
    return answers_of([operation]).of(operation)


def answer_said(operation: Operation, pause: Continuation | None) -> str:
    """The sentence of the answer to a pause, also where nobody waits for its seller any more; empty where
    there is none."""
    is_new = operation.status in _PAUSED and pause is not None and not _is_awaited(operation, pause)
    if pause is None or not pause.is_given or is_new:
        return ""
    if pause.dispatched_at is None and operation.status not in PENDING:
        given = text.moment_short(pause.answered_at)
        return f"Our answer, given {given}, does not leave while the operation is overdue."
    commands = _commands({operation.pk: operation}, {operation.pk: pause})
    return _answer(operation, pause, commands).sentence


def _is_awaited(operation: Operation, pause: Continuation) -> bool:
    """Whether it waits for that answer, or for its reply; else its seller went on since the answer left, or
    asks again."""
    left_at = pause.dispatched_at
    return left_at is None or (operation.status in _PAUSED and operation.status_since <= left_at)


def _commands(
    rows: Mapping[uuid.UUID, Operation], given: Mapping[uuid.UUID, Continuation]
) -> dict[str, Command]:
    """By key the commands that answers are, and those of their orders: either may wait at a gate."""
    keys = {answer_key(pause) for pause in given.values()} | {rows[pk].purpose for pk in given}
    found = Command.objects.filter(key__in=keys).select_related("seller", "team") if keys else ()
    return {one.key: one for one in found}


def _answer(operation: Operation, pause: Continuation, commands: Mapping[str, Command]) -> Answer:
    order = commands.get(operation.purpose)
    ours = [one for one in (commands.get(answer_key(pause)), order) if one is not None]
    though_off = operation.is_mutation and order is not None and SELLER in order.overrides
    return Answer(
        stage=_stage(operation, pause, ours),
        given_at=pause.answered_at or pause.at,
        left_at=pause.dispatched_at,
        commands=tuple(one.pk for one in ours if one.waiting_since is not None),
        passes=any(one.overrides and not gates_closed(one, repeated=False) for one in ours),
        shut=operation.seller.shut(mutates=operation.is_mutation, though_off=though_off),
        note=pause.note,
    )


def _stage(operation: Operation, pause: Continuation, commands: Collection[Command]) -> Stage:
    if pause.dispatched_at is not None:
        return Stage.LOST if pause.note == NOT_KNOWN else Stage.LEFT
    if pause.released_at is not None and operation.send_at is not None:
        return Stage.TO_SEND
    waits = any(one.waiting_since is not None for one in commands)
    return Stage.AT_GATE if waits or pause.released_at is not None else Stage.ASKED
