"""Reading the trail: of one entity, of several at once, and what a viewer may see of all."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Mapping
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, TextField
from django.db.models.functions import Cast

from tasks_app.lifecycle.models import AuditEntry, Stateful
from tasks_app.lifecycle.verify import Verification, entity_models, verify_chain, verify_entity
from tasks_app.people.models import User
from tasks_app.people.scope import visible

_REFERENCE = re.compile(r"[A-Za-z]{2,5}-\d{4}-\d{1,12}")


def entries_of(entity_type: str, entity_id: uuid.UUID) -> list[AuditEntry]:
    """One entity's chain, oldest first, with its texts."""
    rows = AuditEntry.objects.filter(entity_type=entity_type, entity_id=entity_id)
    return list(_with_texts(rows).order_by("seq"))


def entries_of_many(wanted: Mapping[str, Collection[uuid.UUID]]) -> dict[uuid.UUID, list[AuditEntry]]:
    """The chains of several entities, by id, each oldest first and with its texts; one query."""
    chains: dict[uuid.UUID, list[AuditEntry]] = {}
    parts = [Q(entity_type=kind, entity_id__in=ids) for kind, ids in wanted.items() if ids]
    if parts:
        for entry in _with_texts(AuditEntry.objects.filter(reduce(or_, parts))).order_by("entity_id", "seq"):
            chains.setdefault(entry.entity_id, []).append(entry)
    return chains


def verify_shown(entity: Stateful, entries: list[AuditEntry]) -> Verification:
    """Whether the chain of an entity holds, of entries read by `entries_of` or `entries_of_many`.

    What moved between the two reads is read again before anything is said to be wrong.
    """
    texts = {entry.pk: (vars(entry)["metadata_text"], vars(entry)["changes_text"]) for entry in entries}
    checked = verify_chain(entries, entity.status, entity.version, texts)
    return checked if checked.ok else verify_entity(entity.entity, entity.pk)


def entries_visible(viewer: User) -> QuerySet[AuditEntry]:
    """The whole trail, narrowed to entities of the viewer's teams."""
    return AuditEntry.objects.filter(of_teams(viewer))


def of_teams(viewer: User, *, seq: str = "seq") -> Q:
    """Of rows with `entity_type` and `entity_id`, those about entities of the viewer's teams; `seq` is the
    lookup of their number in the entity's trail.

    No entity has fewer versions than that: saying so keeps PostgreSQL from hashing whole tables for a page.
    """
    if viewer.is_superuser:
        return Q()
    own = [
        Q(
            Exists(_rows_visible(model, viewer).filter(pk=OuterRef("entity_id"), version__gte=OuterRef(seq))),
            entity_type=kind,
        )
        for kind, model in entity_models().items()
    ]
    return reduce(or_, own)


def entity_by_reference(reference: str) -> tuple[str, uuid.UUID] | None:
    """(entity type, id) of DEAL-2026-000864 and the like; None for what does not exist."""
    if not _REFERENCE.fullmatch(reference):
        return None
    for kind, model in entity_models().items():
        if any(field.name == "reference" for field in model._meta.fields):
            rows: Any = model._default_manager
            pk = rows.filter(reference=reference.upper()).values_list("pk", flat=True).first()
            if pk is not None:
                return kind, pk
    return None


def _with_texts(rows: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
    return rows.annotate(
        metadata_text=Cast("metadata", TextField()), changes_text=Cast("changes", TextField())
    )


def _rows_visible(model: type[Stateful], viewer: User) -> QuerySet[Any]:
    """Return the rows that `viewer` may see: as the model says, else those of the viewer's teams."""
    own: Callable[[User], QuerySet[Any]] | None = getattr(model, "rows_visible", None)
    return own(viewer) if own else visible(model._default_manager.all(), viewer, team=_team(model))


def _team(model: type[Stateful]) -> str:
    return "team" if any(field.name == "team" for field in model._meta.fields) else "job__team"
