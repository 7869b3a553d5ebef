"""Why a contradiction about an operation stands as it does."""

from __future__ import annotations

from tasks_app.approvals.explain import Pending, question_about, question_answers
from tasks_app.desk.explain import NOBODY, Answers, Explainer, Standing, explainer_register, page_link
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.explain import VIEW
from tasks_app.operations.explain_words import writes
from tasks_app.operations.selectors import conflicts_of


def register() -> None:
    """Called when the application starts."""
    explainer_register(
        "conflict",
        Explainer(
            label="Conflict",
            model=Conflict,
            prefix="CFL",
            right=VIEW,
            rows=lambda viewer: conflicts_of(viewer).defer("first", "second"),
            answers=_conflict,
            standing=_conflict_standing,
            title=lambda conflict: f"{conflict.get_kind_display()}: {conflict.operation.seller.name}",
            link=page_link("tasks_app_conflict"),
        ),
    )


def conflict_answers(*, resolved: bool, kept: bool, seller: str, question: Pending | None) -> Answers:
    """The answers about a contradiction, open or resolved."""
    if resolved:
        stood = "what was first was kept" if kept else "what came second was taken"
        return Answers(waiting=f"Nothing: {stood}.", otherwise=NOBODY)
    if question:
        return question_answers(question)
    return Answers(
        waiting=f"{seller} said two different things; people are asked next which of them holds.",
        movers=(writes(),),
        otherwise="What was first stands.",
    )


def _conflict(conflict: Conflict) -> Answers:
    resolved = conflict.resolved_at is not None
    pairs = [("conflict", conflict.pk), ("operation", conflict.operation_id)]
    return conflict_answers(
        resolved=resolved,
        kept=conflict.resolution == Conflict.Resolution.KEPT,
        seller=conflict.operation.seller.name,
        question=None if resolved else question_about(pairs),
    )


def _conflict_standing(conflict: Conflict) -> Standing:
    is_open = conflict.resolved_at is None
    return Standing(
        status="open" if is_open else "resolved",
        word="Open" if is_open else conflict.get_resolution_display(),
        glyph="conflict" if is_open else "done",
        since=conflict.at if is_open else conflict.resolved_at,
        team_id=conflict.team_id,
    )
