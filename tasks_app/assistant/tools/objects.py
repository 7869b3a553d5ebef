"""Objects that answers name: found within the user's scope, and linked to their pages."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Q, QuerySet

from tasks_app.assistant.tools.answer_text import plain, quoted_name
from tasks_app.assistant.tools.registry import Link, ToolRefusedError
from tasks_app.desk.explain import explainer_of
from tasks_app.lifecycle.names import EntityName, names_of
from tasks_app.people.models import User


def visible_rows(kind: str, user: User) -> QuerySet[Any]:
    """Return the rows of a kind that the user may see; none without the right to view them."""
    explainer = explainer_of(kind)
    rows = explainer.rows(user)
    return rows if user.has_perm(explainer.right) else rows.none()


def find_by_reference(kind: str, named: str, rows: QuerySet[Any]) -> Any:
    """Return the row that a reference or an id names.

    Args:
        kind: The kind of the rows, for the refusal.
        named: A reference, in either case, or an id.
        rows: The rows that the user may see.

    Raises:
        ToolRefusedError: The user may see no such row.
    """
    row = rows.filter(_is_named(plain(named))).first()
    if row is None:
        raise not_found(kind, named)
    return row


def not_found(kind: str, named: str) -> ToolRefusedError:
    """Return the refusal for a name that fits nothing the user may see."""
    label = explainer_of(kind).label.lower()
    return ToolRefusedError(f"There is no {label} {quoted_name(named)} among what you may see.")


def visible_names(kind: str, ids: Iterable[uuid.UUID], user: User) -> dict[uuid.UUID, EntityName]:
    """Return the names of those rows that the user may see, by id."""
    seen = visible_rows(kind, user).order_by().filter(pk__in=set(ids))
    return names_of(kind, seen.values_list("pk", flat=True))


def links_to(kind: str, rows: Iterable[Any], user: User) -> list[Link]:
    """Return one link to each of these rows; none without the right to view the kind."""
    explainer = explainer_of(kind)
    if not user.has_perm(explainer.right):
        return []
    found = {row.pk: row for row in rows}
    return [Link(kind=kind, id=pk, label=str(row), url=explainer.link(row)) for pk, row in found.items()]


def links_by_name(kind: str, names: Mapping[uuid.UUID, EntityName]) -> list[Link]:
    """Return a link to each of these, labelled with its reference."""
    return [Link(kind=kind, id=pk, label=name.reference, url=name.link) for pk, name in names.items()]


def _is_named(named: str) -> Q:
    try:
        return Q(pk=uuid.UUID(named))
    except ValueError:
        return Q(reference=named.upper())
