"""`campaigns`, and `jobs` with their briefs: what fits a campaign's columns; the rest is in its brief."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from campaigns.legacy.history import Histories, status_of, unknown_statuses
from campaigns.legacy.owners import Owner
from campaigns.legacy.plans import Plan, PlannedRows, Problems, Refused, imported_id
from campaigns.legacy.source import Row, Source
from campaigns.legacy.values import (
    UnmappableError,
    Values,
    Written,
    flight,
    kept,
    moment,
    number,
    parsed,
    required,
    text,
)
from campaigns.state_machine import from_execution_status
from tasks_app import money
from tasks_app.lifecycle.declarations import lifecycle
from tasks_app.people.models import Advertiser


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """Where a table keeps what a campaign is made of."""

    key: str
    values: Values
    name: str
    advertiser: str
    budget: str
    currency: str
    start: str
    end: str


def campaign_rows(source: Source, owner: Owner, histories: Histories) -> PlannedRows:
    """Every row of `campaigns` and `jobs`. Raises UnreadableSourceError."""
    rows = PlannedRows()
    for table, facts_of in _FACTS.items():
        for row in source.rows(table):
            found = _plan(row, facts_of, owner, histories)
            if isinstance(found, Plan):
                rows.plans.append(found)
            else:
                rows.refused.append(found)
    return rows


def _campaign(values: Values) -> _Facts:
    return _Facts(
        key="campaign_id",
        values=values,
        name="campaign_name",
        advertiser="advertiser_id",
        budget="total_budget",
        currency="currency",
        start="flight_start",
        end="flight_end",
    )


def _job(values: Values) -> _Facts:
    """A booking job: its brief is JSON, with fractions as text, in a currency that is nowhere said."""
    brief = parsed(values, "brief")
    if not isinstance(brief, dict):
        raise UnmappableError("brief", "is no JSON object")
    told = brief.get("budget")
    return _Facts(
        key="id",
        values={
            **values,
            **brief,
            "id": values.get("id"),
            "status": values.get("status"),
            "budget": _told_amount(told),
        },
        name="name",
        advertiser="advertiser_id",
        budget="budget",
        currency="currency",
        start="start_date",
        end="end_date",
    )


def _told_amount(told: Any) -> Any:
    """As a number where it is one, or a text that is read one way alone: somebody typed it. Else as it is."""
    if not isinstance(told, str) or isinstance(told, Written):
        found = money.decimal_of(told)
        return told if found is None else found
    try:
        return money.typed_amount(told)
    except ValueError:
        return told


_NOISE = Decimal("1e-13")  # of a sum of floats, beside what it comes to
_FACTS: dict[str, Callable[[Values], _Facts]] = {"campaigns": _campaign, "jobs": _job}


def _plan(
    row: Row, facts_of: Callable[[Values], _Facts], owner: Owner, histories: Histories
) -> Plan | Refused:
    problems = Problems()
    if row.unread:
        problems.found.append({"field": "", "problem": row.unread})
        return problems.refuse(row)
    read, values = problems.read, row.values
    facts = read(lambda: facts_of(values))
    legacy_id = read(lambda: required(values, "campaign_id" if row.table == "campaigns" else "id"))
    status = read(lambda: status_of(values, from_execution_status))
    created_at = read(lambda: moment(values, "created_at"))
    known = read(lambda: _columns(facts, owner)) if facts else None
    if problems.found or not (legacy_id and status and created_at and known):
        told = values.get("status")
        unknown = told if status is None and isinstance(told, str) else None
        return problems.refuse(row, unknown_status=unknown)
    columns, notes = known
    history = histories.get((row.table, legacy_id), [])
    if unread := unknown_statuses(history, lifecycle("campaign")):
        notes.append(f"its history has statuses that are unknown here: {', '.join(unread)}")
    legacy = kept(values)
    provenance = {"source": owner.source, "table": row.table, "id": legacy_id, "row": legacy}
    return Plan(
        table=row.table,
        rowid=row.rowid,
        legacy_id=legacy_id,
        pk=imported_id(owner.source, row.table, legacy_id, created_at),
        status=status,
        created_at=created_at,
        updated_at=str(legacy.get("updated_at", "")),
        fields={**columns, "brief": {"name": columns["name"], "imported": provenance}},
        history=history,
        notes=tuple(notes),
    )


def _columns(facts: _Facts, owner: Owner) -> tuple[dict[str, Any], list[str]]:
    """A campaign's columns; those that may be empty are, with a note, where the source's do not fit."""
    notes: list[str] = []
    optional = Problems()
    advertiser: Advertiser | None = owner.advertiser(facts.advertiser, text(facts.values, facts.advertiser))
    amount: Decimal | None = optional.read(lambda: _amount(facts))
    currency: str | None = optional.read(lambda: _currency(facts))
    span: tuple[datetime, datetime] | None = optional.read(
        lambda: flight(facts.values, facts.start, facts.end, owner.zone)
    )
    notes += [f"{problem['field']} {problem['problem']}; left empty" for problem in optional.found]
    columns = {
        "name": required(facts.values, facts.name, limit=100_000)[:200],
        "advertiser": advertiser,
        "budget": amount,
        "currency": currency or "",
        "start_at": span[0] if span else None,
        "end_at": span[1] if span else None,
        "zone": owner.zone if span else "",
    }
    return columns, notes


def _amount(facts: _Facts) -> Decimal | None:
    found = number(facts.values, facts.budget)
    if found is None:
        return None
    kept = found.quantize(Decimal("0.0001"))
    if abs(found - kept) > _NOISE * max(found, Decimal(10_000)):
        raise UnmappableError(facts.budget, "has more than four decimals")
    return kept


def _currency(facts: _Facts) -> str:
    told = text(facts.values, facts.currency)
    if told and not money.is_currency(told):
        raise UnmappableError(facts.currency, f"{told[:20]!r} is no ISO 4217 currency")
    return told
