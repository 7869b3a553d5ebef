"""A question as a line of the queue and as a page. What it is about comes from the stored evidence."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from django.utils import timezone

from tasks_app import clock
from tasks_app.approvals.around import Place
from tasks_app.approvals.evidence import Package, commitment_of, flight_of, hold_of, packages
from tasks_app.approvals.kinds import kind_of
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.policy_words import caught_words
from tasks_app.desk import text

_GLYPHS = {
    "booked_differently": "differs",
    "conflict": "differs",
    "late_change": "overdue",
    "late_completion": "overdue",
    "overdue": "overdue",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One question in the queue or on the dashboard."""

    approval: Approval
    title: str
    glyph: str
    kind: str
    seller: str
    channels: str
    caught: str
    quorum: str
    place: Place | None
    amount: Decimal | None
    currency: str
    age: text.Age
    lines: tuple[Package, ...]
    flight: str
    hold: str
    commitment: str


def glyph_of(approval: Approval) -> str:
    """The shape that stands for the kind of question."""
    return _GLYPHS.get(approval.kind, "person")


def label_of(approval: Approval) -> str:
    """The kind in words; its own name for one that nobody registered."""
    try:
        return kind_of(approval).label
    except KeyError:
        return approval.kind.replace("_", " ").capitalize()


def effects_of(approval: Approval) -> dict[str, str]:
    """What approve, reject and nothing will do."""
    try:
        return kind_of(approval).effects
    except KeyError:
        return {}


def rows(approvals: Sequence[Approval], places: Mapping[uuid.UUID, Place]) -> list[Row]:
    """Questions as lines of a queue."""
    return [_row(approval, places.get(approval.subject_id)) for approval in approvals]


def by_due_day(found: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Rows under Overdue, Due today, Due tomorrow, Due later this week, Later; in the order they have."""
    groups: dict[str, list[Row]] = {}
    for row in found:
        groups.setdefault(_due_group(row.approval.due_at), []).append(row)
    return list(groups.items())


def hold_left(hold: datetime | None) -> str:
    """43 h left, New York."""
    if hold is None:
        return ""
    left = hold - clock.now()
    return f"{text.duration(left)} {'left' if left.total_seconds() > 0 else 'past'}, {text.zone_name()}"


def digest_short(digest: str) -> str:
    """3f9a 07c2 … c21e."""
    return f"{digest[:4]} {digest[4:8]} … {digest[-4:]}"


def _row(approval: Approval, place: Place | None) -> Row:
    evidence = approval.evidence
    lines = packages(approval)
    caught, wanted = caught_words(approval)
    hold = hold_of(evidence)
    return Row(
        approval=approval,
        title=_short_title(approval),
        glyph=glyph_of(approval),
        kind=label_of(approval),
        seller=str(evidence.get("seller", "")),
        channels=", ".join(dict.fromkeys(line.channel for line in lines)),
        caught=caught,
        quorum=wanted,
        place=place,
        amount=place.amount if approval.amount is None and place else approval.amount,
        currency=approval.currency or (place.currency if place else ""),
        age=text.time_left(approval.created_at, approval.due_at),
        lines=tuple(lines),
        flight=flight_of(evidence) if lines else "",
        hold=text.moment(hold) if hold else "",
        commitment=commitment_of(evidence),
    )


def _short_title(approval: Approval) -> str:
    """What is asked, where campaign and seller stand beside it."""
    evidence = approval.evidence
    if approval.kind == "deal" and evidence.get("seller"):
        return f"Book {evidence['seller']}"
    if approval.kind == "booked_differently" and evidence.get("confirmed_gross"):
        confirmed, asked = (
            text.amount(evidence.get(key), approval.currency) for key in ("confirmed_gross", "gross")
        )
        return f"Accept {confirmed} for {asked}" if confirmed != asked else "Accept what was booked"
    if approval.kind == "late_completion":
        return "Keep or cancel a late booking"
    if approval.kind == "overdue":
        return "Decide what to do: no answer"
    return approval.title


def _due_group(due: datetime) -> str:
    today = timezone.localtime(clock.now()).date()
    day: date = timezone.localtime(due).date()
    if due <= clock.now():
        return "Overdue"
    if (day - today).days < 2:
        return "Due today" if day == today else "Due tomorrow"
    return "Due later this week" if day.isocalendar()[:2] == today.isocalendar()[:2] else "Due later"


def closed_word(approval: Approval) -> str:
    """How an ended question ended, for whoever looks back."""
    return {
        ApprovalStatus.APPROVED: "Approved",
        ApprovalStatus.REJECTED: "Rejected",
        ApprovalStatus.EXPIRED: "Expired: nobody decided in time, nothing was bought",
        ApprovalStatus.VOIDED: "Voided: what was shown no longer holds",
    }.get(ApprovalStatus(approval.status), "")


def currencies_of(found: Collection[Row]) -> list[tuple[str, Decimal]]:
    """What is at stake, per currency."""
    return text.amounts((row.currency, row.amount) for row in found)
