"""System check: every table says what the application's role may write in it."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, register

from tasks_app.database_rights import tables_declared


@register()
def tables_are_declared(**_: Any) -> list[CheckMessage]:
    """Return E002 for every table without an entry in a `role_rights.py`."""
    tables = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    return [
        Error(
            f"No role_rights.py says what the application's role may write in {table}.",
            hint="Name the table, with the reasons, in its app's role_rights.py and in docs/audit-proof.md.",
            id="lifecycle.E002",
        )
        for table in sorted(tables - tables_declared().keys())
    ]
