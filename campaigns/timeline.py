"""What happened to a campaign, in plain words, out of the audit entries of everything it is made of."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from campaigns.models import CampaignStatus as C
from campaigns.selectors import CampaignRows
from orders.models import CONFIRMED, Deal
from orders.models import DealStatus as D
from orders.presenters import departure_words
from orders.questions import DEAL, DIFFERENT
from tasks_app.approvals.models import Approval
from tasks_app.desk import text
from tasks_app.desk.items import joined, plural
from tasks_app.lifecycle.declarations import lifecycle
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O

# The same thing done to several deals by the same person within so long is one line.
_TOGETHER = timedelta(minutes=10)
_SHARED = (D.ACCEPTED, D.BOOKING, D.CANCELLED, D.EXPIRED)


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line. `said` makes the sentence out of the sellers it is about; `key` joins what is alike."""

    at: datetime
    glyph: str
    said: Callable[[str], str]
    key: str
    about: tuple[str, ...] = ()
    how: str = ""
    quote: str = ""

    @property
    def text(self) -> str:
        return self.said(joined(list(self.about)))

    @property
    def note(self) -> str:
        parts = [text.moment_short(self.at), self.how, f"“{self.quote}”" if self.quote else ""]
        return ", ".join(part for part in parts if part)


def timeline(rows: CampaignRows) -> list[Event]:
    """Newest first."""
    events = sorted(_events(rows), key=lambda event: event.at)
    return _merged(events)[::-1]


def _events(rows: CampaignRows) -> Iterable[Event]:
    yield from _of(rows, [rows.campaign.pk], lambda entry: _campaign(entry, rows))
    for deal in rows.deals.deals:
        yield from _of(rows, [deal.pk], lambda entry, deal=deal: _deal(entry, deal, rows))  # type: ignore[misc]
    for operation in rows.operations:
        yield from _of(rows, [operation.pk], lambda entry, one=operation: _operation(entry, one))  # type: ignore[misc]
    for approval in rows.approvals:
        yield from _of(rows, [approval.pk], lambda entry, one=approval: _approval(entry, one, rows))  # type: ignore[misc]


def _of(
    rows: CampaignRows, ids: list[uuid.UUID], words: Callable[[AuditEntry], Event | None]
) -> Iterable[Event]:
    for pk in ids:
        for entry in rows.entries.get(pk, ()):
            event = words(entry) if entry.from_status != entry.to_status else None  # a note moves nothing
            if event is not None:
                yield event


def _campaign(entry: AuditEntry, rows: CampaignRows) -> Event | None:
    who = rows.names.get(entry.actor, entry.actor)
    found = {
        C.INITIALIZED: ("done", f"{who} submitted the brief"),
        C.VALIDATION_FAILED: (
            "failed",
            f"The brief was refused: {plural(len(rows.campaign.problems), 'problem')}",
        ),
        C.BUDGET_ALLOCATED: ("done", f"The budget was split over {plural(len(rows.allocations), 'channel')}"),
        C.RESEARCHING: ("running", "Sellers were asked for products"),
        C.AWAITING_APPROVAL: (
            "done",
            f"{plural(rows.deal_count, 'deal was', 'deals were')} recommended",
        ),
        C.COMPLETED: ("done", f"The campaign is complete: {entry.reason}"),
        C.FAILED: ("failed", f"The campaign failed: {entry.reason}"),
    }.get(C(entry.to_status))
    if found is None:
        return None
    glyph, said = found
    return Event(at=entry.at, glyph=glyph, said=lambda _, said=said: said, key=f"campaign:{entry.to_status}")  # type: ignore[misc]


def _cancelled_words(entry: AuditEntry, who: str, them: str, told: str) -> str:
    """How a deal came to be cancelled: rejected by people, called off, or after it was booked."""
    if entry.from_status in CONFIRMED or not entry.actor.startswith("human:"):
        return f"{them} was cancelled: {told}"
    return f"{who} rejected {them}" if "approval" in entry.metadata else f"{who} called {them} off"


