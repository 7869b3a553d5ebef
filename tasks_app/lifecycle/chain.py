"""One entity's chain, judged entry by entry.

Python hashes the stored bytes and renders what they should be from the columns (`body` tells the format);
the database only reads them out.
"""

from __future__ import annotations

import json
import uuid
from binascii import hexlify
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from hashlib import sha256

from tasks_app.lifecycle.body import FIELDS, body_fields, netstring
from tasks_app.lifecycle.declarations import ENTITIES, lifecycle
from tasks_app.lifecycle.models import Import
from tasks_app.lifecycle.stored import HASH, TO, Row
from tasks_app.people.actors import UnknownActorError, actor_key

# Microseconds from 1970 to 2000, where PostgreSQL begins to count.
_EPOCH = 946_684_800_000_000
# An import is one transaction; the host's clock, which tells when it began, may be ahead of the database's.
_LONGEST_IMPORT = 24 * 3600 * 1_000_000
_UNIX = datetime(1970, 1, 1, tzinfo=UTC)
_BODY = b"%d:%b,%b" + b"%d:%b," * 10
_Edges = frozenset[tuple[bytes, bytes]]


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Whether an entity's trail holds: how many entries, and the first thing that is wrong.

    `broken_at`: the number of the first entry that is wrong; 0 where the entries hold, but not what they
    lead to. `head`: the hash of the last entry that holds.
    """

    ok: bool
    entries: int
    problem: str = ""
    broken_at: int = 0
    head: bytes = field(default=b"", compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Head:
    """The end of an entity's chain at some moment: its last entry's number and hash."""

    entity_type: str
    entity_id: uuid.UUID
    seq: int
    hash: bytes

    @property
    def key(self) -> tuple[str, bytes]:
        """What heads are ordered by."""
        return self.entity_type, self.entity_id.bytes


class Chain:
    """Judges an entity's entries, given in order. `anchored`: a head that it had, and must have had."""

    def __init__(self, kind: str, entity_id: uuid.UUID, anchored: Head | None = None) -> None:
        self._lead = netstring(kind.encode()) + netstring(str(entity_id).encode())
        self._edges = _edges(kind)
        self._anchored = anchored
        self._entries = self._broken_at = 0
        self._previous = self._replayed = b""
        self._problem = ""
        self.imported_by: uuid.UUID | None = None  # the recorded import of which it says that it was born

    def add(self, row: Row) -> None:
        """The next entry."""
        self._entries += 1
        if self._problem:
            return
        problem = self._wrong(row)
        if problem:
            self._broken_at, self._problem = self._entries, f"entry {self._entries}: {problem}"
        else:
            self._previous, self._replayed = row[HASH], row[TO]

    def verification(self, status: str, version: int) -> Verification:
        """What it came to, against the entity's stored status and version (empty and 0: there is none)."""
        problem = self._problem or self._leads_elsewhere(status, version)
        return Verification(
            ok=not problem,
            entries=self._entries,
            problem=problem,
            broken_at=self._broken_at,
            head=self._previous,
        )

    def _wrong(self, row: Row) -> str:
        _, seq, frm, to, at, actor, reason, meta, changes, trace, version, body, previous, digest, _, _ = row
        number = self._entries
        if seq != number:
            return f"its number is {seq}"
        if body is None or sha256(body).digest() != digest:
            return "its bytes do not have its hash"
        if previous != self._previous:
            return "it does not follow the entry before"
        if frm != self._replayed:
            return f"it leaves {_word(frm) or 'nothing'}, the entity was {_word(self._replayed) or 'new'}"
        try:
            # In line: this runs for every entry there is. A jsonb's first byte is its format's version.
            form, count, prev = b"%d" % version, b"%d" % seq, hexlify(previous)
            micros = b"%d" % (int.from_bytes(at, "big", signed=True) + _EPOCH)
            told = _BODY % (
                len(form), form, self._lead, len(count), count, len(frm), frm, len(to), to,
                len(micros), micros, len(actor), actor, len(reason), reason,
                len(meta) - 1, meta[1:], len(changes) - 1, changes[1:],
                len(trace), trace, len(prev), prev,
            )  # fmt: skip
        except TypeError:
            return "its columns differ from its bytes: one is empty"
        if told != body:
            return f"its columns differ from its bytes: {_differing(told, body)}"
        undeclared = frm != to and (frm, to) not in self._edges
        if (undeclared or not frm) and not self._is_birth(frm, to, meta, at):
            return f"{_word(frm) or 'nothing'} → {_word(to)} is no declared edge"
        if not _named(actor):
            return f"{_word(actor)!r} is no actor"
        anchored = self._anchored
        if anchored is not None and number == anchored.seq and digest != anchored.hash:
            return "it had another hash when it was anchored"
        return ""

    def _is_birth(self, frm: bytes, to: bytes, metadata: bytes, at: bytes) -> bool:
        """Whether it is the first of an entity that is born here, or that a recorded import brought."""
        if frm:
            return False
        self.imported_by = _import_of(metadata, int.from_bytes(at, "big", signed=True) + _EPOCH)
        return (frm, to) in self._edges or self.imported_by is not None

    def _leads_elsewhere(self, status: str, version: int) -> str:
        if self._anchored is not None and self._entries < self._anchored.seq:
            return f"{self._entries} entries, there were {self._anchored.seq} when it was anchored"
        replayed = _word(self._replayed)
        if replayed == status and self._entries == version:
            return ""
        told = f"replayed to {replayed or 'nothing'} in {self._entries} entries"
        return f"{told}, stored is {status or 'nothing'} at {version}"


