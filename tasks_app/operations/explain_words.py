"""Why an operation stands as it does, in sentences: from its facts, without a database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from tasks_app.approvals.explain import (
    Pending,
    people_asked,
    question_answers,
    question_mover,
)
from tasks_app.desk import text
from tasks_app.desk.explain import (
    NOBODY,
    Answers,
    Mover,
)
from tasks_app.desk.items import raised
from tasks_app.operations.answer_stages import Answer, Stage
from tasks_app.operations.blockers import Blocker, Then
from tasks_app.operations.models import OperationStatus
from tasks_app.people.roles import STEER_OPERATION, TURN_KILL_SWITCH

S = OperationStatus
_WORKER = "A worker"
_ENDED = {
    S.COMPLETED: "Nothing: the seller did it.",
    S.FAILED: "Nothing: it failed, and is not tried again by itself.",
    S.CANCELED: "Nothing: it was canceled.",
    S.REJECTED: "Nothing: the seller refused it, and the same is never sent again.",
}
_OVERDUE = "it is overdue and people decide whether to wait on"
_NOT_MEANWHILE = "Its deadline does not end it meanwhile."
_GIVEN_UP = "it is given up; nobody is asked"
_ANSWER = "answer the seller"
_ASK_FOR = "ask the seller by mail whether our answer arrived"
_WRITE = "write to the seller, whose transport gave no way to answer, or stop waiting"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """An operation's facts. `held`: it leaves only when people or a gate let it; `kept`: it was tried, had no
    effect and is kept from being sent again, so that it is not late; `stopped`: who stopped what is sent,
    when and why; `steers`: what who steers it may do now; `given_up`: settled while overdue; `question`: the
    open approval about it, what it was for or its contradiction; `conflict`: the open contradiction's
    reference; `answerable`: its seller asks, and can be answered; `answer`: ours, where that was answered;
    `said`: why its seller refused it, in sentences of its own; `correctable`: it may be corrected and asked
    for anew; `renews`: who gives its seller new credentials, where it wants them; `told_by`: the tool by
    which its seller is asked for it, empty where it has none; `hooked`: it tells by webhook; `opens`: who
    opens what is shut to our answer, its seller or its account; `blocker`: what is in the way of what is due
    to be sent, beside people and gates, and `clears`: who clears it away."""

    status: str
    task: str = "its task"
    is_read: bool = False
    seller: str = "The seller"
    deadline_at: datetime | None = None
    next_poll_at: datetime | None = None
    send_at: datetime | None = None
    held: bool = False
    kept: bool = False
    stopped: str = ""
    steers: tuple[str, ...] = ()
    given_up: bool = False
    message: str = ""
    question: Pending | None = None
    conflict: str = ""
    answerable: bool = False
    answer: Answer | None = None
    said: str = ""
    correctable: bool = False
    renews: tuple[Mover, ...] = ()
    told_by: str = ""
    hooked: bool = False
    opens: tuple[Mover, ...] = ()
    blocker: Blocker | None = None
    clears: tuple[Mover, ...] = ()


def operation_answers(seen: Seen) -> Answers:
    """The answers for every status of an operation. Raises KeyError for another."""
    return _STATES[S(seen.status)](seen)


def _ended(seen: Seen) -> Answers:
    ended = f"{_ENDED[S(seen.status)]} {seen.said}".rstrip()
    if seen.conflict:
        return Answers(
            waiting=f"{ended} But the seller has said otherwise since: {seen.conflict}.",
            movers=(question_mover(seen.question),) if seen.question else (writes(),),
            otherwise="What was first stands.",
            deadline=seen.question.due_at if seen.question else None,
        )
    if seen.question:
        asked = question_answers(seen.question)
        return replace(asked, waiting=f"{ended} {people_asked(seen.question)}")
    return Answers(waiting=ended, otherwise=NOBODY, movers=(corrects(),) if seen.correctable else ())


def _requested(seen: Seen) -> Answers:
    if seen.stopped and not (seen.blocker and seen.blocker.is_over):
        return _stopped(seen, f"{seen.task} is not sent to {seen.seller}.", _NOT_MEANWHILE)
    if seen.held and seen.question:
        asked = question_answers(seen.question)
        words = f"{asked.waiting}{_besides(seen)}"
        return replace(asked, waiting=words, movers=(*asked.movers, *seen.clears))
    if seen.held:
        does = "asks people, and sends it once they or the gate let it"
        leaves = () if seen.blocker else (Mover(who=_WORKER, does=does),)
        held = "It is held: it is sent once a person lets it, or the gate in front of it opens."
        return Answers(
            waiting=f"It is held.{_besides(seen)}" if seen.blocker else held,
            movers=(*leaves, *seen.clears),
            otherwise="Nothing is sent.",
        )
    fails = _deadline(seen, "it fails, for nothing reached the seller")
    if seen.stopped:
        fails, seen = _NOT_MEANWHILE, replace(seen, deadline_at=None)
    if seen.blocker is not None:
        return _kept_back(seen, seen.blocker, f"{seen.task} is not sent to {seen.seller}", fails)
    return Answers(
        waiting=f"It waits for {seen.task} to be sent to {seen.seller}, {_when(seen.send_at)}.",
        movers=(Mover(who=_WORKER, does="sends it when a slot of the seller is free"), *_steers(seen)),
        otherwise=fails,
        deadline=seen.deadline_at,
    )


def _kept_back(seen: Seen, blocker: Blocker, said: str, at_deadline: str) -> Answers:
    """It is due to leave, or to leave again, and something beside gates and people is in its way."""
    if seen.kept:
        at_deadline, seen = _NOT_MEANWHILE, replace(seen, deadline_at=None)
    worker = Mover(who=_WORKER, does=_THEN[blocker.then]) if blocker.then in _THEN else None
    return Answers(
        waiting=f"{said}: {blocker.why}.",
        movers=(*((worker,) if worker else ()), *seen.clears, *_steers(seen)),
        otherwise=at_deadline if blocker.is_late else _NOT_MEANWHILE,
        deadline=seen.deadline_at if blocker.is_late else None,
    )


def _is_kept(seen: Seen) -> bool:
    """Whether people, a gate or the kill switch keep what was tried from being sent again."""
    return (seen.held or seen.kept or bool(seen.stopped)) and not (seen.blocker and seen.blocker.is_over)


def _besides(seen: Seen) -> str:
    """What is in the way of what people, or the kill switch, keep."""
    if seen.blocker is None:
        return ""
    if seen.blocker.held or seen.stopped:
        return f" Let go, {seen.blocker.once_let_go}."
    return f" {raised(seen.blocker.why)}."


_THEN = {
    Then.ENDS: "ends it as soon as it comes up, with nothing sent",
    Then.ASKS: "asks people, before it leaves again",
    Then.LOOKS: "asks the seller whether it has it",
}


def _stopped(seen: Seen, said: str, at_deadline: str) -> Answers:
    """Two people may let one pass: where they are asked, the question is named."""
    passes = (question_mover(seen.question),) if seen.question else ()
    return Answers(
        waiting=f"{seen.stopped}. {said}",
        movers=(
            Mover(right=TURN_KILL_SWITCH, does=f"let the kill switch go{_then_sent(seen)}"),
            *passes,
            *seen.clears,
            *_steers(seen),
        ),
        otherwise=f"Nothing leaves while it is stopped. {at_deadline}",
        deadline=seen.deadline_at if seen.status != S.REQUESTED else None,
    )


def _then_sent(seen: Seen) -> str:
    """What comes of it where nothing else is in its way."""
    if seen.blocker is not None:
        return f"; then {seen.blocker.once_let_go}"
    return "; its answer waits still" if seen.opens else "; then it is sent by itself"


def _calling(seen: Seen) -> Answers:
    effect = _GIVEN_UP if seen.is_read else "the seller is asked whether it knows it, and people decide"
    at_deadline = _deadline(seen, effect)
    if _is_kept(seen):
        return _tried_and_held(seen, at_deadline)
    if seen.blocker is not None:
        said = f"It left once, and {seen.task} is not sent to {seen.seller} again"
        return _kept_back(seen, seen.blocker, said, at_deadline)
    if seen.send_at is None and seen.next_poll_at is not None:
        return Answers(
            waiting=f"It left once: {seen.seller} is asked whether it has {seen.task}, "
            f"{_when(seen.next_poll_at)}.",
            movers=(Mover(who=_WORKER, does="asks the seller for it"), *_steers(seen)),
            otherwise="Nothing is sent again before the seller has said; then people decide.",
        )
    return Answers(
        waiting=f"{seen.seller} is being called, or its answer to {seen.task} was lost on the way.",
        movers=(
            Mover(who=_WORKER, does="takes the answer, or sends the same bytes under the same key again"),
            Mover(who=seen.seller, does="answers"),
            *_steers(seen),
        ),
        otherwise=at_deadline,
        deadline=seen.deadline_at,
    )


def _tried_and_held(seen: Seen, at_deadline: str) -> Answers:
    """It left once and may not leave again: a gate is closed, the kill switch is on, or people are asked."""
    said = f"It left once, and {seen.seller} may have {seen.task}; it is not sent again."
    if seen.kept:
        why = "wants credentials first" if seen.status == S.AUTH_REQUIRED else "has not taken it so far"
        said = f"{seen.seller} {why}; {seen.task} is not sent again yet."
        at_deadline, seen = _NOT_MEANWHILE, replace(seen, deadline_at=None)
    if seen.stopped:
        stopped = _stopped(seen, said, at_deadline)
        return replace(stopped, movers=(*stopped.movers, *seen.renews))
    said = f"{said}{_besides(seen)}"
    asked = question_answers(seen.question) if seen.question else None
    return Answers(
        waiting=f"{said} {asked.waiting}" if asked else said,
        movers=(
            *(asked.movers if asked else ()),
            *seen.clears,
            *seen.renews,
            *(() if seen.kept else (Mover(who=seen.seller, does="may still answer"),)),
            *_steers(seen),
        ),
        otherwise=f"{asked.otherwise} {at_deadline}" if asked else at_deadline,
        deadline=asked.deadline if asked else seen.deadline_at,
    )


def _with_seller(seen: Seen) -> Answers:
    if seen.answer is not None:
        return _answered(seen, seen.answer)
    if seen.answerable:
        asks = _input(seen)
        return replace(asks, movers=(*asks.movers, *_steers(seen)))
    overdue = "it is overdue: nothing is undone, and people decide whether to wait on"
    at_deadline = _deadline(seen, _GIVEN_UP if seen.is_read else overdue)
    if _is_kept(seen):
        return _tried_and_held(seen, at_deadline)
    if seen.blocker is not None:
        said = f"People wait on; {seen.task} is not sent to {seen.seller} again"
        return _kept_back(seen, seen.blocker, said, at_deadline)
    if seen.send_at is not None:
        return Answers(
            waiting=f"People wait on: {seen.task} is sent to {seen.seller} again {_when(seen.send_at)}.",
            movers=(
                *_sends_again(seen),
                Mover(who=seen.seller, does="may still answer"),
                *_steers(seen),
            ),
            otherwise=at_deadline,
            deadline=seen.deadline_at,
        )
    verb = "works on" if seen.status == S.WORKING else "has queued"
    asked = bool(seen.next_poll_at and seen.told_by)
    polled = f"; it is asked again {_when(seen.next_poll_at)}" if asked else ""
    return Answers(
        waiting=f"{seen.seller} {verb} {seen.task}{polled}.",
        movers=(Mover(who=seen.seller, does=f"answers{_how(seen)}"), *_steers(seen)),
        otherwise=at_deadline,
        deadline=seen.deadline_at,
    )


def _sends_again(seen: Seen) -> tuple[Mover, ...]:
    """What people had sent once more."""
    leaves = seen.send_at is not None and not seen.stopped and seen.blocker is None
    return (Mover(who=_WORKER, does="sends the same bytes under the same key again"),) if leaves else ()


def _how(seen: Seen) -> str:
    ways = [*(["by webhook"] if seen.hooked else []), *(["when it is asked"] if seen.told_by else [])]
    return f", {' or '.join(ways)}" if ways else ": it has no tool that tells of its tasks"


def _input(seen: Seen) -> Answers:
    if seen.answer is not None:
        return _answered(seen, seen.answer)
    if seen.question:
        return question_answers(seen.question)
    asks = f": “{_short(seen.message)}”" if seen.message else "."
    return Answers(
        waiting=f"{seen.seller} asks before it goes on with {seen.task}{asks}",
        movers=(
            Mover(right=STEER_OPERATION, does=_ANSWER if seen.answerable else _WRITE),
            *_sends_again(seen),
            Mover(who=seen.seller, does="may go on by itself"),
        ),
        otherwise=_deadline(seen, _GIVEN_UP if seen.is_read else _OVERDUE),
        deadline=seen.deadline_at,
    )


def _answered(seen: Seen, answer: Answer) -> Answers:
    """Its seller asked, and was answered: what is said of the answer, and who has to act on it."""
    at_deadline = _deadline(seen, _GIVEN_UP if seen.is_read else _OVERDUE)
    if answer.has_left:
        return _answer_left(seen, answer, at_deadline)
    if answer.kept:
        at_deadline, seen = _NOT_MEANWHILE, replace(seen, deadline_at=None)
    if seen.stopped and answer.is_stopped:
        all_stopped = _stopped(seen, answer.sentence, at_deadline)
        return replace(all_stopped, movers=(*all_stopped.movers, *seen.opens))
    asked = question_answers(seen.question) if seen.question else None
    stopped = f"{seen.stopped}." if seen.stopped and not answer.passes else ""
    return Answers(
        waiting=" ".join(filter(None, (answer.sentence, asked.waiting if asked else "", stopped))),
        movers=(
            *(asked.movers if asked else ()),
            *_lets_leave(seen, answer, is_asked=asked is not None),
            *(_sends_again(seen) if answer.is_with_people else ()),
            *seen.renews,
            Mover(who=seen.seller, does="may go on by itself"),
            *_steers(seen),
        ),
        otherwise=f"{asked.otherwise} {at_deadline}" if asked else at_deadline,
        deadline=asked.deadline if asked else seen.deadline_at,
    )


def _lets_leave(seen: Seen, answer: Answer, *, is_asked: bool) -> tuple[Mover, ...]:
    """Who has it leave, beside those who `is_asked` about it; of what is to be sent a question is another."""
    if answer.is_with_people:
        return () if is_asked else (Mover(who=_WORKER, does="asks people, before it leaves"),)
    if answer.is_shut:
        return seen.opens
    if answer.kept_by:
        return ()  # its seller is tried again
    return (Mover(who=_WORKER, does="sends it when a slot of the seller is free"),)


def _answer_left(seen: Seen, answer: Answer, at_deadline: str) -> Answers:
    looked = seen.next_poll_at is not None and bool(seen.told_by)
    asked = f" {seen.seller} is asked again {_when(seen.next_poll_at)}." if looked else ""
    how = _how(seen) if seen.hooked or seen.told_by else ""
    writes = (Mover(right=STEER_OPERATION, does=_ASK_FOR),) if answer.stage is Stage.LOST else ()
    decides = (question_mover(seen.question),) if seen.question else ()
    people = f" {people_asked(seen.question)}" if seen.question else ""
    return Answers(
        waiting=f"{answer.sentence}{asked}{people}",
        movers=(*decides, *writes, Mover(who=seen.seller, does=f"answers{how}"), *_steers(seen)),
        otherwise=at_deadline,
        deadline=seen.deadline_at,
    )


def _auth(seen: Seen) -> Answers:
    if seen.answer is not None:
        return _answered(seen, seen.answer)
    at_deadline = _deadline(seen, _GIVEN_UP if seen.is_read else _OVERDUE)
    if _is_kept(seen):
        return _tried_and_held(seen, at_deadline)
    again = f"sends it again {_when(seen.send_at)}, in case they were put right"
    return Answers(
        waiting=f"{seen.seller} wants credentials before it goes on with {seen.task}.",
        movers=(
            *seen.renews,
            *((Mover(who=_WORKER, does=again),) if seen.send_at and seen.blocker is None else ()),
            Mover(who=seen.seller, does="may go on by itself"),
        ),
        otherwise=at_deadline,
        deadline=seen.deadline_at,
    )


def _overdue(seen: Seen) -> Answers:
    if seen.is_read:
        return _overdue_read(seen)
    if seen.given_up:
        return Answers(
            waiting="Nothing: it is overdue and was given up. The seller may still act.",
            movers=(Mover(who=seen.seller, does="may still answer; then people decide what becomes of it"),),
            otherwise=NOBODY,
        )
    if seen.question:
        return question_answers(seen.question)
    looked_at = ", is looked at now and then," if seen.told_by else ""
    return Answers(
        waiting=f"{seen.seller} has not answered {seen.task} by its deadline; people will be asked.",
        movers=(Mover(who=seen.seller, does="may still answer"), *_steers(seen)),
        otherwise=f"It stays overdue{looked_at} and people are asked.",
        deadline=seen.deadline_at,
    )


def _overdue_read(seen: Seen) -> Answers:
    """Nothing hangs on a read but what asked for it: nobody decides about it."""
    if seen.given_up:
        return Answers(waiting="Nothing: it is overdue and was given up.", otherwise=NOBODY)
    return Answers(
        waiting=f"{seen.seller} has not answered {seen.task} by its deadline; it is given up next.",
        movers=(Mover(who=_WORKER, does="gives it up"), *_steers(seen)),
        otherwise="It stays overdue until then.",
        deadline=seen.deadline_at,
    )


_STATES: dict[S, Callable[[Seen], Answers]] = {
    S.REQUESTED: _requested,
    S.CALLING_ADCP: _calling,
    S.SUBMITTED: _with_seller,
    S.WORKING: _with_seller,
    S.INPUT_REQUIRED: _input,
    S.AUTH_REQUIRED: _auth,
    S.TIMED_OUT: _overdue,
    **dict.fromkeys(_ENDED, _ended),
}


def corrects(reference: str = "it") -> Mover:
    """Who corrects what a seller refused, and asks anew."""
    return Mover(right=STEER_OPERATION, does=f"correct {reference} and ask anew")


def writes() -> Mover:
    """Who writes to a seller."""
    return Mover(right=STEER_OPERATION, does="write to the seller")


def _steers(seen: Seen) -> tuple[Mover, ...]:
    return (Mover(right=STEER_OPERATION, does=", or ".join(seen.steers)),) if seen.steers else ()


def _deadline(seen: Seen, effect: str) -> str:
    if seen.deadline_at is None:
        return f"It has no deadline: it waits on. Past one, {effect}."
    return f"At its deadline, {text.moment(seen.deadline_at)}, {effect}."


def _when(at: datetime | None) -> str:
    return text.moment_short(at) if at else "at once"


def _short(said: str) -> str:
    """A seller's words, at most 200 characters of them."""
    return said if len(said) <= 200 else f"{said[:199]}…"
