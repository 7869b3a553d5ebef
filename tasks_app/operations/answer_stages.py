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
from functools import cached_property

from django.db.models import Exists, OuterRef, Q, QuerySet

from tasks_app.commands.gates import SELLER, gates_closed
from tasks_app.commands.models import Command
from tasks_app.desk import text
from tasks_app.operations.account_stops import waits_for_account
from tasks_app.operations.blockers import OPENS, Blocker, ShutBy, blockers_of, left_alone, may_be_to_send
from tasks_app.operations.continuation import NOT_KNOWN, Continuation
from tasks_app.operations.deadlines import kept_among, not_late
from tasks_app.operations.leases import operations_out
from tasks_app.operations.models import PENDING, READS, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pauses import answer_key, can_continue, continuations_current
from tasks_app.sellers.accounts import accounts_awaited
from tasks_app.sellers.models import Seller, SellerBreaker


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
    a gate; `passes`: people let it past what stops it; `shut`: why nothing of it can be sent now, empty where
    it can, and `shut_by`: what has to be opened; `alone`: that nobody calls its seller for a while; `kept`:
    what it is about is not late while it waits; `note`: what is known of one that has left."""

    stage: Stage
    given_at: datetime
    left_at: datetime | None = None
    commands: tuple[uuid.UUID, ...] = ()
    passes: bool = False
    shut: str = ""
    shut_by: ShutBy | None = None
    alone: str = ""
    kept: bool = False
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
        """Whether it goes on when somebody has acted: decided, opened what is shut, or asked its seller."""
        return self.is_with_people or self.stage is Stage.LOST or self.is_shut

    @property
    def is_shut(self) -> bool:
        """Whether all that keeps it is that its seller, or its account, is shut."""
        return self.stage is Stage.TO_SEND and bool(self.shut)

    @property
    def kept_by(self) -> str:
        """Why one that people let leave does not leave now; empty where it does."""
        return (self.shut or self.alone) if self.stage is Stage.TO_SEND else ""

    @property
    def is_stopped(self) -> bool:
        """Whether it leaves but for the kill switch, where that is on."""
        return self.stage in (Stage.AT_GATE, Stage.TO_SEND) and not self.passes

    @property
    def wanted(self) -> str:
        """What people are to do about it, where nobody is asked by name; empty where nothing is."""
        return ASK_WHETHER if self.stage is Stage.LOST else LET_BE_SENT if self.is_shut else ""

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
        why = f": {self.kept_by}" if self.kept_by else ""
        return f"Our answer, given {moment(self.given_at)}, {_WORDS[self.stage]}{why}."

    def acts(self, seller: str) -> str:
        """Who has to act next; `seller`: the name of its seller."""
        if self.is_shut and self.shut_by is not None:
            return OPENS[self.shut_by]
        if self.kept_by:
            return seller
        return _ACTS.get(self.stage, seller)


ASK_WHETHER, LET_BE_SENT = "Ask whether our answer arrived", "Let our answer be sent"
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
    """Of several operations (`of_all`) the answers that were `given`, by operation; `answerable`: those whose
    sellers ask, which nobody has answered, and whose transport gave a way to. What else is known of them all
    is read when it is asked for, once."""

    of_all: frozenset[uuid.UUID] = frozenset()
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
        return Answers(
            of_all=self.of_all | others.of_all,
            given={**self.given, **others.given},
            answerable=self.answerable | others.answerable,
        )

    def is_out(self, operation: Operation) -> bool:
        """Whether a call of one is out now."""
        return operation.pk in (self._out if operation.pk in self.of_all else operations_out([operation.pk]))

    def is_kept(self, operation: Operation) -> bool:
        """Whether one was tried, had no effect and is kept from being sent again: it is not late."""
        if operation.task_id or operation.status not in (S.CALLING_ADCP, *PENDING):
            return False
        return operation.pk in (self._kept if operation.pk in self.of_all else kept_among([operation.pk]))

    def counts_deadline(self, operation: Operation, *, stopped: bool) -> bool:
        """Whether something comes of its deadline: not of what waits for people, the kill switch (`stopped`),
        or its account."""
        answer = self.of(operation)
        if operation.deadline_at is None or (answer is not None and answer.kept) or self.is_kept(operation):
            return False
        if operation.status == S.REQUESTED and (operation.send_at is None or stopped):
            return False
        blocker = self.blocker(operation)
        return blocker is None or blocker.held or blocker.is_late

    def blocker(self, operation: Operation) -> Blocker | None:
        """What is in the way of one that is to be sent (again), beside gates and people."""
        if operation.settled_at is not None or not may_be_to_send(operation):
            return None
        known = self._blockers if operation.pk in self.of_all else blockers_of([operation.pk])
        return known.get(operation.pk)

    @cached_property
    def _blockers(self) -> dict[uuid.UUID, Blocker]:
        return blockers_of(self.of_all)

    @cached_property
    def _out(self) -> set[uuid.UUID]:
        return operations_out(self.of_all)

    @cached_property
    def _kept(self) -> set[uuid.UUID]:
        return kept_among(self.of_all)


NO_ANSWERS = Answers()


def answers_of(operations: Iterable[Operation]) -> Answers:
    """The answers about these, each with its seller. However many they are, it takes at most nine queries;
    one where nothing was answered, none where nothing can be."""
    every = {one.pk: one for one in operations}
    rows = {pk: one for pk, one in every.items() if one.status in PENDING and can_continue(one)}
    pauses = continuations_current(rows.values())
    given = {pk: pause for pk, pause in pauses.items() if pause.is_given}
    gone_on = _gone_on(given.values())
    given = {pk: one for pk, one in given.items() if _is_awaited(rows[pk], one, gone_on)}
    known = _known([rows[pk] for pk in given], given.values())
    return Answers(
        of_all=frozenset(every),
        given={pk: _answer(rows[pk], pause, known) for pk, pause in given.items()},
        answerable=frozenset(pk for pk, pause in pauses.items() if pause.is_answerable),
    )


def answer_of(operation: Operation) -> Answer | None:
    """The answer that was given about one; None where there is none."""
    return answers_of([operation]).of(operation)


def answer_said(operation: Operation, pause: Continuation | None) -> str:
    """The sentence of the answer to a pause, also where nobody waits for its seller any more; empty where
    there is none."""
    if pause is None or not pause.is_given:
        return ""
    if operation.status in _PAUSED and not _is_awaited(operation, pause, _gone_on([pause])):
        return ""
    if pause.dispatched_at is None and operation.status not in PENDING:
        given = text.moment_short(pause.answered_at)
        return f"Our answer, given {given}, does not leave while the operation is overdue."
    return _answer(operation, pause, _known([operation], [pause])).sentence


def _is_awaited(operation: Operation, pause: Continuation, gone_on: Collection[uuid.UUID]) -> bool:
    """Whether it waits for that answer, or for its reply; else its seller went on since the answer left, and
    may ask again. Of what people wait on for while its answer is out they are told as of any other."""
    return pause.dispatched_at is None or (operation.status in _PAUSED and pause.pk not in gone_on)


def _gone_on(pauses: Iterable[Continuation]) -> set[uuid.UUID]:
    """Those of which the seller was seen at work since the answer left: what it asks now is another thing."""
    left = [pause.pk for pause in pauses if pause.dispatched_at is not None]
    rows = Continuation.objects.filter(_WENT_ON, pk__in=left) if left else Continuation.objects.none()
    return set(rows.values_list("pk", flat=True))


_WENT_ON = Q(
    Exists(
        Observation.objects.filter(
            operation=OuterRef("operation"),
            outcome=Observation.Outcome.APPLIED,
            status__in=("submitted", "working"),
            at__gt=OuterRef("dispatched_at"),
        )
    )
)


def answer_awaited() -> Exists:
    """For a query of operations: whether an answer of theirs was given, and neither replied to nor overtaken
    by another question."""
    return Exists(_continued().filter(Q(dispatched_at=None) | ~_WENT_ON))


def on_its_way() -> Exists:
    """For a query of operations: whether an answer of theirs leaves by itself, or has left and may be replied
    to."""
    left = Q(dispatched_at__isnull=False) & ~Q(note=NOT_KNOWN) & ~_WENT_ON
    changes = ~Q(operation__task_type__in=READS)
    order = Command.objects.filter(key=OuterRef("operation__purpose"), overrides__contains=[SELLER])
    shut = Seller.are_shut("operation__seller", mutates=changes, though_off=changes & Q(Exists(order)))
    return Exists(_continued().filter(left | (_TO_SEND & ~shut & ~waits_for_account("operation__"))))


def with_people() -> Exists:
    """For a query of operations: whether an answer of theirs waits for people to release it, or to let it
    past a gate."""
    return Exists(_continued().filter(~_TO_SEND, dispatched_at=None))


_TO_SEND = Q(dispatched_at=None, released_at__isnull=False, operation__send_at__isnull=False)


def _continued() -> QuerySet[Continuation]:
    return Continuation.given().filter(operation__seller__protocol=Seller.Protocol.A2A)


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What stands in the way of answers: by key the commands that they are, and those of their orders, either
    of which may wait at a gate; by operation why its account keeps one that is to be sent; the operations
    that are not late meanwhile; how sellers failed of late."""

    commands: Mapping[str, Command]
    accounts: Mapping[uuid.UUID, str]
    kept: Collection[uuid.UUID]
    breakers: Mapping[uuid.UUID, SellerBreaker]  # by seller


