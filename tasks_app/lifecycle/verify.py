"""Verification of the trail: each chain for itself, and against the entity and the anchors kept outside.

A chain is read in one statement with the status that its entity has, so that a transition meanwhile upsets
nothing; a whole run sees one moment.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from operator import itemgetter

import psycopg
from django.apps import apps

from tasks_app.lifecycle import stored
from tasks_app.lifecycle.chain import Chain, Head, Verification, births_of
from tasks_app.lifecycle.models import AuditEntry, Stateful
from tasks_app.lifecycle.stored import ID, STATUS, VERSION, Part, Row

# An entry's key to its metadata and changes as PostgreSQL writes them: Python's floats would blur their
# numbers.
Texts = dict[int, tuple[str, str]]
_LAST = b"\xff" * 17  # after every id


@dataclass(frozen=True, kw_only=True)
class Found:
    """One entity's verification, whether or not the entity still exists."""

    entity_type: str
    entity_id: uuid.UUID
    verification: Verification


class Anchored:
    """Anchored heads, ascending, met by chains that come in the same order."""

    def __init__(self, heads: Iterable[Head]) -> None:
        self._heads = iter(heads)
        self._next = next(self._heads, None)

    def before(self, key: tuple[str, bytes]) -> Iterator[Found]:
        """Those that no chain was met for."""
        while self._next is not None and self._next.key < key:
            yield _gone(self._next)
            self._next = next(self._heads, None)

    def at(self, key: tuple[str, bytes]) -> Head | None:
        """The one of this chain."""
        met = self._next
        if met is None or met.key != key:
            return None
        self._next = next(self._heads, None)
        return met

    def rest(self) -> Iterator[Found]:
        """Those that are left when all chains were met."""
        while self._next is not None:
            yield _gone(self._next)
            self._next = next(self._heads, None)


def entity_models() -> dict[str, type[Stateful]]:
    """Entity name to model, for everything that has a lifecycle."""
    return {m.entity: m for m in apps.get_models() if issubclass(m, Stateful)}


def verify_entity(entity_type: str, entity_id: uuid.UUID) -> Verification:
    """Check one entity's whole chain, as the present transaction sees it. Raises KeyError for an unknown
    entity type."""
    rows, status, version = read_entity(entity_type, entity_id)
    return _judged(Chain(entity_type, entity_id), rows).verification(status, version)


def read_entity(entity_type: str, entity_id: uuid.UUID) -> tuple[list[Row], str, int]:
    """One entity's entries as stored, and the status and version it has (empty and 0: there is none), all of
    one moment. Raises KeyError for an unknown entity type."""
    rows = stored.entries_of_one(_part(entity_type, entity_id=entity_id))
    status, version = _stands(rows[0]) if rows else ("", 0)
    return [row for row in rows if row[ID] is not None], status, version


def verify_all(entity_type: str) -> Iterator[tuple[uuid.UUID, Verification]]:
    """Every entity of a type with its verification, also those that only the trail still knows; of what is
    committed, in constant memory. Raises KeyError for an unknown entity type."""
    part = _part(entity_type)
    with stored.snapshot() as raw:
        for found in _verify_part(raw, part, Anchored(()), Counter()):
            yield found.entity_id, found.verification


def verify_trail(
    *,
    entity_type: str = "",
    entity_id: uuid.UUID | None = None,
    since: datetime | None = None,
    anchored: Iterable[Head] = (),
) -> Iterator[Found]:
    """Everything, or one kind of entity, or one entity, or what moved `since`: of one moment of what is
    committed, in constant memory. `anchored`: heads within what is asked for, ascending by `Head.key`.

    Chains come in that order; an entity without any entry after those of its kind. Raises KeyError for an
    entity type that nobody knows, ValueError for `since` with `anchored`: a chain that is not read cannot be
    compared.
    """
    heads = Anchored(anchored)
    known = entity_models()
    if entity_type and entity_type not in known:
        raise KeyError(entity_type)
    if since is not None and anchored:
        raise ValueError("anchored heads are compared with whole trails")
    with stored.snapshot() as raw:
        births: Counter[uuid.UUID] = Counter()
        kinds = {entity_type} if entity_type else {*known, *stored.kinds_stored(raw)}
        for kind in sorted(kinds):
            table = known[kind]._meta.db_table if kind in known else ""
            part = Part(kind=kind, table=table, entity_id=entity_id, since=since)
            yield from _verify_part(raw, part, heads, births)
    yield from heads.rest()