@cache
def _edges(kind: str) -> _Edges:
    """The moves an entry of this kind may tell of; none for a kind that is not declared."""
    if kind not in ENTITIES:
        return frozenset()
    declared = lifecycle(kind)
    moves = {("", declared.initial), *declared.edges}
    return frozenset((frm.encode(), to.encode()) for frm, to in moves if frm != to)


@lru_cache(1024)
def _named(actor: bytes) -> bool:
    try:
        return bool(actor_key(actor.decode()))
    except UnknownActorError:
        return False


def _import_of(metadata: bytes, micros: int) -> uuid.UUID | None:
    """The import that a birth at that moment belongs to, which may begin anywhere; what an entry says of
    itself proves nothing, so it is one that was recorded, and at about that time."""
    told = json.loads(metadata[1:]) if b'"imported"' in metadata else None
    if not isinstance(told, dict) or told.get("imported") is not True:
        return None
    try:
        import_id = uuid.UUID(str(told.get("import")))
        began = _recorded(import_id)[0]
    except (ValueError, _NotRecordedError):
        return None
    return import_id if abs(micros - began) <= _LONGEST_IMPORT else None


def births_of(import_id: uuid.UUID) -> int:
    """How many entities a recorded import says it was of."""
    return _recorded(import_id)[1]


class _NotRecordedError(Exception):
    """Kept out of the cache: an import may be recorded later."""


@lru_cache(1024)
def _recorded(import_id: uuid.UUID) -> tuple[int, int]:
    """When it began, in microseconds since 1970, and of how many rows."""
    found = Import.objects.filter(pk=import_id).values_list("at", "rows").first()
    if found is None:
        raise _NotRecordedError
    return (found[0] - _UNIX) // timedelta(microseconds=1), found[1]


def _differing(told: bytes, body: bytes) -> str:
    """The names of the fields in which the columns differ from the bytes."""
    columns = body_fields(told)
    try:
        hashed = body_fields(body)
    except ValueError as error:
        return f"they cannot be read, {error}"
    return ", ".join(name for name in FIELDS if columns[name] != hashed[name]) or "their lengths"


def _word(text: bytes | None) -> str:
    return (text or b"").decode(errors="replace")
