"""What entities are called on pages: looked up by their kind, so that no room needs the one above it.

A storey registers a namer for its kinds; an entity with a lifecycle and nobody's namer goes by its reference.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Model
from django.urls import reverse

from tasks_app.lifecycle.verify import entity_models


@dataclass(frozen=True, kw_only=True)
class EntityName:
    """How one entity is called: `name` in words, what it is `part_of`, `reference`, `link` to its page, and,
    where it has news of its own, the glyph and the words for them."""

    reference: str
    name: str = ""
    link: str = ""
    part_of: str = ""
    glyph: str = ""
    note: str = ""

    def __str__(self) -> str:
        return self.name or self.reference


Namer = Callable[[Collection[uuid.UUID]], dict[uuid.UUID, EntityName]]
_namers: dict[str, Namer] = {}


def namer_register(kind: str, namer: Namer) -> None:
    """Let `namer` answer for entities of `kind`."""
    _namers[kind] = namer


def names_of(kind: str, ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    """Id to name, for those that exist; nothing for a kind that nobody knows."""
    wanted = set(ids)
    if not wanted:
        return {}
    if kind in _namers:
        return _namers[kind](wanted)
    model = entity_models().get(kind)
    if model is None or not any(field.name == "reference" for field in model._meta.fields):
        return {}
    rows: Any = model._default_manager  # which model it is, the registry knows, not the type checker
    found = rows.filter(pk__in=wanted).values_list("pk", "reference")
    return {pk: EntityName(reference=reference, link=link_to(model, pk)) for pk, reference in found}


def link_to(model: type[Model], pk: object) -> str:
    """The address of an object's page in the admin."""
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=[pk])