def verify_chain(entries: list[AuditEntry], status: str, version: int, texts: Texts) -> Verification:
    """Check an entity's entries, read in order, against its stored status and version."""
    if not entries:
        return _judged(Chain("", uuid.UUID(int=0)), ()).verification(status, version)
    chain = Chain(entries[0].entity_type, entries[0].entity_id)
    return _judged(chain, (_row(entry, *texts[entry.pk]) for entry in entries)).verification(status, version)


def _part(kind: str, *, entity_id: uuid.UUID | None = None) -> Part:
    return Part(kind=kind, table=entity_models()[kind]._meta.db_table, entity_id=entity_id)


def _verify_part(
    raw: psycopg.Connection[Row], part: Part, anchored: Anchored, births: Counter[uuid.UUID]
) -> Iterator[Found]:
    """`births` counts on: how many of an import's there were so far."""
    with closing(stored.entries_stored(raw, part)) as rows:
        for pk, entries in groupby(rows, itemgetter(ID)):
            key = part.kind, pk
            yield from anchored.before(key)
            yield _verified(part.kind, uuid.UUID(bytes=pk), entries, anchored.at(key), births)
    yield from anchored.before((part.kind, _LAST))
    with closing(stored.without_entries(raw, part)) as traceless:
        for pk, status, version in traceless:
            entity_id = uuid.UUID(bytes=pk)
            verification = Chain(part.kind, entity_id).verification(status.decode(), version)
            yield Found(entity_type=part.kind, entity_id=entity_id, verification=verification)


def _verified(
    kind: str,
    entity_id: uuid.UUID,
    entries: Iterable[Row],
    anchored: Head | None,
    births: Counter[uuid.UUID],
) -> Found:
    chain = Chain(kind, entity_id, anchored)
    row: Row = ()
    for row in entries:
        chain.add(row)
    verification = _counted(chain, chain.verification(*_stands(row)), births)
    return Found(entity_type=kind, entity_id=entity_id, verification=verification)


def _counted(chain: Chain, verification: Verification, births: Counter[uuid.UUID]) -> Verification:
    """Wrong where more say that they were born of its import than that was of."""
    if chain.imported_by is None:
        return verification
    births[chain.imported_by] += 1
    if not verification.ok or births[chain.imported_by] <= births_of(chain.imported_by):
        return verification
    return replace(
        verification, ok=False, broken_at=1, problem="entry 1: its import was of fewer than cite it"
    )


def _judged(chain: Chain, rows: Iterable[Row]) -> Chain:
    for row in rows:
        chain.add(row)
    return chain


def _stands(row: Row) -> tuple[str, int]:
    return (row[STATUS] or b"").decode(), row[VERSION] or 0


def _gone(head: Head) -> Found:
    problem = f"no entries, there were {head.seq} when it was anchored"
    verification = Verification(ok=False, entries=0, problem=problem)
    return Found(entity_type=head.entity_type, entity_id=head.entity_id, verification=verification)


def _row(entry: AuditEntry, metadata: str, changes: str) -> Row:
    """An entry read by the ORM, as `stored` reads it."""
    return (
        entry.entity_id.bytes,
        entry.seq,
        entry.from_status.encode(),
        entry.to_status.encode(),
        stored.at_bytes(entry.at),
        entry.actor.encode(),
        entry.reason.encode(),
        b"\x01" + metadata.encode(),
        b"\x01" + changes.encode(),
        entry.trace_id.encode(),
        entry.format_version,
        bytes(entry.body),
        bytes(entry.prev_hash),
        bytes(entry.hash),
        None,
        None,
    )
