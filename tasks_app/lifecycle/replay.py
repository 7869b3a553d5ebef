"""What an entity was at any moment, from its trail alone: told by the bytes that were hashed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from tasks_app.lifecycle.body import body_fields
from tasks_app.lifecycle.chain import Chain, Verification
from tasks_app.lifecycle.stored import BODY
from tasks_app.lifecycle.verify import read_entity

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Known:
    """A column's value and the entry it is known from. `later`: from what a later entry found there; no entry
    up to the moment wrote it. Large values are named by digest and size, as the trail has them."""

    value: Any
    seq: int
    later: bool = False


@dataclass(frozen=True, kw_only=True)
class State:
    """An entity at a moment. `status` is empty and `seq` 0 before it existed; `since`, `actor`, `reason` are
    those of the entry that led there. `verification` is the whole trail's: of one that is broken, only the
    entries before the break are told."""

    status: str = ""
    since: datetime | None = None
    actor: str = ""
    reason: str = ""
    seq: int = 0
    columns: Mapping[str, Known] = field(default_factory=dict)
    verification: Verification


@dataclass(frozen=True, kw_only=True)
class _Entry:
    seq: int
    at: datetime
    frm: str
    to: str
    actor: str
    reason: str
    changes: Mapping[str, tuple[Any, Any]]


def entity_at(entity_type: str, entity_id: uuid.UUID, *, at: datetime | None = None) -> State:
    """The entity as it was at `at` (aware; None: now). Raises KeyError for an unknown entity type,
    LookupError where neither the trail nor the database knows the entity."""
    rows, status, version = read_entity(entity_type, entity_id)
    if not rows and not version:
        raise LookupError(f"{entity_type} {entity_id}")
    chain = Chain(entity_type, entity_id)
    for row in rows:
        chain.add(row)
    verification = chain.verification(status, version)
    held = verification.broken_at - 1 if verification.broken_at else len(rows)
    entries = [_entry(row[BODY]) for row in rows[:held]]
    past = list(_until(entries, at))
    if not past:
        return State(verification=verification)
    moved = next(entry for entry in reversed(past) if entry.frm != entry.to)
    return State(
        status=moved.to,
        since=moved.at,
        actor=moved.actor,
        reason=moved.reason,
        seq=past[-1].seq,
        columns=_columns(past, entries[len(past) :]),
        verification=verification,
    )


def _until(entries: list[_Entry], at: datetime | None) -> Iterator[_Entry]:
    for entry in entries:
        if at is not None and entry.at > at:
            return
        yield entry


def _columns(past: list[_Entry], later: list[_Entry]) -> dict[str, Known]:
    written = {
        name: Known(value=after, seq=entry.seq)
        for entry in past
        for name, (_, after) in entry.changes.items()
    }
    found = {
        name: Known(value=before, seq=entry.seq, later=True)
        for entry in reversed(later)
        for name, (before, _) in entry.changes.items()
    }
    return dict(sorted({**found, **written}.items()))


def _moment(micros: int) -> datetime:
    """The moment, or the last or first that there is for one outside the calendar."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return _LAST if micros > 0 else _FIRST


def _entry(body: bytes) -> _Entry:
    fields = {name: value.decode() for name, value in body_fields(body).items()}
    return _Entry(
        seq=int(fields["seq"]),
        at=_moment(int(fields["at"])),
        frm=fields["from_status"],
        to=fields["to_status"],
        actor=fields["actor"],
        reason=fields["reason"],
        # Exact: a float would lose the cents of 1000.00.
        changes=json.loads(fields["changes"], parse_float=Decimal),
    )