def _deal(entry: AuditEntry, deal: Deal, rows: CampaignRows) -> Event | None:
    who = rows.names.get(entry.actor, entry.actor)
    seller = deal.seller.name
    told = entry.reason.removeprefix(f"{seller}: ")
    gross = rows.deals.gross.get(deal.pk)
    ordered = gross.ordered if gross else Decimal(0)
    departs = departure_words(rows.deals.lines.get(deal.pk, []), deal, ordered)
    found: dict[str, tuple[str, Callable[[str], str]]] = {
        D.ACCEPTED: ("done", lambda them: f"{who} approved {them}"),
        D.BOOKING: ("seller", lambda them: f"The purchase was let go to {them}"),
        D.BOOKED: (
            "differs" if departs else "done",
            lambda them: f"{them} booked the deal{f', {departs}' if departs else ''}",
        ),
        D.FAILED: ("failed", lambda them: f"{them} did not book: {told}"),
        D.EXPIRED: ("stopped", lambda them: f"Nobody decided on {them} in time"),
        D.CANCELLED: ("stopped", lambda them: _cancelled_words(entry, who, them, told)),
        D.DELIVERING: ("running", lambda them: f"{them} delivers"),
        D.COMPLETED: ("done", lambda them: f"{them} delivered"),
    }
    if entry.to_status not in found:
        return None
    glyph, said = found[entry.to_status]
    settled = str(entry.metadata.get("settled_by") or "")
    return Event(
        at=entry.at,
        glyph=glyph,
        said=said,
        about=(seller,),
        how=_channel(settled),
        key=f"deal:{entry.to_status}:{entry.actor if entry.to_status in _SHARED else deal.pk}",
        quote=_comment(entry) if entry.actor.startswith("human:") else "",
    )


def _operation(entry: AuditEntry, operation: Operation) -> Event | None:
    seller, task = operation.seller.name, operation.task_type
    channel = _channel(str(entry.metadata.get("channel") or ""))
    if not operation.is_mutation or task == "sync_accounts":
        lost = entry.to_status in (O.FAILED, O.REJECTED, O.TIMED_OUT)
        said, glyph = f"{seller} did not answer {task}: {_why(entry)}", "failed"
        return (
            Event(at=entry.at, glyph=glyph, said=lambda _: said, key=str(entry.pk), how=channel)
            if lost
            else None
        )
    found: dict[str, tuple[str, Callable[[str], str]]] = {
        O.SUBMITTED: ("seller", lambda them: f"{them} took it for review"),
        O.WORKING: ("running", lambda them: f"{them} works on it"),
        O.INPUT_REQUIRED: ("person", lambda them: f"{them} asked: {_why(entry)}"),
        O.AUTH_REQUIRED: ("person", lambda them: f"{them} wants other credentials"),
        O.TIMED_OUT: ("overdue", lambda them: f"{them} has not answered in time"),
    }
    if entry.to_status not in found:
        return None
    glyph, said_of = found[entry.to_status]
    together = entry.to_status == O.SUBMITTED
    return Event(
        at=entry.at,
        glyph=glyph,
        said=said_of,
        about=(seller,),
        how=channel,
        key=f"operation:{entry.to_status}:{channel}" if together else str(entry.pk),
    )


def _approval(entry: AuditEntry, approval: Approval, rows: CampaignRows) -> Event | None:
    if approval.kind == DEAL or (approval.kind == DIFFERENT and entry.to_status == "open"):
        return None  # told by the deal itself
    who = rows.names.get(entry.actor, entry.actor)
    said = {
        "open": f"Asked: {approval.title}",
        "approved": f"{who} agreed: {approval.title}",
        "rejected": f"{who} refused: {approval.title}",
        "expired": f"Nobody decided in time: {approval.title}",
    }.get(entry.to_status)
    if said is None:
        return None
    glyph = {"open": "person", "approved": "done", "rejected": "stopped"}.get(entry.to_status, "stopped")
    quote = _comment(entry) if entry.actor.startswith("human:") else ""
    return Event(at=entry.at, glyph=glyph, said=lambda _: said, key=str(entry.pk), quote=quote)


def _merged(events: list[Event]) -> list[Event]:
    """Neighbours of one key and kind, within _TOGETHER, become one line."""
    merged: list[Event] = []
    for event in events:
        last = next(
            (one for one in reversed(merged) if one.key == event.key and one.quote == event.quote), None
        )
        if last is None or not event.about or event.at - last.at > _TOGETHER:
            merged.append(event)
            continue
        about = tuple(dict.fromkeys([*last.about, *event.about]))
        merged[merged.index(last)] = replace(last, about=about, at=event.at)
    return sorted(merged, key=lambda event: event.at)


def _comment(entry: AuditEntry) -> str:
    """What the person wrote; the declaration's own words for an edge are no comment."""
    declared = lifecycle(entry.entity_type).edges.get((entry.from_status, entry.to_status), "")
    return "" if entry.reason == declared else entry.reason


def _why(entry: AuditEntry) -> str:
    """The reason without its channel: "Seen by poll: …"."""
    return entry.reason.partition(": ")[2] if entry.reason.startswith("Seen by ") else entry.reason


def _channel(name: str) -> str:
    return {"reply": "in its reply", "poll": "seen by poll", "webhook": "by webhook"}.get(name, "")
