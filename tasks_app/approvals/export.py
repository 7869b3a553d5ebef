"""The queue as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from heapq import merge
from typing import Any

from django.conf import settings

from tasks_app.approvals import around, presenters
from tasks_app.approvals.models import Approval
from tasks_app.approvals.queue import approvals_asked, others_asked
from tasks_app.approvals.waiting import Waiting, waiting_order
from tasks_app.desk import text
from tasks_app.desk.export import Export, plain
from tasks_app.desk.states import face
from tasks_app.people.models import User

_COLUMNS = (
    "What", "Reference", "Kind", "State", "Campaign", "Seller", "Channels", "Caught by", "Quorum", "Currency",
    "At stake", "Frees", "Asked", "Deadline", "Decisions",
)  # fmt: skip


def approvals_export(viewer: User, asked: Mapping[str, str]) -> Export:
    """What the queue shows for an address's parameters, in its order: approvals, and what else waits."""
    others = others_asked(asked, viewer, limit=settings.EXPORT_ROWS)
    return Export(
        columns=_COLUMNS,
        rows=approvals_asked(asked, viewer).prefetch_related("decisions"),
        cells=lambda found: _cells(found, viewer),
        joined=lambda approvals: merge(approvals, others, key=_order) if others else approvals,
    )


def _order(one: Approval | Waiting) -> tuple[bool, datetime]:
    return waiting_order(one) if isinstance(one, Waiting) else (False, one.due_at)


def _cells(found: list[Approval | Waiting], viewer: User) -> Iterator[list[str]]:
    approvals = [one for one in found if isinstance(one, Approval)]
    others = [one for one in found if isinstance(one, Waiting)]
    lines = iter(presenters.rows(approvals, around.places_of(approvals, viewer)))
    subjects = [one.subject for one in others if one.subject]
    beside = iter(presenters.waiting_rows(others, around.places_about(subjects, viewer) if subjects else {}))
    for one in found:
        row = next(lines if isinstance(one, Approval) else beside)
        yield [plain(cell) for cell in _shown(row)]


def _shown(row: presenters.Row) -> tuple[Any, ...]:
    approval = row.approval
    decisions = approval.decisions.all() if approval else ()
    return (
        row.title,
        approval.reference if approval else row.reference,
        row.kind,
        face(approval.status).word if approval else "Waiting for a person",
        row.place.campaign if row.place else "",
        row.seller,
        row.channels,
        row.caught,
        row.quorum,
        row.currency if row.spends is not None or row.frees is not None else "",
        *(text.amount_plain(one, row.currency) for one in (row.spends, row.frees)),
        text.moment(row.asked_at),
        text.moment(row.due_at) if row.due_at else "",
        "; ".join(f"{one.actor_name}: {one.verdict} {one.comment}" for one in decisions),
    )
