"""Migration operations that put functions, triggers and declared edges into the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation

from tasks_app.lifecycle.declarations import lifecycle

_SQL = Path(__file__).resolve().parent.parent / "migrations" / "sql"


def install_sql(path: Path) -> migrations.RunSQL:
    """Return an operation that runs an SQL file as it is."""
    return migrations.RunSQL(path.read_text(), migrations.RunSQL.noop)


def install_entity(
    entity: str, table: str, *, moved: Iterable[str] = (), noted: Iterable[str] = ()
) -> list[Operation]:
    """Return the operations for one entity with a status: its edges, functions and triggers.

    Args:
        entity: A name in `lifecycle/data/`.
        table: The entity's table.
        moved: The columns that may change together with the status (`fd_move_<entity>`).
        noted: The columns that may change with an entry but without the status (`fd_note_<entity>`).
    """
    template = (_SQL / "entity.sql").read_text()
    initial = lifecycle(entity).initial
    return [
        migrations.RunPython(_edges_fill(entity), migrations.RunPython.noop),
        migrations.RunSQL(_columns_function("moved", entity, moved), migrations.RunSQL.noop),
        migrations.RunSQL(_columns_function("noted", entity, noted), migrations.RunSQL.noop),
        migrations.RunSQL(
            template.format(entity=entity, table=table, initial=initial), migrations.RunSQL.noop
        ),
    ]


def create_sequence(name: str) -> migrations.RunSQL:
    """Return an operation that creates the sequence behind references such as DEAL-2026-000123."""
    return migrations.RunSQL(f"create sequence {name}", f"drop sequence {name}")


def _columns_function(verb: str, entity: str, columns: Iterable[str]) -> str:
    return (
        f"create function public.fd_{verb}_{entity}() returns text[] language sql immutable as "
        f"$$ select '{{{','.join(columns)}}}'::text[] $$;"
    )


def _edges_fill(entity: str) -> Callable[[Apps, BaseDatabaseSchemaEditor], None]:
    def fill(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
        model = apps.get_model("tasks_app", "LifecycleEdge")
        model.objects.bulk_create(
            model(entity=entity, from_status=before, to_status=after)
            for before, after in sorted(lifecycle(entity).edges)
            if before != after
        )

    return fill
