"""The queue as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tasks_app.approvals import around, presenters
from tasks_app.approvals.models import Approval
from tasks_app.approvals.queue import approvals_asked
from tasks_app.desk import text
from tasks_app.desk.export import Export, plain
from tasks_app.desk.states import face
from tasks_app.people.models import User

_COLUMNS = (
    "What", "Reference", "Kind", "State", "Campaign", "Seller", "Channels", "Caught by", "Quorum", "Currency",
    "At stake", "Asked", "Deadline", "Decisions",
)  # fmt: skip


def approvals_export(viewer: User, asked: Mapping[str, str]) -> Export:
    """The approvals that the queue shows for an address's parameters, the most urgent first."""
    return Export(
        columns=_COLUMNS,
        rows=approvals_asked(asked, viewer).prefetch_related("decisions"),
        cells=lambda approvals: _cells(approvals, viewer),
    )


def _cells(approvals: list[Approval], viewer: User) -> Iterator[list[str]]:
    rows = presenters.rows(approvals, around.places_of(approvals, viewer))
    for approval, row in zip(approvals, rows, strict=True):
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
