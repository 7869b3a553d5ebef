"""Global search: by any id that a seller or a colleague may quote, and by the beginning of a name.

Every look-up is an exact or a prefix match on an index, within what the viewer sees. References and ids are
found for all that can be explained; the rooms register finders for the other names of what they own.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db.models import QuerySet

from tasks_app.desk.explain import explainer_of, explainers, identified
from tasks_app.people.models import User
from tasks_app.storable import is_storable

SHORTEST, LONGEST = 2, 200
MOST = 8  # hits of one finder
_INDIRECT = ("advertiser", "product")  # names of something else than what is found
# A beginning of a reference that leaves at most two digits open: few rows, however many there are in all.
_REFERENCE = re.compile(r"([A-Za-z]{2,5})-\d{4}-\d{4,12}")


class SearchRefusedError(ValueError):
    """What was asked for is too short, too long, or no text."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is looked for: the text as typed, without blanks around it, and the id that it spells, if any."""

    text: str
    id: uuid.UUID | None


@dataclass(frozen=True, kw_only=True)
class Hit:
    """One thing found. `matched`: by which of its names; `exact`: by the whole of it."""

    kind: str
    label: str
    id: str
    reference: str
    title: str
    matched: str
    link: str
    exact: bool


Finder = Callable[[Wanted, User], Iterable[Hit]]
_finders: list[Finder] = []


def finder_register(finder: Finder) -> None:
    """Let `finder` look too."""
    if finder not in _finders:
        _finders.append(finder)


def search(text: str, viewer: User) -> list[Hit]:
    """What the viewer may see of that name, exact matches first, each once. Raises SearchRefusedError."""
    wanted = _wanted(text)
    found: dict[tuple[str, str], Hit] = {}
    for finder in (_by_id, _by_reference, *_finders):
        for hit in islice(finder(wanted, viewer), MOST):
            known = found.get((hit.kind, hit.id))
            if known is None or (hit.exact and not known.exact):
                found[hit.kind, hit.id] = hit
    return sorted(
        found.values(), key=lambda hit: (not hit.exact, hit.matched in _INDIRECT, hit.label, hit.title)
    )


def single(hits: list[Hit]) -> Hit | None:
    """The one thing that was named whole; None where there is none, or more than one."""
    exact = [hit for hit in hits if hit.exact]
    return exact[0] if len(exact) == 1 else None


def rows_of(entity: str, viewer: User) -> QuerySet[Any]:
    """The rows of a kind that the viewer sees, none without the right to."""
    explainer = explainer_of(entity)
    rows = explainer.rows(viewer).order_by()
    return rows if viewer.has_perm(explainer.right) else rows.none()


def hits_of(entity: str, rows: QuerySet[Any], matched: str, *, exact: bool = True) -> Iterator[Hit]:
    """Hits of rows from `rows_of`. Most look-ups find nothing: only of those found is the whole row read."""
    found = list(rows.values_list("pk", flat=True)[:MOST])
    for row in rows.filter(pk__in=found) if found else ():
        yield hit_of(entity, row, matched, exact=exact)


def hit_of(entity: str, row: Any, matched: str, *, exact: bool = True) -> Hit:
    """The hit of one row of a kind that can be explained."""
    explainer = explainer_of(entity)
    return Hit(
        kind=entity,
        label=explainer.label,
        id=str(row.pk),
        reference=str(row.reference) if explainer.prefix else "",
        title=explainer.title(row),
        matched=matched,
        link=explainer.link(row),
        exact=exact,
    )


def _wanted(text: str) -> Wanted:
    said = text.strip()
    if not SHORTEST <= len(said) <= LONGEST:
        raise SearchRefusedError(f"Give between {SHORTEST} and {LONGEST} characters of an id or a name.")
    if not is_storable(said):
        raise SearchRefusedError("This is no text.")
    try:
        return Wanted(text=said, id=uuid.UUID(said))
    except ValueError:
        return Wanted(text=said, id=None)


def _by_id(wanted: Wanted, viewer: User) -> Iterator[Hit]:
    if wanted.id is not None:
        for entity, row in identified(wanted.id, viewer):
            yield hit_of(entity, row, "id")


def _by_reference(wanted: Wanted, viewer: User) -> Iterator[Hit]:
    matched = _REFERENCE.fullmatch(wanted.text)
    if matched is None:
        return
    reference = wanted.text.upper()
    for entity, explainer in explainers():
        if explainer.prefix == matched[1].upper():
            for row in rows_of(entity, viewer).filter(reference__startswith=reference)[:MOST]:
                yield hit_of(entity, row, "reference", exact=row.reference == reference)
