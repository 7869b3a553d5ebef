"""Migration operations that put the lifecycle's server-side functions into the database."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

_SQL = Path(__file__).parent / "sql"


def install_audit() -> migrations.RunSQL:
    """The trail's functions, its append-only triggers and the application role's missing rights."""
    return migrations.RunSQL((_SQL / "audit.sql").read_text(), migrations.RunSQL.noop)


def install_move(entity: str, table: str) -> migrations.RunSQL:
    """`fd_move_<entity>`, the one way a row of `table` changes its status."""
    sql = (_SQL / "move.sql").read_text().format(entity=entity, table=table)
    return migrations.RunSQL(sql, f"drop function if exists fd_move_{entity}")


def create_sequence(name: str) -> migrations.RunSQL:
    """The sequence behind references such as DEAL-2026-000123."""
    return migrations.RunSQL(f"create sequence if not exists {name}", f"drop sequence if exists {name}")
