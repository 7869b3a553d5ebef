"""The trail as people read it: what changed, why, who, and the beginning of its hash."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tasks_app.desk.states import face
from tasks_app.lifecycle.declarations import lifecycle
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.names import EntityName, names_of
from tasks_app.lifecycle.verify import Verification
from tasks_app.people.actors import actor_names


@dataclass(frozen=True, kw_only=True)
class TrailRow:
    """One entry. `what` names the state it led to, `move` both states, `note` its reason."""

    pk: int
    seq: int
    at: datetime
    glyph: str
    what: str
    move: str
    note: str
    who: str
    hash: str
    entity_type: str
    entity: EntityName | None = None


def trail_rows(entries: Iterable[AuditEntry], names: Mapping[str, str] | None = None) -> list[TrailRow]:
    """Entries as rows, newest first. `names`: actor key to name, looked up where it is not given."""
    every = sorted(entries, key=lambda entry: (entry.at, entry.pk), reverse=True)
    known = actor_names({entry.actor for entry in every}) if names is None else names
    return [_row(entry, known, None) for entry in every]


def trail_rows_named(entries: list[AuditEntry]) -> list[TrailRow]:
    """Entries in the order given, each with what its entity is called: a query per kind of entity."""
    actors = actor_names({entry.actor for entry in entries})
    wanted: dict[str, set[uuid.UUID]] = {}
    for entry in entries:
        wanted.setdefault(entry.entity_type, set()).add(entry.entity_id)
    called = {pk: name for kind, ids in wanted.items() for pk, name in names_of(kind, ids).items()}
    return [_row(entry, actors, called.get(entry.entity_id)) for entry in entries]


def verification_words(verification: Verification) -> str:
    """What the check of the chain came to."""
    if verification.ok:
        return f"{verification.entries} of {verification.entries} verified"
    return f"The trail does not hold: {verification.problem}"


def move_words(entry: AuditEntry) -> str:
    """booking → booked; ∅ → quoted for the first."""
    return f"{entry.from_status or '∅'} → {entry.to_status}"


def _row(entry: AuditEntry, actors: Mapping[str, str], entity: EntityName | None) -> TrailRow:
    shown = face(entry.to_status)
    # A person's yes is done, whatever then begins; the first entry only says that it is there.
    glyph = "waiting" if not entry.from_status else "done" if entry.to_status == "accepted" else shown.glyph
    return TrailRow(
        pk=entry.pk,
        seq=entry.seq,
        at=entry.at,
        glyph=glyph,
        what=_what(entry, shown.word),
        move=move_words(entry),
        note="" if entry.reason == _declared(entry, whole=True) else entry.reason,
        who=actors.get(entry.actor, entry.actor),
        hash=bytes(entry.hash).hex()[:8],
        entity_type=entry.entity_type,
        entity=entity,
    )


def _what(entry: AuditEntry, word: str) -> str:
    return _declared(entry) or (word if entry.from_status else "Created")


def _declared(entry: AuditEntry, *, whole: bool = False) -> str:
    """The declaration's own words for this edge; unless `whole`, only where they say something."""
    said = lifecycle(entry.entity_type).edges.get((entry.from_status, entry.to_status), "")
    return "" if said == "seed table" and not whole else said
