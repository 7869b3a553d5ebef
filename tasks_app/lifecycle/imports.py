"""Entities that begin elsewhere: legacy rows, reconciliation placeholders. A recorded exception.

PostgreSQL refuses a birth outside the initial status except in the transaction of an Import row, with an
audit entry that names it (migrations/sql/entity.sql).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection, transaction

from tasks_app import clock
from tasks_app.lifecycle.errors import InvalidTransitionError, UnknownStatusError
from tasks_app.lifecycle.models import Import, Stateful
from tasks_app.lifecycle.transitions import Who, append_birth
from tasks_app.people.actors import actor_key


def import_record(*, source: str, actor: Who, digest: str = "", rows: int = 0) -> Import:
    """Write down that something is imported, in the caller's transaction: only there are births outside
    the initial status accepted. Raises RuntimeError outside a transaction."""
    if not connection.in_atomic_block:
        raise RuntimeError("an import is recorded in the transaction that imports")
    return Import.objects.create(
        source=source, source_digest=digest, at=clock.now(), actor=actor_key(actor), rows=rows
    )


@transaction.atomic
def create_imported(
    entity: Stateful,
    *,
    actor: Who,
    reason: str,
    import_row: Import,
    history: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Insert `entity` at its given status with audit entry 1, marked as imported, its history kept with it.

    `import_row` was recorded in this transaction. Raises UnknownStatusError, InvalidTransitionError (a row
    that is not new).
    """
    if entity.status not in entity.declared().states:
        why = f"{entity.status!r} is not a status of {entity.entity}"
        raise UnknownStatusError(entity.entity, entity.pk, "", entity.status, why)
    if entity.version != 1:
        raise InvalidTransitionError(entity.entity, entity.pk, "", entity.status, "it is not new")
    entity.save(force_insert=True)
    append_birth(
        [entity],
        actor=actor,
        reason=reason,
        metadata={
            "imported": True,
            "import": str(import_row.pk),
            "source": import_row.source,
            "history": list(history),
        },
    )
