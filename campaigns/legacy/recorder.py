"""How an imported entity comes into the trail: replayed where its history is legal, else as an import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import models, transaction

from campaigns.legacy.history import HistoryEntry, legal_path
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.imports import create_imported
from tasks_app.lifecycle.models import Import, Stateful
from tasks_app.lifecycle.transitions import create, transition
from tasks_app.people.actors import SYSTEM


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The stored entity, and whether its history was replayed along declared edges."""

    entity: Stateful
    replayed: bool


def record_import(
    entity: Stateful,
    *,
    actor: str,
    import_row: Import,
    history: Sequence[HistoryEntry],
    reason: str,
    parts: Sequence[models.Model] = (),
) -> Recorded:
    """Store an unsaved `entity` that has its legacy status already, in the caller's transaction, and the rows
    (`parts`, of one model) that are born with it.

    A legal history that no guard refuses is replayed, an entry each, told as the system's by the import of
    `actor`, with the source's own time and actor in the metadata. Any other is kept whole in the first entry,
    and the entity begins in its legacy status, as a recorded import. Raises what `create_imported` raises.
    """
    told = [entry.as_metadata() for entry in history]
    if legal_path(history, entity.declared(), entity.status):
        try:
            return Recorded(entity=_replay(entity, actor, import_row, history, reason, parts), replayed=True)
        except TransitionError:
            pass  # a guard asks for what only our own deals have, such as an approval
    create_imported(entity, actor=actor, reason=reason, import_row=import_row, history=told)
    _born_with(parts)
    return Recorded(entity=entity, replayed=False)


@transaction.atomic
def _replay(
    entity: Stateful,
    actor: str,
    import_row: Import,
    history: Sequence[HistoryEntry],
    reason: str,
    parts: Sequence[models.Model],
) -> Stateful:
    # A fresh one, so that the given one is as it was when a guard refuses.
    begun = type(entity)(**{**_columns(entity), "status": entity.declared().initial})
    marked = {"imported": True, "source": import_row.source, "import": str(import_row.pk)}
    create(begun, actor=actor, reason=reason, metadata={**marked, "history": [history[0].as_metadata()]})
    _born_with(parts)
    for entry in history[1:]:
        metadata = {**marked, "history": [entry.as_metadata()]}
        transition(begun, entry.to_status, actor=SYSTEM, reason=entry.reason, metadata=metadata)
    return begun


def _born_with(parts: Sequence[models.Model]) -> None:
    if parts:
        type(parts[0])._base_manager.bulk_create(parts)


def _columns(entity: Stateful) -> dict[str, Any]:
    return {field.attname: getattr(entity, field.attname) for field in entity._meta.concrete_fields}
