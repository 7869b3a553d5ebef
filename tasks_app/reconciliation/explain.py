"""Why a finding of the reconciliation stands as it does."""

from __future__ import annotations

from collections.abc import Sequence

from tasks_app.approvals.explain import Pending, question_about, question_answers
from tasks_app.desk.explain import NOBODY, Answers, Explainer, Mover, Standing, explainer_register, page_link
from tasks_app.desk.items import lowered
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.reconciliation.actions import actions_for
from tasks_app.reconciliation.models import ReconciliationFinding
from tasks_app.reconciliation.presenters import KINDS, finding_face, verdict_words
from tasks_app.reconciliation.selectors import findings_of


def finding_answers(
    *,
    ended: str = "",
    differs: bool = True,
    holder: str = "",
    question: Pending | None = None,
    acts: Sequence[str] = ("It may stay so",),
) -> Answers:
    """The answers about a finding. `ended`: how, in words, where it is resolved; `holder`: who took it;
    `acts`: what helps with it, as its page calls it."""
    if ended:
        return Answers(waiting=f"Nothing: {ended[:1].lower()}{ended[1:]}.", otherwise=NOBODY)
    act = Mover(right=STEER_OPERATION, does=f"on its page, one of: {', '.join(map(lowered, acts))}")
    if question:
        asked = question_answers(question)
        return Answers(
            waiting=asked.waiting,
            movers=(*asked.movers, act),
            otherwise=asked.otherwise,
            deadline=asked.deadline,
        )
    if not differs:
        return Answers(
            waiting="Nothing: it is for information. The seller runs what was not bought through here.",
            movers=(act,),
            otherwise="It stays listed for as long as the seller tells it.",
        )
    waiting = f"It waits for {holder}, who took it." if holder else "It waits for somebody to take it."
    theirs = (Mover(who=holder, does="sees to it"),) if holder else ()
    return Answers(
        waiting=waiting,
        movers=(*theirs, act),
        otherwise="Each run finds it again, and it stays open until both sides say the same.",
    )


def register() -> None:
    """Called when the application starts."""
    explainer_register(
        "finding",
        Explainer(
            label="Finding",
            model=ReconciliationFinding,
            right="tasks_app.view_reconciliationfinding",
            rows=lambda viewer: (
                findings_of(viewer)
                .select_related("seller", "holder")
                .defer("told", "seller__token", "seller__webhook_secret", "seller__capabilities")
            ),
            answers=_answers,
            standing=_standing,
            title=lambda finding: (
                f"{verdict_words(finding.verdict).word}: "
                f"{KINDS.get(finding.kind, '').lower()} with {finding.seller.name}"
            ),
            link=page_link("tasks_app_reconciliationfinding"),
        ),
    )


def _answers(finding: ReconciliationFinding) -> Answers:
    is_open = finding.is_open
    asked = question_about([(finding.subject_type, finding.subject_id)]) if is_open else None
    return finding_answers(
        ended="" if is_open else finding_face(finding)[1],
        differs=finding.differs,
        holder=str(finding.holder or ""),
        question=asked,
        acts=[action.label for action in actions_for(finding)],
    )


def _standing(finding: ReconciliationFinding) -> Standing:
    glyph, word = finding_face(finding)
    return Standing(
        status="open" if finding.is_open else "resolved",
        word=word,
        glyph=glyph,
        since=finding.first_seen_at if finding.is_open else finding.resolved_at,
        team_id=finding.team_id,
    )
