"""What is waited for around deals, in words: for whom, since when, until when, what if nobody acts."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tasks_app import clock
from tasks_app.approvals.counting import given
from tasks_app.approvals.delegation import delegations_in_force
from tasks_app.approvals.lapsing import nothing_words, waits_on
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.approvals.presenters import glyph_of, label_of, opened_words
from tasks_app.approvals.records import Delegation
from tasks_app.approvals.selectors import may_decide, obstacle
from tasks_app.commands.kill_switch import Stops, stops_shown
from tasks_app.desk import text
from tasks_app.desk.items import lowered
from tasks_app.lifecycle.names import link_to
from tasks_app.operations.answer_stages import Answers, answers_of
from tasks_app.operations.estimates import Estimate
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.presenters import operation_next
from tasks_app.operations.selectors import is_held
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION

Decisions = Mapping[uuid.UUID, Collection[Decision]]
_NOBODY: Decisions = {}


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """One thing that is waited for. `whom`: who has to act; `since`, `until`: moments in words; `otherwise`:
    what happens if nobody does; `beside`: what else is known, such as the money or the usual time."""

    glyph: str
    text: str
    link: str
    whom: str
    since: str
    until: str
    otherwise: str
    beside: str = ""
    late: bool = False

    @property
    def for_person(self) -> bool:
        return self.glyph not in ("seller", "running", "waiting")

    @property
    def note(self) -> str:
        """For whom, since when, until when, in one line."""
        parts = [f"for {self.whom}" if self.whom else "", self.since, self.until, self.beside]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, kw_only=True)
class AskedLine:
    """One approval in a table: what was asked, when and by whom; `when`, `who`: its deadline, or its end and
    whose word it was."""

    title: str
    reference: str
    link: str
    kind: str
    status: str
    since: str
    asked_by: str
    when: str
    who: str


def asked_lines(
    approvals: Iterable[Approval], decisions: Decisions, names: Mapping[str, str]
) -> list[AskedLine]:
    """Approvals as lines, those that are open first by their deadline, then the latest. `names`: actor key to
    name."""
    rows = list(approvals)
    opened = sorted((a for a in rows if a.status == ApprovalStatus.OPEN), key=lambda a: a.due_at)
    over = sorted((a for a in rows if a.status != ApprovalStatus.OPEN), key=lambda a: a.pk, reverse=True)
    return [_asked_line(one, decisions.get(one.pk, ()), names) for one in (*opened, *over)]


def _asked_line(approval: Approval, decisions: Collection[Decision], names: Mapping[str, str]) -> AskedLine:
    is_open = approval.status == ApprovalStatus.OPEN
    said = [
        f"{one.actor_name}{f': “{one.comment}”' if one.comment else ''}"
        if len(decisions) == 1
        else f"{one.actor_name}, {one.verdict}"
        for one in decisions
    ]
    return AskedLine(
        title=approval.title,
        reference=approval.reference,
        link=link_to(Approval, approval.pk),
        kind=label_of(approval),
        status=approval.status,
        since=text.moment_short(approval.created_at),
        asked_by=opened_words(approval, names),
        when=f"due {text.moment_short(approval.due_at)}"
        if is_open
        else text.moment_short(approval.status_since),
        who="; ".join(said),
    )


def question_wait(
    approval: Approval,
    who: User,
    decisions: Collection[Decision] = (),
    held: Collection[Delegation] | None = None,
    approved: int | None = None,
) -> Waiting:
    """A question that waits for people. `held`: the delegations by which `who` stands in for others, and
    `approved`: how many approvals count, both read where not given."""
    late = approval.due_at <= clock.now()
    left = approval.quorum - (given([approval])[approval.pk] if approved is None else approved)
    many = f"{left} of the approvers" if approval.quorum > 1 else "an approver"
    amount = text.amount(approval.amount, approval.currency) if approval.amount else ""
    return Waiting(
        glyph="overdue" if late else glyph_of(approval),
        text=f"{_decider(approval, who, decisions, held)}: {approval.title}",
        link=link_to(Approval, approval.pk),
        whom=f"{many} of {approval.team}" if approval.team else many,
        since=f"since {text.moment_short(approval.created_at)}",
        until=f"{'due' if waits_on(approval) else 'until'} {text.moment_short(approval.due_at)}",
        otherwise=nothing_words(approval),
        beside=f"{approval.currency}{text.SPACE}{amount}" if amount else "",
        late=late,
    )


def operation_wait(
    operation: Operation,
    who: User,
    estimate: Estimate | None = None,
    stopped: Stops | None = None,
    answers: Answers | None = None,
) -> Waiting:
    """An operation that has not settled. `stopped`: where nothing is sent, and `answers`: ours to sellers,
    are read where they are not given."""
    answers = answers_of([operation]) if answers is None else answers
    answer = answers.of(operation)
    following = operation_next(operation, stopped=stopped, answers=answers)
    seller = operation.seller.name
    words, whom, beside = f"{seller} answers {operation.task_type}", seller, ""
    otherwise = following.otherwise
    if answer is not None and not following.stopped:
        words, beside = f"{seller}: {lowered(following.what)}", following.when
        whom = answer.acts(seller)
    elif operation.status == O.INPUT_REQUIRED and not following.stopped:
        words = f"{'You answer' if who.has_perm(STEER_OPERATION) else 'Ad Ops answers'} {seller}"
        whom, beside = "Ad Ops", f"“{operation.message}”" if operation.message else ""
        then = "an approver is asked" if operation.is_mutation else "is given up"
        otherwise = f"It becomes overdue, and {then}"
    elif following.stopped or is_held(operation):
        words = f"{operation.task_type} to {seller}: {lowered(following.what)}"
        whom = "who may let the kill switch go" if following.stopped else "an approver"
    elif operation.status in (O.AUTH_REQUIRED, O.TIMED_OUT):
        words, whom = f"{seller}: {lowered(following.what)}", "Ad Ops"
    elif (blocker := answers.blocker(operation)) is not None:
        words = f"{operation.task_type} to {seller}: {lowered(following.what)}"
        whom, beside = blocker.acts(seller), following.when
    else:
        beside = "; ".join(
            part for part in (_usual(estimate), f"{lowered(following.what)} {following.when}".strip()) if part
        )
    deadline = following.until
    late = operation.status == O.TIMED_OUT
    return Waiting(
        glyph=following.glyph,
        text=words,
        link=link_to(Operation, operation.pk),
        whom=whom,
        since=f"since {text.moment_short(operation.status_since)}",
        until=f"{'overdue since' if late else 'until'} {text.moment_short(deadline)}" if deadline else "",
        otherwise=_then(otherwise),
        beside=beside,
        late=late,
    )


def waits_of(
    *,
    approvals: Iterable[Approval],
    operations: Iterable[Operation],
    who: User,
    estimates: Mapping[uuid.UUID, Estimate],
    decisions: Decisions = _NOBODY,
    answers: Answers | None = None,
) -> list[Waiting]:
    """Everything that is waited for: what is late first, then people by deadline, then sellers. An operation
    that people are asked about, or that leaves when they have decided, is told by the question. `answers`:
    ours to sellers, read where they are not given."""
    asked = sorted((a for a in approvals if a.status == ApprovalStatus.OPEN), key=lambda a: a.due_at)
    about = {approval.subject_id for approval in asked}
    held = list(delegations_in_force(delegate=who)) if asked and may_decide(who) else []
    counted = given(asked)
    found = [
        question_wait(approval, who, decisions.get(approval.pk, ()), held, counted[approval.pk])
        for approval in asked
    ]
    unsettled = [operation for operation in operations if operation.settled_at is None]
    stopped = stops_shown() if unsettled else None
    answers = answers_of(unsettled) if answers is None else answers
    found += [
        operation_wait(operation, who, estimates.get(operation.seller_id), stopped, answers)
        for operation in unsettled
        if not _is_asked_about(operation, answers, about) and not (asked and is_held(operation))
    ]
    return sorted(found, key=lambda one: (not one.late, not one.for_person))


def _is_asked_about(operation: Operation, answers: Answers, about: Collection[uuid.UUID | None]) -> bool:
    """Whether one of the questions is about it, or about our answer at a gate."""
    answer = answers.of(operation)
    return operation.pk in about or (answer is not None and any(one in about for one in answer.commands))


def _decider(
    approval: Approval, who: User, decisions: Collection[Decision], held: Collection[Delegation] | None
) -> str:
    """Who decides, said to `who`: they do where nothing is in their way."""
    key = actor_key(who)
    if approval.due_at <= clock.now():
        return "Its deadline has passed"
    if not may_decide(who):
        return "An approver decides"
    if key in approval.asked_by:
        did = "asked for it" if approval.requested_by == key else "set it off"
        return f"Somebody else decides, you {did}"
    if any(decision.actor == key for decision in decisions):
        return "Another approver decides, you have"
    return "Somebody else decides" if obstacle(approval, who, decisions, held) else "You decide"


def _then(otherwise: str) -> str:
    """What happens at the deadline; the deadline itself is said already."""
    overdue, _, then = otherwise.partition("; then ")
    return f"It is overdue then, and {then}" if then and overdue.startswith("Overdue") else otherwise


def _usual(estimate: Estimate | None) -> str:
    if estimate is None or estimate.median is None or estimate.ninetieth is None:
        return ""
    return f"usually {text.duration(estimate.median)}, nine in ten within {text.duration(estimate.ninetieth)}"
