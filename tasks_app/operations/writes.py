"""What observations write, gathered and written together: one statement for all rows (or
for as many as it should carry), one for all columns."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, cast

from django.db import connection, models

from tasks_app.lifecycle.transitions import exact
from tasks_app.operations.bodies import insert, leave_out
from tasks_app.operations.models import Observation, Operation

_COLUMNS = """
update tasks_app_operation t
   set ({names}) = (select {names} from jsonb_populate_record(t, c.columns::jsonb))
  from unnest(%s::uuid[], %s::text[]) c (id, columns) where t.id = c.id
"""


class Writes:
    """Gathers while its block runs, writes when that ends well. In the transaction that holds the rows."""

    def __init__(self) -> None:
        self._observations: list[Observation] = []
        self._judged: list[Observation] = []
        self._columns: list[tuple[Operation, dict[str, Any]]] = []

    def __enter__(self) -> Writes:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            leave_out(self._judged)
            insert(self._observations)
            self._write_columns()

    def observation(self, observation: Observation, *, whole: bool) -> None:
        """Insert it at the end; with its body where it is `whole`, else as far as bodies are kept."""
        self._observations.append(observation)
        if not whole:
            self._judged.append(observation)

    def columns(self, operation: Operation, changes: Mapping[str, Any]) -> None:
        """Write columns of an operation (not its status) at the end; the instance has them at once."""
        self._columns.append((operation, dict(changes)))
        for name, value in changes.items():
            setattr(operation, name, value)

    def _write_columns(self) -> None:
        alike: dict[tuple[str, ...], list[tuple[Operation, dict[str, Any]]]] = defaultdict(list)
        for operation, changes in self._columns:
            alike[tuple(sorted(changes))].append((operation, changes))
        for names, rows in alike.items():
            if len(rows) == 1:
                Operation.objects.filter(pk=rows[0][0].pk).update(**rows[0][1])
            else:
                _write_alike(names, rows)


def _write_alike(names: tuple[str, ...], rows: list[tuple[Operation, dict[str, Any]]]) -> None:
    """The same columns of many rows, each with its own values, in one statement."""
    fields = [cast("models.Field[Any, Any]", Operation._meta.get_field(name)) for name in names]
    quoted = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
    values = [
        json.dumps({field.column: _value(field, changes[field.name]) for field in fields})
        for _operation, changes in rows
    ]
    with connection.cursor() as cursor:
        cursor.execute(_COLUMNS.format(names=quoted), [[operation.pk for operation, _ in rows], values])


def _value(field: models.Field[Any, Any], value: Any) -> Any:
    if isinstance(field, models.JSONField):
        return exact(value, floats=True)
    return exact(field.get_prep_value(value))
