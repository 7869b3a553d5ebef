"""What the pages say about several questions decided with one word: before it, until it counts, and after."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import prefetch_related_objects
from django.urls import reverse

from tasks_app.approvals import presenters, selectors
from tasks_app.approvals.around import places_of
from tasks_app.approvals.delegation import delegations_in_force
from tasks_app.approvals.intents import intents_pending
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.presenters import Row
from tasks_app.approvals.records import DecisionBatch
from tasks_app.approvals.together import Reported, report_of
from tasks_app.desk import text
from tasks_app.desk.items import joined, plural
from tasks_app.ids import new_id
from tasks_app.lifecycle.names import EntityName, namer_register
from tasks_app.people.models import User
from tasks_app.people.scope import visible

_CHANGED = "This is not what you were shown: read it again."
_GONE = "There is no such approval in your teams."
_ENDS = {"approve": "approved", "reject": "rejected"}
_SELLERS = 4  # named in a sentence


@dataclass(frozen=True, kw_only=True)
class Line:
    """One of those selected: what the word will do to it, or why it is left out (`why_not`)."""

    row: Row
    digest: str
    does: str
    why_not: str = ""


def register() -> None:
    """Called when the application starts."""
    namer_register("decision_batch", _names)


def confirm_data(
    shown: Mapping[uuid.UUID, str], verdict: str, who: User, principal: User | None
) -> dict[str, Any]:
    """What templates/desk/approvals_confirm.html is given: which of `shown` can be decided, what that comes
    to, with whom, and what is left out and why."""
    lines = _lines(shown, verdict, who)
    taken, left_out = [one for one in lines if not one.why_not], [one for one in lines if one.why_not]
    rows = [one.row for one in taken]
    waits = [row.approval for row in rows if row.approval and presenters.still_needed(row.approval)]
    final = [row for row in rows if row.approval not in waits] if verdict == "approve" else rows
    return {
        "title": f"{verdict.capitalize()} {len(taken)}?",
        "verdict": verdict,
        "taken": taken,
        "left_out": left_out,
        "gone": len(shown) - len(lines),
        "gone_words": _GONE,
        "sum": sums_words(presenters.spent_by(rows)),
        "frees": _freed_words(rows, verdict),
        "sellers": _sellers_words(rows),
        "becomes": _words(_ENDS[verdict], final, waits if verdict == "approve" else []),
        "principal": principal,
        "batch_id": new_id(),
    }


def report_data(batch: DecisionBatch, viewer: User) -> dict[str, Any]:
    """What templates/desk/approvals_report.html is given."""
    report = report_of(batch, viewer)
    rows = _rows_of([one.approval for one in report if one.approval is not None], viewer)
    return {
        "batch": batch,
        "undoable": batch.is_undoable,
        "report": report,
        "heading": _heading(batch, report, rows),
        "refused": sum(1 for one in report if one.code),
        "rows": [(one, rows.get(one.approval_id)) for one in report],
        "sum": sums_words(presenters.spent_by(rows.values())),
        "frees": _freed_words(rows.values(), batch.verdict),
        "sellers": _sellers_words(list(rows.values())),
    }


def pending_data(viewer: User) -> list[dict[str, Any]]:
    """The viewer's own words that are not all recorded: each with what it says, and whether it can still be
    undone."""
    pending = [(one, one.is_undoable) for one in intents_pending(viewer)]
    return [
        {
            "batch": one,
            "heading": _intended(one) if undoable else batch_words(one, viewer),
            "undoable": undoable,
        }
        for one, undoable in pending
    ]


def sums_words(found: Collection[tuple[str, Decimal]]) -> str:
    """USD 181,200 and EUR 94,500.50: exact, without decimals where there are none; empty without amounts."""
    return joined([f"{currency}{text.SPACE}{_exact(value, currency)}" for currency, value in found])


def _freed_words(rows: Collection[Row], verdict: str) -> str:
    """The same of what approving frees; rejecting frees nothing."""
    return sums_words(presenters.freed_by(rows)) if verdict == "approve" else ""


def batch_words(batch: DecisionBatch, viewer: User) -> str:
    """3 approved, USD 181,200; 2 wait for a second approver; 1 was not decided."""
    report = report_of(batch, viewer)
    return _heading(batch, report, _rows_of([one.approval for one in report if one.approval], viewer))


def _exact(value: Any, currency: str) -> str:
    return text.number(value) if value == value.to_integral() else text.amount(value, currency)


def _heading(batch: DecisionBatch, report: Sequence[Reported], rows: Mapping[uuid.UUID, Row]) -> str:
    if batch.withdrawn_at is not None:
        return f"Undone: none of {len(report)} was decided"
    if batch.pending and not any(not one.code for one in report):
        return _intended(batch)
    recorded = [one for one in report if not one.code and one.approval is not None]
    ended = [one for one in recorded if _left(one) != ApprovalStatus.OPEN]
    waits = [one.approval for one in recorded if one.approval and _left(one) == ApprovalStatus.OPEN]
    said = _words(_ENDS[batch.verdict], [rows[one.approval_id] for one in ended], waits)
    undecided = len(report) - len(recorded)
    not_yet = "still to be decided" if batch.pending else "not decided"
    return "; ".join(part for part in (said, f"{undecided} {not_yet}" if undecided else "") if part)


def _left(one: Reported) -> str:
    """How the decision left the question; as it is now, for those recorded before that was kept."""
    return one.left or (one.approval.status if one.approval else "")


def _words(word: str, ended: Sequence[Row], waits: Sequence[Approval | None]) -> str:
    parts = []
    if ended:
        spent, freed = (sums_words(found(ended)) for found in (presenters.spent_by, presenters.freed_by))
        moved = [spent, f"{freed} freed" if freed and word == _ENDS["approve"] else ""]
        parts.append(", ".join([f"{len(ended)} {word}", *filter(None, moved)]))
    if waits:
        quorums = {one.quorum for one in waits if one is not None}
        whom = "a second approver" if quorums == {2} else "further approvers"
        parts.append(f"{len(waits)} {'waits' if len(waits) == 1 else 'wait'} for {whom}")
    return "; ".join(parts)


def _intended(batch: DecisionBatch) -> str:
    word = {"approve": "approval", "reject": "rejection"}[batch.verdict]
    return f"{plural(len(batch.shown), word)}, not recorded yet"


def _sellers_words(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(row.seller for row in rows if row.seller))
    more = len(names) - _SELLERS
    return joined([*names[:_SELLERS], *([f"{more} more"] if more > 0 else [])])


def _lines(shown: Mapping[uuid.UUID, str], verdict: str, who: User) -> list[Line]:
    found = visible(Approval.objects.filter(pk__in=list(shown)), who).prefetch_related("decisions")
    approvals = {one.pk: one for one in found}
    held = list(delegations_in_force(delegate=who))
    rows = _rows_of(list(approvals.values()), who)
    return [
        _line(rows[one], digest, verdict, _why_not(approvals[one], digest, who, held))
        for one, digest in shown.items()
        if one in approvals
    ]


def _line(row: Row, digest: str, verdict: str, why_not: str) -> Line:
    return Line(row=row, digest=digest, does=dict(row.answers).get(verdict.capitalize(), ""), why_not=why_not)


def _why_not(approval: Approval, digest: str, who: User, held: list[Any]) -> str:
    found = selectors.obstacle(approval, who, list(approval.decisions.all()), held)
    return found or ("" if digest == approval.evidence_digest else _CHANGED)


def _rows_of(approvals: Collection[Approval], viewer: User) -> dict[uuid.UUID, Row]:
    """Each question as a line of the queue."""
    found = list(approvals)
    prefetch_related_objects(found, "decisions")
    rows = presenters.rows(found, places_of(found, viewer))
    return {one.pk: row for one, row in zip(found, rows, strict=True)}


def _names(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    return {
        one: EntityName(
            reference="What became of each", link=reverse("admin:tasks_app_approval_report", args=[one])
        )
        for one in ids
    }
