"""Why an approval stands as it does; and, for the rooms above, which question is open about something."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from tasks_app.approvals.deciders import deciders
from tasks_app.approvals.kinds import kind_of
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.desk import text
from tasks_app.desk.explain import NOBODY, Answers, Explainer, Mover, explainer_register, page_link, stands
from tasks_app.desk.items import plural
from tasks_app.people.roles import DECIDE
from tasks_app.people.scope import visible

S = ApprovalStatus
_ENDED = {
    S.APPROVED: "Nothing: people said yes, and its effect was recorded in the same commit.",
    S.REJECTED: "Nothing: somebody said no.",
    S.EXPIRED: "Nothing: its deadline passed before enough people had decided, and that never approves.",
    S.VOIDED: "Nothing: what was shown no longer held, so the question was withdrawn.",
}


@dataclass(frozen=True, kw_only=True)
class Deciding:
    """Who answers a question: `able`, the names of those who can now, of `roles` one is needed (none: the
    right will do); `nothing`: what no answer does."""

    able: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    nothing: str = ""


@dataclass(frozen=True, kw_only=True)
class Asked(Deciding):
    """An approval's facts: `given` approving decisions of `quorum`."""

    status: str
    quorum: int = 1
    given: int = 0
    due_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Pending(Deciding):
    """An open question that something else waits for."""

    reference: str
    title: str
    due_at: datetime


def approval_answers(asked: Asked) -> Answers:
    """The answers for every status of an approval. Raises KeyError for another."""
    if asked.status != S.OPEN:
        return Answers(waiting=_ENDED[S(asked.status)], otherwise=NOBODY)
    still = max(1, asked.quorum - asked.given)
    of = f" ({asked.given} of {asked.quorum} are in)" if asked.quorum > 1 else ""
    return Answers(
        waiting=f"It waits for {plural(still, 'approving decision')}{of}; one refusal ends it.",
        movers=(_decides("approve or reject, never who asked", asked),),
        otherwise=_expires(f"It expires {text.moment(asked.due_at)} and nothing is approved.", asked.nothing),
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
        nothing=_nothing(first),
    )


def question_answers(question: Pending) -> Answers:
    """The answers about whatever waits for an open question."""
    due = text.moment(question.due_at)
    return Answers(
        waiting=f"It waits for people to decide: {question.reference}, “{question.title}”, due {due}.",
        movers=(question_mover(question),),
        otherwise=_expires(f"{question.reference} expires {due}; waiting never approves.", question.nothing),
        deadline=question.due_at,
    )


def question_mover(question: Pending) -> Mover:
    """Who decides on an open question."""
    return _decides(f"decide on {question.reference}", question)


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
    decided = list(approval.decisions.all())
    return approval_answers(
        Asked(
            status=approval.status,
            quorum=approval.quorum,
            given=sum(one.verdict == "approve" for one in decided),
            due_at=approval.due_at,
            able=_able(approval) if approval.status == S.OPEN else (),
            roles=tuple(approval.roles),
            nothing=_nothing(approval),
        )
    )


def _able(approval: Approval) -> tuple[str, ...]:
    """By the rules that hold when they try: its team, advertiser, roles, who asked and who has decided."""
    return tuple(str(person) for person in deciders([approval])[approval.pk])


def _decides(does: str, asked: Deciding) -> Mover:
    return Mover(right=DECIDE, does=does, roles=asked.roles, people=asked.able)


def _expires(said: str, nothing: str) -> str:
    """With what else no answer does, where the kind says more than that it expires."""
    return said if not nothing or nothing.startswith("It expires") else f"{said} {nothing}"


def _nothing(approval: Approval) -> str:
    try:
        return kind_of(approval).effects["nothing"]
    except KeyError:
        return ""
