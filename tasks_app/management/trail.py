"""Arguments of the commands about the trail: which entity, which moment."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from django.utils.dateparse import parse_datetime

from tasks_app.lifecycle.selectors import entity_by_reference
from tasks_app.lifecycle.verify import entity_models
from tasks_app.management.base import refuse


def kind_named(kind: str) -> str:
    """A kind of entity. Raises CommandError (2)."""
    known = sorted(entity_models())
    if kind not in known:
        refuse(f"There is no kind of entity {kind!r}; there are {', '.join(known)}.")
    return kind


def id_named(kind: str, text: str) -> uuid.UUID:
    """The id that `text` is, or that of the entity with such a reference. Raises CommandError (2)."""
    try:
        return uuid.UUID(text)
    except ValueError:
        found = entity_by_reference(text)
    if found is None or found[0] != kind:
        refuse(f"There is no {kind} {text!r}.")
    return found[1]


def entity_named(text: str) -> tuple[str, uuid.UUID | None]:
    """TYPE or TYPE:ID, the id also a reference. Raises CommandError (2)."""
    kind, colon, told = text.partition(":")
    kind_named(kind)
    return kind, id_named(kind, told) if colon else None


def moment(text: str) -> datetime:
    """An ISO 8601 time, UTC where it names no zone. Raises CommandError (2)."""
    try:
        told = parse_datetime(text)
    except ValueError:
        told = None
    if told is None:
        refuse(f"{text!r} is no time; write 2026-11-20T09:30:00Z.")
    return told if told.tzinfo else told.replace(tzinfo=UTC)
