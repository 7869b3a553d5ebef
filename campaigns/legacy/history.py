"""A legacy entity's history: `status_transitions`, and `campaign_events` of campaigns.

Statuses that a mapping table of document 002 has are told as ours, with the source's word beside them;
others stay as the source wrote them. Nothing is dropped, nothing guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from campaigns.legacy.source import Row, Source
from campaigns.legacy.values import UnmappableError, Values, required
from campaigns.models import CampaignStatus
from campaigns.state_machine import from_execution_status
from orders.models import DealStatus
from orders.state_machine import DSP_FLOW_STATUSES, from_dsp_flow_status
from tasks_app.lifecycle.declarations import Lifecycle
from tasks_app.lifecycle.errors import UnknownStatusError

_SHOWN = 10_000
# Table to what `status_transitions.entity_type` calls its rows.
ENTITY_TYPES = {"deals": "deal", "campaigns": "campaign", "jobs": "job"}


@dataclass(frozen=True, kw_only=True)
class HistoryEntry:
    """One legacy status change. `from_status` is empty for the first; `at`, `actor` and `reason` are the
    source's own words; `told`: its statuses, where ours are others."""

    from_status: str
    to_status: str
    at: str = ""
    actor: str = ""
    reason: str = ""
    told: tuple[str, str] | None = None

    def as_metadata(self) -> dict[str, Any]:
        """As it stands in an audit entry."""
        data: dict[str, Any] = {
            "from": self.from_status, "to": self.to_status, "at": self.at, "actor": self.actor,
            "reason": self.reason,
        }  # fmt: skip
        return {**data, "told": list(self.told)} if self.told else data


Histories = dict[tuple[str, str], list[HistoryEntry]]
Ours = Callable[[str], str]


def deal_status(value: str) -> DealStatus:
    """A deal's legacy status as ours: the document's own, or DSPFlowStatus's. Raises UnknownStatusError."""
    try:
        return DealStatus(value)
    except ValueError:
        return from_dsp_flow_status(value)


STATUS_OF: dict[str, Ours] = {
    "deals": deal_status, "campaigns": from_execution_status, "jobs": from_execution_status
}  # fmt: skip

# Table to the statuses that its rows may have.
STATUSES: dict[str, tuple[str, ...]] = {
    "deals": tuple(dict.fromkeys([*DealStatus.values, *DSP_FLOW_STATUSES])),
    "campaigns": tuple(CampaignStatus.values),
    "jobs": tuple(CampaignStatus.values),
}


def status_of(values: Values, ours: Ours) -> str:
    """The status a row has. Raises UnmappableError; for an unknown one its field is "status"."""
    told = values.get("status")
    if not isinstance(told, str):
        raise UnmappableError("status", "is missing" if told is None else "is no text")
    try:
        return str(ours(told))
    except UnknownStatusError:
        raise UnmappableError("status", f"{told[:80]!r} is no status that is known here") from None


def histories(source: Source) -> tuple[Histories, list[tuple[Row, UnmappableError]]]:
    """(table, legacy id) to its history, oldest first, and the rows that cannot be read. The table is empty
    for kinds that have none here."""
    found: Histories = {}
    unread: list[tuple[Row, UnmappableError]] = []
    for row in (*source.rows("status_transitions"), *source.rows("campaign_events")):
        try:
            for key, entry in _entries(row):
                found.setdefault(key, []).append(entry)
        except UnmappableError as error:
            unread.append((row, error))
    return found, unread


def legal_path(history: Sequence[HistoryEntry], declared: Lifecycle, status: str) -> bool:
    """Whether a history leads from the initial status to `status`, along declared edges, without a gap."""
    if not history or history[0].from_status or history[0].to_status != declared.initial:
        return False
    steps = list(pairwise(history))
    return history[-1].to_status == status and all(
        after.from_status == before.to_status != after.to_status
        and (after.from_status, after.to_status) in declared.edges
        for before, after in steps
    )


def unknown_statuses(history: Sequence[HistoryEntry], declared: Lifecycle) -> list[str]:
    """Statuses in a history that are none of ours."""
    named = [status for entry in history for status in (entry.from_status, entry.to_status) if status]
    return sorted({status for status in named if status not in declared.states})


def _entries(row: Row) -> Iterator[tuple[tuple[str, str], HistoryEntry]]:
    if row.unread:
        raise UnmappableError("", row.unread)
    values = row.values
    if row.table == "campaign_events":
        if values.get("to_status") is not None:
            key = ("campaigns", required(values, "campaign_id"))
            yield key, _entry("campaigns", values, at="timestamp", actor="", reason="event_type")
        return
    kind = required(values, "entity_type")
    table = next((table for table, name in ENTITY_TYPES.items() if name == kind), "")
    key = (table, required(values, "entity_id"))
    yield key, _entry(table, values, at="created_at", actor="triggered_by", reason="notes")


def _entry(table: str, values: Values, *, at: str, actor: str, reason: str) -> HistoryEntry:
    told = (_said(values, "from_status"), required(values, "to_status"))
    frm, to = (_ours(STATUS_OF.get(table, str), status) for status in told)
    return HistoryEntry(
        from_status=frm,
        to_status=to,
        at=_said(values, at),
        actor=_said(values, actor),
        reason=_said(values, reason),
        told=None if told == (frm, to) else told,
    )


def _ours(ours: Ours, told: str) -> str:
    try:
        return str(ours(told)) if told else ""
    except UnknownStatusError:
        return told


def _said(values: Values, name: str) -> str:
    """A word of the source's, whatever type it has."""
    value = values.get(name)
    return "" if value is None else str(value)[:_SHOWN]
