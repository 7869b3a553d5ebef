"""Verification of the trail: stored bytes against their hash, against the columns, against the entity.

`body` is netstrings of: format version, entity, id, seq, from, to, microseconds since 1970 (UTC), actor,
reason, metadata, changes, trace id, previous hash in hex (written by fd_audit_append).
"""

from __future__ import annotations

import hashlib
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import Any

from django.apps import apps
from django.db.models import TextField
from django.db.models.functions import Cast

from tasks_app.lifecycle.models import AuditEntry, Stateful

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BATCH = 500
# An entry's key to its metadata and changes as PostgreSQL writes them: Python's floats would blur their
# numbers.
Texts = dict[int, tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Whether an entity's trail holds: how many entries, and the first thing that is wrong."""

    ok: bool
    entries: int
    problem: str = ""


def entity_models() -> dict[str, type[Stateful]]:
    """Entity name to model, for everything that has a lifecycle."""
    return {m.entity: m for m in apps.get_models() if issubclass(m, Stateful)}


def verify_entity(entity_type: str, entity_id: uuid.UUID) -> Verification:
    """Check one entity's whole chain. Raises KeyError for an unknown entity type."""
    while True:  # until it stands still while we look
        for _, verification in _verify_some(entity_type, [entity_id]):
            return verification


def verify_all(entity_type: str) -> Iterator[tuple[uuid.UUID, Verification]]:
    """Every entity of a type with its verification, also those that only the trail still knows; in batches,
    constant memory."""
    rows = entity_models()[entity_type]._default_manager
    created = AuditEntry.objects.filter(entity_type=entity_type, seq=1)
    lost = created.exclude(entity_id__in=rows.values("pk")).values_list("entity_id", flat=True)
    known = chain(rows.order_by("pk").values_list("pk", flat=True).iterator(_BATCH), lost.iterator(_BATCH))
    while some := list(islice(known, _BATCH)):
        verified = dict(_verify_some(entity_type, some))
        yield from ((pk, verified.get(pk) or verify_entity(entity_type, pk)) for pk in some)


def verify_chain(entries: list[AuditEntry], status: str, version: int, texts: Texts) -> Verification:
    """Check entries in order against each other and against the entity's stored status and version."""
    previous, replayed = b"", ""
    for number, entry in enumerate(entries, start=1):
        problem = _entry_problem(entry, texts, number, previous, replayed)
        if problem:
            return Verification(ok=False, entries=len(entries), problem=f"entry {number}: {problem}")
        previous, replayed = bytes(entry.hash), entry.to_status
    if replayed != status or len(entries) != version:
        told = f"replayed to {replayed or 'nothing'} in {len(entries)} entries"
        return Verification(
            ok=False, entries=len(entries), problem=f"{told}, stored is {status or 'nothing'} at {version}"
        )
    return Verification(ok=True, entries=len(entries))


def _verify_some(entity_type: str, pks: list[uuid.UUID]) -> Iterator[tuple[uuid.UUID, Verification]]:
    """Those that did not move between our reading of rows and trail: each is compared with its own moment."""
    model = entity_models()[entity_type]
    before, (chains, texts), after = _stored(model, pks), _chains(entity_type, pks), _stored(model, pks)
    for pk in pks:
        if before.get(pk) == after.get(pk):
            yield pk, verify_chain(chains[pk], *before.get(pk, ("", 0)), texts)


def _stored(model: type[Stateful], pks: list[uuid.UUID]) -> dict[uuid.UUID, tuple[str, int]]:
    rows: Any = model._default_manager.filter(pk__in=pks)
    return {pk: (status, version) for pk, status, version in rows.values_list("pk", "status", "version")}


def _chains(entity_type: str, pks: list[uuid.UUID]) -> tuple[dict[uuid.UUID, list[AuditEntry]], Texts]:
    chains: dict[uuid.UUID, list[AuditEntry]] = defaultdict(list)
    texts: Texts = {}
    entries = AuditEntry.objects.filter(entity_type=entity_type, entity_id__in=pks).order_by("seq")
    as_text = {f"{name}_text": Cast(name, TextField()) for name in ("metadata", "changes")}
    for entry in entries.defer("metadata", "changes").annotate(**as_text):
        chains[entry.entity_id].append(entry)
        texts[entry.pk] = (vars(entry)["metadata_text"], vars(entry)["changes_text"])
    return chains, texts


def _entry_problem(entry: AuditEntry, texts: Texts, number: int, previous: bytes, replayed: str) -> str:
    body = bytes(entry.body)
    if entry.seq != number:
        return f"its number is {entry.seq}"
    if hashlib.sha256(body).digest() != bytes(entry.hash):
        return "its bytes do not have its hash"
    if bytes(entry.prev_hash) != previous:
        return "it does not follow the entry before"
    if entry.from_status != replayed:
        return f"it leaves {entry.from_status or 'nothing'}, the entity was {replayed or 'new'}"
    try:
        told = _read(body)
    except ValueError as error:
        return f"its bytes cannot be read: {error}"
    return "" if told == _columns(entry, *texts[entry.pk]) else "its columns differ from its bytes"


def _columns(entry: AuditEntry, metadata: str, changes: str) -> tuple[Any, ...]:
    return (
        entry.format_version,
        entry.entity_type,
        str(entry.entity_id),
        entry.seq,
        entry.from_status,
        entry.to_status,
        entry.at,
        entry.actor,
        entry.reason,
        metadata,
        changes,
        entry.trace_id,
        bytes(entry.prev_hash).hex(),
    )


def _read(body: bytes) -> tuple[Any, ...]:
    fields = [field.decode() for field in _netstrings(body)]
    if len(fields) != 13:
        raise ValueError(f"{len(fields)} fields instead of 13")
    version, entity, pk, seq, frm, to, micros, actor, reason, metadata, changes, trace, prev = fields
    at = _EPOCH + timedelta(microseconds=int(micros))
    return (
        int(version),
        entity,
        pk,
        int(seq),
        frm,
        to,
        at,
        actor,
        reason,
        metadata,
        changes,
        trace,
        prev,
    )


def _netstrings(body: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(body):
        colon = body.index(b":", at)
        end = colon + 1 + int(body[at:colon])
        if body[end : end + 1] != b",":
            raise ValueError("a field does not end where it says")
        yield body[colon + 1 : end]
        at = end + 1
