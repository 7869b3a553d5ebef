"""System check: the edges that migrations put into the database are those that are declared."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, register

from tasks_app.database_rights import tables_declared
from tasks_app.lifecycle.declarations import ENTITIES, lifecycle

_MIGRATIONS = Path(__file__).resolve().parent.parent / "migrations"


@register()
def edges_are_migrated(**_: Any) -> list[CheckMessage]:
    """E001 for every entity whose declared edges no migration has put into the database as they are."""
    migrated = migrated_edges()
    return [
        Error(
            f"The declared edges of {entity} differ from those in the migrations.",
            hint="Run manage.py lifecycle_edges, which writes the migration.",
            id="lifecycle.E001",
        )
        for entity in ENTITIES
        if migrated.get(entity) != declared_edges(entity)
    ]


@register()
def tables_are_declared(**_: Any) -> list[CheckMessage]:
    """E002 for every table of which nobody has said what the application's role may write there."""
    tables = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    return [
        Error(
            f"Nobody has declared what the application's role may write in {table}.",
            hint="Name it, with its reasons, in the role_rights.py of its storey and in docs/audit-proof.md.",
            id="lifecycle.E002",
        )
        for table in sorted(tables - tables_declared().keys())
    ]


def declared_edges(entity: str) -> set[tuple[str, str]]:
    """The edges between different states."""
    return {(before, after) for before, after in lifecycle(entity).edges if before != after}


def migrated_edges() -> dict[str, set[tuple[str, str]]]:
    """What the migrations leave in the matrix: EDGES of each in order, later ones replacing an entity's."""
    found: dict[str, set[tuple[str, str]]] = {}
    for path in sorted(_MIGRATIONS.glob("[0-9]*.py")):
        edges = getattr(import_module(f"tasks_app.migrations.{path.stem}"), "EDGES", {})
        found |= {entity: {tuple(pair) for pair in pairs} for entity, pairs in edges.items()}
    return found
