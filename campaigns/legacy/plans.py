"""What a legacy row is to become, or why it cannot."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from campaigns.legacy.history import HistoryEntry
from campaigns.legacy.sellers import SellerFacts
from campaigns.legacy.source import Row
from campaigns.legacy.values import UnmappableError

T = TypeVar("T")
Problem = dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One row of `table` as an entity of ours: `fields` and `lines` by column, `seller` who it is with,
    `updated_at` as the source told it, `notes` what of the row did not fit."""

    table: str
    rowid: int
    legacy_id: str
    pk: uuid.UUID
    status: str
    created_at: datetime
    updated_at: str
    fields: dict[str, Any]
    history: list[HistoryEntry]
    lines: tuple[dict[str, Any], ...] = ()
    seller: SellerFacts | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Refused:
    """One row that was not imported, with every problem as `{"field": …, "problem": …}`."""

    table: str
    rowid: int
    legacy_id: str
    problems: tuple[Problem, ...]
    unknown_status: str | None = None


@dataclass(kw_only=True)
class PlannedRows:
    """Rows that can be imported and rows that cannot."""

    plans: list[Plan] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


class Problems:
    """Problems of one row, gathered, so that all are named at once."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def read(self, reading: Callable[[], T]) -> T | None:
        """What `reading` answers; None where it raises UnmappableError, whose problem is kept."""
        try:
            return reading()
        except UnmappableError as error:
            self.found.append({"field": error.field, "problem": error.problem})
            return None

    def refuse(self, row: Row, *, unknown_status: str | None = None) -> Refused:
        told = row.values.get("campaign_id" if row.table == "campaigns" else "id")
        return Refused(
            table=row.table,
            rowid=row.rowid,
            legacy_id=told[:255] if isinstance(told, str) else "",
            problems=tuple(self.found),
            unknown_status=unknown_status,
        )


def imported_id(source: str, table: str, legacy_id: str, created_at: datetime) -> uuid.UUID:
    """The key of a legacy row here: a UUIDv7 of its creation whose other bits are the row's name, so that the
    same row has the same key however often it is read."""
    name = "\0".join((source, table, legacy_id)).encode()
    tail = int.from_bytes(hashlib.sha256(name).digest()[:10])
    millis = int(created_at.timestamp() * 1000)
    random_a, random_b = tail >> 62 & 0xFFF, tail & ((1 << 62) - 1)
    return uuid.UUID(int=millis << 80 | 7 << 76 | random_a << 64 | 2 << 62 | random_b)
