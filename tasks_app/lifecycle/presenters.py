"""The trail as people read it: what changed, why, who, how long it stayed, and the beginning of its hash."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from django.urls import reverse

from tasks_app import clock, days
from tasks_app.desk import text
from tasks_app.desk.states import face
from tasks_app.lifecycle.chain import Verification
from tasks_app.lifecycle.declarations import lifecycle
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.models import AuditEntry, Stateful
from tasks_app.lifecycle.names import EntityName, names_of
from tasks_app.people.actors import actor_names

EXPORTS = {"csv": "CSV", "jsonl": "JSON Lines"}
_FACT_SHOWN = 300
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_INLINE = 120  # characters of facts that stand open in a row; more are folded


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Something beside the status: a changed column `before` and `after`, or metadata (`before` is None)."""

    name: str
    after: str
    before: str | None = None

    @property
    def size(self) -> int:
        return len(self.name) + len(self.after) + len(self.before or "")


@dataclass(frozen=True, kw_only=True)
class TrailRow:
    """One entry. `what` names the state it led to, `move` both states, `note` its reason; `stayed` is how
    long the entity stayed in that state. `holds`: whether it stands the check, None behind one that does
    not. Both only in an entity's whole trail."""

    pk: int
    seq: int
    at: datetime
    glyph: str
    what: str
    move: str
    note: str
    who: str
    actor: str
    hash: str
    entity_type: str
    changes: tuple[Fact, ...]
    metadata: tuple[Fact, ...]
    entity: EntityName | None = None
    stayed: str = ""
    holds: bool | None = None

    @property
    def when(self) -> str:
        """Wed 18 Nov, 12:00:07 in the viewer's zone."""
        return text.moment_exact(self.at)

    @property
    def utc(self) -> str:
        """The moment as it is stored, for machines and for the exact."""
        return days.utc(self.at).isoformat(timespec="microseconds")

    @property
    def kind(self) -> str:
        """human or agent; empty for the system."""
        return self.actor.partition(":")[0] if ":" in self.actor else ""

    @property
    def imported(self) -> bool:
        return any(fact.name == "import" for fact in self.metadata)

    @property
    def folded(self) -> bool:
        return sum(fact.size for fact in (*self.changes, *self.metadata)) > _INLINE


@dataclass(frozen=True, kw_only=True)
class Stay:
    """How long an entity was in one state, all its stays there together; `now`: it still is."""

    status: str
    glyph: str
    span: str
    now: bool


@dataclass(frozen=True, kw_only=True)
class Trail:
    """One entity's whole trail: rows newest first, `stays` in the order it came there, the check of the
    chain, and where it is to be had as a file (title, address)."""

    rows: tuple[TrailRow, ...]
    stays: tuple[Stay, ...]
    verification: Verification
    exports: tuple[tuple[str, str], ...]

    @property
    def verified(self) -> str:
        return verification_words(self.verification)


def trail_of(
    entity: Stateful,
    entries: Sequence[AuditEntry],
    verification: Verification,
    names: Mapping[str, str] | None = None,
) -> Trail:
    """An entity's chain, oldest first, as its page shows it. `names`: actor key to name, looked up where it
    is not given."""
    known = actor_names({entry.actor for entry in entries}) if names is None else names
    spans = _spans(entries)
    ended = not lifecycle(entity.entity).targets(entity.status)
    rows = [
        replace(
            _row(entry, known, None),
            stayed=_stayed(span, last=place == len(entries), ended=ended),
            holds=_holds(place, verification),
        )
        for place, (entry, span) in enumerate(zip(entries, spans, strict=True), start=1)
    ]
    return Trail(
        rows=tuple(reversed(rows)),
        stays=_stays(entries, spans, ended=ended),
        verification=verification,
        exports=export_links(entity.entity, entity.pk),
    )


def export_links(entity_type: str, entity_id: uuid.UUID) -> tuple[tuple[str, str], ...]:
    """(title, address) of each form in which a trail is to be had as a file."""
    return tuple(
        (title, reverse(f"trail_{form}", args=[entity_type, entity_id])) for form, title in EXPORTS.items()
    )


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


