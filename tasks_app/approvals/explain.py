"""Why an approval stands as it does; and, for the rooms above, which question is open about something."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from tasks_app.approvals.delegation import kept_out
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
class Asked:
    """An approval's facts: `given` approving decisions of `quorum`, `barred` the actor keys that may not
    decide (who asked, who has decided), `roles` of whom one is needed (none: the right will do), `nothing`
    what no answer does."""

    status: str
    quorum: int = 1
    given: int = 0
    due_at: datetime | None = None
    barred: frozenset[str] = frozenset()
    roles: tuple[str, ...] = ()
    nothing: str = ""


def approval_answers(asked: Asked) -> Answers:
    """The answers for every status of an approval. Raises KeyError for another."""
    if asked.status != S.OPEN:
        return Answers(waiting=_ENDED[S(asked.status)], otherwise=NOBODY)
    still = max(1, asked.quorum - asked.given)
    of = f" ({asked.given} of {asked.quorum} are in)" if asked.quorum > 1 else ""
    return Answers(
        waiting=f"It waits for {plural(still, 'approving decision')}{of}; one refusal ends it.",
        movers=(_decides("approve or reject, never who asked", asked.roles, asked.barred),),
        otherwise=_expires(f"It expires {text.moment(asked.due_at)} and nothing is approved.", asked.nothing),
        deadline=asked.due_at,
    )


def question_about(pairs: Collection[tuple[str, uuid.UUID | None]]) -> Approval | None:
    """The most urgent open approval about any of these (type, id), light; None: people are asked nothing."""
    ids = [pk for _, pk in pairs if pk is not None]
    kinds = {kind for kind, _ in pairs}
    open_ones = Approval.objects.filter(subject_type__in=kinds, subject_id__in=ids, status=S.OPEN)
    return open_ones.defer("evidence").order_by("due_at").first() if ids else None


def question_answers(question: Approval) -> Answers:
    """The answers about whatever waits for an open question."""
    due = text.moment(question.due_at)
    return Answers(
        waiting=f"It waits for people to decide: {question.reference}, “{question.title}”, due {due}.",
        movers=(question_mover(question),),
        otherwise=_expires(
            f"{question.reference} expires {due}; waiting never approves.", _nothing(question)
        ),
        deadline=question.due_at,
    )


def question_mover(question: Approval) -> Mover:
    """Who decides on an open question: of the roles that its policies name, never who asked it."""
    barred = frozenset({question.requested_by})
    return _decides(f"decide on {question.reference}", question.roles, barred)


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
            barred=kept_out(approval, decided),
            roles=tuple(approval.roles),
            nothing=_nothing(approval),
        )
    )


def _decides(does: str, roles: Collection[str], barred: frozenset[str]) -> Mover:
    return Mover(right=DECIDE, does=does, roles=tuple(roles), but_not=barred)


def _expires(said: str, nothing: str) -> str:
    """With what else no answer does, where the kind says more than that it expires."""
    return said if not nothing or nothing.startswith("It expires") else f"{said} {nothing}"


def _nothing(approval: Approval) -> str:
    try:
        return kind_of(approval).effects["nothing"]
    except KeyError:
        return ""
