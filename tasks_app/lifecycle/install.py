"""Migration operations that put the lifecycle's server-side functions and rules into the database."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

_SQL = Path(__file__).parent / "sql"
Edges = dict[str, Iterable[tuple[str, str]]]


def install_audit() -> migrations.RunSQL:
    """The trail's functions, its append-only triggers and the application role's missing rights."""
    return migrations.RunSQL((_SQL / "audit.sql").read_text(), migrations.RunSQL.noop)


def install_move(entity: str, table: str) -> migrations.RunSQL:
    """`fd_move_<entity>`, the one way a row of `table` changes its status, and `fd_birth_<entity>`, the one
    way it gets its first entry: both run as the role that migrates."""
    sql = (_SQL / "move.sql").read_text().format(entity=entity, table=table)
    return migrations.RunSQL(
        sql, f"drop function if exists fd_move_{entity}, fd_birth_{entity}, fd_note_{entity}"
    )


def install_changes(entity: str, *, moved: Iterable[str], noted: Iterable[str]) -> migrations.RunSQL:
    """The columns that change with a status (`fd_move_<entity>`, `fd_move_many_<entity>`) and with an entry
    that leaves it as it is (`fd_note_<entity>`); every other is refused."""
    made = (
        f"create or replace function public.fd_{verb}_{entity}() returns text[] language sql immutable as "
        f"$$ select '{{{','.join(columns)}}}'::text[] $$;"
        for verb, columns in (("moved", moved), ("noted", noted))
    )
    return migrations.RunSQL(list(made), migrations.RunSQL.noop)


def install_steps() -> migrations.RunSQL:
    """`fd_steps_done` and `fd_steps_claim`: completing steps, releasing their successors and claiming the
    next, in one call each."""
    return migrations.RunSQL((_SQL / "steps.sql").read_text(), (_SQL / "steps_drop.sql").read_text())


def install_enforcement_shared() -> migrations.RunSQL:
    """What every entity's enforcement uses, and the application role's missing rights on the matrix."""
    return migrations.RunSQL((_SQL / "enforce_shared.sql").read_text(), migrations.RunSQL.noop)


def install_enforcement(entity: str, table: str, initial: str) -> migrations.RunSQL:
    """The triggers on `table` that refuse what is not declared, and `fd_move_many_<entity>`."""
    sql = (_SQL / "enforce.sql").read_text().format(entity=entity, table=table, initial=initial)
    return migrations.RunSQL(sql, migrations.RunSQL.noop)


def install_kept() -> migrations.RunSQL:
    """Numbering and forgetting as the owner, and the triggers that keep what was written."""
    return migrations.RunSQL((_SQL / "kept.sql").read_text(), migrations.RunSQL.noop)


def declare_edges(edges: Edges) -> migrations.RunPython:
    """Make the matrix of the named entities exactly `edges` (without self-transitions)."""

    def fill(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
        model = apps.get_model("tasks_app", "LifecycleEdge")
        model.objects.filter(entity__in=edges).delete()
        model.objects.bulk_create(
            model(entity=entity, from_status=before, to_status=after)
            for entity, pairs in edges.items()
            for before, after in pairs
        )

    return migrations.RunPython(fill, migrations.RunPython.noop)


def create_sequence(name: str) -> migrations.RunSQL:
    """The sequence behind references such as DEAL-2026-000123."""
    return migrations.RunSQL(f"create sequence if not exists {name}", f"drop sequence if exists {name}")
