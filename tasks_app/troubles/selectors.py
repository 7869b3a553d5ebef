"""Reading rows that were put back."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.db.models import Exists, OuterRef, Q, QuerySet

from tasks_app.desk.explain import explained_entities
from tasks_app.desk.search import Hit, hits_of, rows_of
from tasks_app.lifecycle.names import EntityName, link_to, namer_register
from tasks_app.people.models import User
from tasks_app.troubles.models import ENTITY, RowTrouble
from tasks_app.troubles.works import entity_worked_on, works_on


def register() -> None:
    """Called when the application starts."""
    namer_register(ENTITY, _names)


def troubles_of(viewer: User) -> QuerySet[RowTrouble]:
    """What was put back of the rows that the viewer sees; what is of no kind with a scope (a batch of
    decisions) is for all who may see troubles at all."""
    rows = RowTrouble.objects.all()
    if viewer.is_superuser:
        return rows
    scoped = {entity: works for entity in explained_entities() if (works := works_on(entity))}
    seen = ~Q(work__in=[work for works in scoped.values() for work in works])
    for entity, works in scoped.items():
        # Looked up row by row: few were put back, and who sees a million deals has no list of them made.
        theirs = rows_of(entity, viewer).filter(pk=OuterRef("row")).values("pk")
        seen |= Q(Exists(theirs), work__in=works)
    return rows.filter(seen)


def trouble_row(trouble: RowTrouble, viewer: User) -> Hit | None:
    """The row itself, where it still exists, is of a kind that is explained, and the viewer sees it."""
    entity = entity_worked_on(trouble.work)
    if entity not in explained_entities():
        return None
    return next(hits_of(entity, rows_of(entity, viewer).filter(pk=trouble.row), "id"), None)


def trouble_words(work: str) -> str:
    """What could not be done, as people read it: "Approval expiry"."""
    return work.replace("_", " ").capitalize()


def _names(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    found = RowTrouble.objects.filter(pk__in=ids).values_list("pk", "work")
    return {pk: EntityName(reference=trouble_words(work), link=link_to(RowTrouble, pk)) for pk, work in found}
