"""Why an approval stands as it does; and, for the rooms above, which question is open about something."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from tasks_app.approvals.counting import given, given_on
from tasks_app.approvals.deciders import deciders
from tasks_app.approvals.kinds import kinds_that_spend
from tasks_app.approvals.lapsing import keeps_waiting, nothing_of
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.presenters import needed_words
from tasks_app.approvals.services import approval_ends
from tasks_app.desk import text
from tasks_app.desk.explain import NOBODY, Answers, Explainer, Mover, explainer_register, page_link, stands
from tasks_app.desk.items import joined, plural
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE
from tasks_app.people.scope import visible

S = ApprovalStatus
_NAMED = 3  # of several questions
_ENDED = {
    S.APPROVED: "Approved; no decision is left.",
    S.REJECTED: "Rejected; nothing is done.",
    S.EXPIRED: "Expired: too few people decided in time, and waiting never approves.",
    S.VOIDED: "Withdrawn: no decision is needed any more.",
}


@dataclass(frozen=True, kw_only=True)
class Deciding:
    """Who answers a question: `able`, the names of those who can now, of `roles` one is needed (none: the
    right will do); `given` approving decisions of `quorum` are in; `waits`: that it keeps waiting past its
    deadline, where it does; `nothing`: what no answer does where it expires then."""

    able: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    quorum: int = 1
    given: int = 0
    waits: str = ""
    nothing: str = ""


@dataclass(frozen=True, kw_only=True)
class Asked(Deciding):
    """An approval's facts; `said`: why it was withdrawn; `spends`: approving it buys something."""

    status: str
    spends: bool = False
    due_at: datetime | None = None
    said: str = ""


@dataclass(frozen=True, kw_only=True)
class Pending(Deciding):
    """An open question that something else waits for."""

    reference: str
    title: str
    due_at: datetime


def approval_answers(asked: Asked) -> Answers:
    """The answers for every status of an approval. Raises KeyError for another."""
    if asked.status != S.OPEN:
        return Answers(waiting=_over(asked), otherwise=NOBODY)
    return Answers(
        waiting=f"It waits for {_decisions(asked)}; one refusal ends it.",
        movers=(_decides("approve or reject, never who asked or set it off", asked),),
        otherwise=_undecided(
            f"It expires {text.moment(asked.due_at)} and nothing is approved.", asked, asked.due_at
        ),
        deadline=asked.due_at,
    )


def question_about(pairs: Collection[tuple[str, uuid.UUID | None]]) -> Pending | None:
    """The most urgent open approval about any of these (type, id); None: people are asked nothing."""
    ids = [pk for _, pk in pairs if pk is not None]
    kinds = {kind for kind, _ in pairs}
    open_ones = Approval.objects.filter(subject_type__in=kinds, subject_id__in=ids, status=S.OPEN)
    return question_pending(open_ones.defer("evidence").order_by("due_at")[:1] if ids else ())


def question_pending(asked: Iterable[Approval]) -> Pending | None:
    """The first of these approvals, all of them open; None where there is none."""
    first = next(iter(asked), None)
    if first is None:
        return None
    return Pending(
        reference=first.reference,
        title=first.title,
        due_at=first.due_at,
        able=_able(first),
        roles=tuple(first.roles),
        quorum=first.quorum,
        given=given_on(first) if first.quorum > 1 else 0,
        waits=keeps_waiting(first),
        nothing=nothing_of(first),
    )


def question_answers(question: Pending) -> Answers:
    """The answers about whatever waits for an open question."""
    due = text.moment(question.due_at)
    return Answers(
        waiting=f"It waits for people to decide: {_named(question)}, due {due}.{_takes(question)}",
        movers=(question_mover(question),),
        otherwise=_undecided(
            f"{question.reference} expires {due}; waiting never approves.", question, question.due_at
        ),
        deadline=question.due_at,
    )


def people_asked(question: Pending) -> str:
    """That people are asked something about what is over, in a sentence."""
    return f"But people are asked: {_named(question)}.{_takes(question)}"


