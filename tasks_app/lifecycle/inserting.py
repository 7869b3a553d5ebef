"""Rows inserted as one document: what `bulk_create()` does, in a third of its time where there are many."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from psycopg.types.json import Jsonb

from tasks_app.lifecycle.models import Stateful

_AS_THEY_ARE = (str, int, float, list, dict)


def rows_insert(rows: Sequence[Stateful]) -> None:
    """Insert rows of one model, each with its key. Raises TypeError or ValueError for what JSON cannot say,
    DataError for what PostgreSQL cannot store."""
    connection: Any = connections[DEFAULT_DB_ALIAS]
    quoted = connection.ops.quote_name
    model = type(rows[0])
    fields = [(str(field.column), field) for field in model._meta.concrete_fields if not field.generated]
    table, columns = quoted(model._meta.db_table), ", ".join(quoted(column) for column, _ in fields)
    told = [
        {
            column: _plain(field.get_db_prep_save(field.pre_save(row, True), connection))
            for column, field in fields
        }
        for row in rows
    ]
    read = f"select {columns} from jsonb_populate_recordset(null::{table}, %s::jsonb)"  # noqa: S608 - a model's
    with connection.cursor() as cursor:
        cursor.execute(f"insert into {table} ({columns}) {read}", [json.dumps(told, allow_nan=False)])
    for row in rows:
        row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS


def _plain(value: Any) -> Any:
    """A column's value as JSON has it; moments, amounts and ids as their text."""
    if isinstance(value, Jsonb):
        return value.obj
    return value if value is None or isinstance(value, _AS_THEY_ARE) else str(value)