def _known(operations: Collection[Operation], pauses: Collection[Continuation]) -> _Known:
    keys = {answer_key(pause) for pause in pauses} | {one.purpose for one in operations}
    found = Command.objects.filter(key__in=keys).select_related("seller", "team") if operations else ()
    here = [pause.operation_id for pause in pauses if pause.dispatched_at is None]
    waiting = Operation.objects.filter(pk__in=here)
    return _Known(
        commands={one.key: one for one in found},
        accounts=_accounts(waiting) if here else {},
        kept=set(waiting.filter(not_late()).values_list("pk", flat=True)) if here else (),
        breakers=SellerBreaker.objects.in_bulk({one.seller_id for one in operations}) if here else {},
    )


def _accounts(waiting: QuerySet[Operation]) -> dict[uuid.UUID, str]:
    under = dict(waiting.filter(waits_for_account()).values_list("pk", "account_id"))
    words = accounts_awaited(set(under.values())) if under else {}
    return {pk: words[account] for pk, account in under.items() if account in words}


def _answer(operation: Operation, pause: Continuation, known: _Known) -> Answer:
    order, own = known.commands.get(operation.purpose), known.commands.get(answer_key(pause))
    # Until it is released, no gate of its order's is in its way.
    ours = [one for one in (own, order if pause.released_at else None) if one is not None]
    though_off = operation.is_mutation and order is not None and SELLER in order.overrides
    shut_by, shut = _shut(operation, known, though_off=though_off)
    return Answer(
        stage=_stage(operation, pause, ours),
        given_at=pause.answered_at or pause.at,
        left_at=pause.dispatched_at,
        commands=tuple(one.pk for one in ours if one.waiting_since is not None),
        passes=any(one.overrides and not gates_closed(one, repeated=False) for one in ours),
        shut=shut,
        shut_by=shut_by,
        alone=left_alone(operation.seller, known.breakers.get(operation.seller_id)),
        kept=operation.pk in known.kept,
        note=pause.note,
    )


def _shut(operation: Operation, known: _Known, *, though_off: bool) -> tuple[ShutBy | None, str]:
    """By what it could not be sent now, though nothing else kept it, and why."""
    seller = operation.seller
    why = {
        ShutBy.SELLER: seller.shut(mutates=False, though_off=though_off),
        ShutBy.RISK: seller.shut(mutates=operation.is_mutation, though_off=True),
        ShutBy.ACCOUNT: known.accounts.get(operation.pk, ""),
    }
    return next(((by, words) for by, words in why.items() if words), (None, ""))


def _stage(operation: Operation, pause: Continuation, commands: Collection[Command]) -> Stage:
    if pause.dispatched_at is not None:
        return Stage.LOST if pause.note == NOT_KNOWN else Stage.LEFT
    if pause.released_at is not None:
        return Stage.AT_GATE if operation.send_at is None else Stage.TO_SEND
    return Stage.AT_GATE if any(one.waiting_since is not None for one in commands) else Stage.ASKED