def question_mover(question: Pending) -> Mover:
    """Who decides on an open question."""
    return _decides(f"decide on {question.reference}", question)


def questions_movers(asked: Sequence[Approval]) -> tuple[Mover, ...]:
    """Who decides on each of these, all of them open; those that the same people decide on next, and that as
    many have decided on, are named together."""
    able, counted = deciders(asked), given(asked) if asked else {}
    together: dict[Deciding, list[str]] = {}
    for one in asked:
        deciding = Deciding(
            able=_names(able[one.pk]), roles=tuple(one.roles), quorum=one.quorum, given=counted[one.pk]
        )
        together.setdefault(deciding, []).append(one.reference)
    return tuple(_decides(f"decide on {_each_of(named)}", deciding) for deciding, named in together.items())


def _each_of(references: Sequence[str]) -> str:
    if len(references) == 1:
        return references[0]
    more = len(references) - _NAMED
    return f"each of {joined([*references[:_NAMED], *([f'{more} more'] if more > 0 else [])])}"


def register() -> None:
    """Called when the application starts."""
    explainer_register(
        "approval",
        Explainer(
            label="Approval",
            model=Approval,
            prefix="APR",
            right="tasks_app.view_approval",
            rows=lambda viewer: visible(Approval.objects.defer("evidence"), viewer),
            answers=_answers,
            standing=stands,
            title=lambda approval: approval.title,
            link=page_link("tasks_app_approval"),
        ),
    )


def _answers(approval: Approval) -> Answers:
    return approval_answers(
        Asked(
            status=approval.status,
            spends=approval.kind in kinds_that_spend(),
            quorum=approval.quorum,
            given=given_on(approval),
            due_at=approval.due_at,
            able=_able(approval) if approval.status == S.OPEN else (),
            roles=tuple(approval.roles),
            waits=keeps_waiting(approval) if approval.status == S.OPEN else "",
            nothing=nothing_of(approval),
            said=_reason(approval) if approval.status == S.VOIDED else "",
        )
    )


def _able(approval: Approval) -> tuple[str, ...]:
    """By the rules that hold when they try: its team, advertiser, roles, who asked and who has decided."""
    return _names(deciders([approval])[approval.pk])


def _names(people: Iterable[User]) -> tuple[str, ...]:
    return tuple(str(person) for person in people)


def _decides(does: str, asked: Deciding) -> Mover:
    """One of them is the next; the page of the question says the same of who is needed besides."""
    needed = needed_words(asked.quorum, asked.quorum - asked.given - 1)
    said = f"{does}; {needed}" if needed else does
    return Mover(right=DECIDE, does=said, roles=asked.roles, people=asked.able)


def _named(question: Pending) -> str:
    return f"{question.reference}, “{question.title}”"


def _takes(question: Pending) -> str:
    return f" It takes {_decisions(question)}." if question.quorum > 1 else ""


def _decisions(asked: Deciding) -> str:
    """2 approving decisions (0 of 2 are in)."""
    still = max(1, asked.quorum - asked.given)
    of = f" ({asked.given} of {asked.quorum} are in)" if asked.quorum > 1 else ""
    return f"{plural(still, 'approving decision')}{of}"


def _over(asked: Asked) -> str:
    if asked.status == S.APPROVED and asked.spends:
        return "Approved; the order is being placed."
    ended = _ENDED[S(asked.status)]
    if asked.status != S.VOIDED:
        return ended
    return f"{ended} {asked.said.rstrip('.')}." if asked.said else ended


def _reason(approval: Approval) -> str:
    """The reason kept with its end."""
    return (approval_ends(approval).values_list("reason", flat=True).first() or "").strip()


def _undecided(expires: str, asked: Deciding, due_at: datetime | None) -> str:
    """What becomes of it undecided. `expires`: said where its deadline ends it, with what else no answer
    does, where the kind says more than that it expires."""
    if asked.waits:
        return f"At its deadline, {text.moment(due_at)}, {asked.waits}. Waiting never approves."
    nothing = asked.nothing
    return expires if not nothing or nothing.startswith("It expires") else f"{expires} {nothing}"
