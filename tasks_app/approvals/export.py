"""The queue as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet

from tasks_app.approvals import around, presenters, selectors
from tasks_app.approvals.models import Approval
from tasks_app.desk import text
from tasks_app.desk.export import Export, plain
from tasks_app.desk.states import face
from tasks_app.people.models import User

_COLUMNS = (
    "What", "Reference", "Kind", "State", "Campaign", "Seller", "Channels", "Caught by", "Quorum", "Currency",
    "At stake", "Asked", "Deadline", "Decisions",
)  # fmt: skip
_VIEWS = {
    "mine": selectors.approvals_waiting_for,
    "team": selectors.approvals_of_teams,
    "decided": selectors.approvals_closed,
}


def approvals_export(viewer: User, view: str) -> Export:
    """What the queue shows under `view` (mine, team or decided; else mine), the most urgent first."""
    rows: QuerySet[Approval] = _VIEWS.get(view, selectors.approvals_waiting_for)(viewer)
    return Export(
        columns=_COLUMNS,
        rows=rows.prefetch_related("decisions"),
        cells=lambda approvals: _cells(approvals, viewer),
    )


def _cells(approvals: list[Approval], viewer: User) -> Iterator[list[str]]:
    for row in presenters.rows(approvals, around.places_of(approvals, viewer)):
        approval = row.approval
        shown: tuple[Any, ...] = (
            row.title,
            approval.reference,
            row.kind,
            face(approval.status).word,
            row.place.campaign if row.place else "",
            row.seller,
            row.channels,
            row.caught,
            row.quorum,
            row.currency if row.amount is not None else "",
            text.amount(row.amount, row.currency) if row.amount is not None else "",
            text.moment(approval.created_at),
            text.moment(approval.due_at),
            "; ".join(f"{one.actor_name}: {one.verdict} {one.comment}" for one in approval.decisions.all()),
        )
        yield [plain(cell) for cell in shown]