def refusal_words(error: TransitionError) -> str:
    """A refused status change as a person reads it: what stays as it is, why, and what is possible."""
    if not error.to_status:
        return f"{error}."
    named = names_of(error.entity, [_uuid(error.entity_id)]).get(_uuid(error.entity_id))
    called = named.reference if named else f"{error.entity} {error.entity_id}"
    possible = f" Possible from {error.from_status}: {', '.join(error.allowed)}." if error.allowed else ""
    frm = error.from_status or "nothing"
    return f"{called} was not moved from {frm} to {error.to_status}: {error.why}.{possible}"


def move_words(entry: AuditEntry) -> str:
    """booking → booked; ∅ → quoted for the first."""
    if entry.from_status == entry.to_status:
        return f"noted while {entry.to_status}"
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
        note="" if entry.reason == _declared(entry) else entry.reason,
        who=actors.get(entry.actor, entry.actor),
        actor=entry.actor,
        hash=bytes(entry.hash).hex()[:8],
        entity_type=entry.entity_type,
        changes=tuple(_change(name, pair) for name, pair in _items(entry.changes)),
        metadata=tuple(Fact(name=name, after=_words(value)) for name, value in _items(entry.metadata)),
        entity=entity,
    )


def _holds(place: int, verification: Verification) -> bool | None:
    broken = verification.broken_at or place + 1
    return None if place > broken else place < broken


def _items(stored: Any) -> list[tuple[str, Any]]:
    """What a JSON column holds by name; whatever else somebody wrote into it stands without one."""
    return list(stored.items()) if isinstance(stored, dict) else [("", stored)]


def _change(name: str, pair: Any) -> Fact:
    if isinstance(pair, list) and len(pair) == 2:
        return Fact(name=name, before=_words(pair[0]), after=_words(pair[1]))
    return Fact(name=name, after=_words(pair))


def _words(value: Any) -> str:
    """A recorded value: nothing, a moment in the viewer's zone, text as it is, a digest by its beginning (a
    large value stands by the one it was recorded with), a list of words with commas, JSON else."""
    if value is None or value == "":
        return "nothing"
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        return text.moment_exact(datetime.fromisoformat(value))
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return f"{value[:12]}…"
    if value and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return _cut(", ".join(value))
    if isinstance(value, dict) and set(value) == {"sha256", "bytes"}:
        return f"{text.number(value['bytes'])} bytes, SHA-256 {str(value['sha256'])[:12]}…"
    return _cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _cut(said: str) -> str:
    return said if len(said) <= _FACT_SHOWN else f"{said[: _FACT_SHOWN - 1]}…"


def _spans(entries: Sequence[AuditEntry]) -> list[timedelta]:
    """How long the state lasted that each entry led to; the last one until now."""
    if not entries:
        return []
    lasted = [after.at - before.at for before, after in pairwise(entries)]
    return [*lasted, clock.now() - entries[-1].at]


def _stayed(span: timedelta, *, last: bool, ended: bool) -> str:
    if not last:
        return text.lasted(span)
    return "to the end" if ended else f"{text.lasted(span)} so far"


def _stays(entries: Sequence[AuditEntry], spans: Sequence[timedelta], *, ended: bool) -> tuple[Stay, ...]:
    total: dict[str, timedelta] = {}
    for entry, span in zip(entries, spans, strict=True):
        total[entry.to_status] = total.get(entry.to_status, timedelta()) + span
    last = entries[-1].to_status if entries else ""
    return tuple(
        Stay(
            status=status,
            glyph=face(status).glyph,
            span="final" if ended and status == last else text.lasted(span),
            now=status == last and not ended,
        )
        for status, span in total.items()
    )


def _what(entry: AuditEntry, word: str) -> str:
    return _declared(entry) or (word if entry.from_status else "Created")


def _declared(entry: AuditEntry) -> str:
    """The declaration's own words for this edge."""
    return lifecycle(entry.entity_type).edges.get((entry.from_status, entry.to_status), "")


def _uuid(given: str) -> uuid.UUID:
    try:
        return uuid.UUID(given)
    except ValueError:
        return uuid.UUID(int=0)
