"""`manage.py lifecycle_edges`: write the migration that brings the edges up to the declarations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tasks_app.lifecycle.checks import declared_edges, migrated_edges
from tasks_app.lifecycle.declarations import ENTITIES
from tasks_app.management.base import DeskCommand

_MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"


class Command(DeskCommand):
    help = "Writes the migration that makes the database's edges those of lifecycle/data/*.json."
    whole = False

    def run(self, **options: Any) -> None:
        migrated = migrated_edges()
        changed = [entity for entity in ENTITIES if migrated.get(entity) != declared_edges(entity)]
        if not changed:
            self.answer({"written": None}, ["The migrations have the declared edges."])
            return
        last = sorted(path.stem for path in _MIGRATIONS.glob("[0-9]*.py"))[-1]
        name = f"{int(last[:4]) + 1:04d}_edges"
        path = _MIGRATIONS / f"{name}.py"
        path.write_text(_migration(last, {entity: sorted(declared_edges(entity)) for entity in changed}))
        self.answer(
            {"written": name, "entities": changed}, [f"{name} brings {', '.join(changed)} up to date."]
        )


def _migration(after: str, edges: dict[str, list[tuple[str, str]]]) -> str:
    listed = "".join(
        f'    "{entity}": [\n' + "".join(f'        ("{a}", "{b}"),\n' for a, b in pairs) + "    ],\n"
        for entity, pairs in edges.items()
    )
    return (
        f'"""The declared edges of {", ".join(edges)} (made by manage.py lifecycle_edges)."""\n\n'
        "from django.db import migrations\n\n"
        "from tasks_app.lifecycle.install import declare_edges\n\n"
        f"EDGES = {{\n{listed}}}\n\n\n"
        "class Migration(migrations.Migration):\n"
        f'    dependencies = [("tasks_app", "{after}")]\n'
        "    operations = [declare_edges(EDGES)]\n"
    )
