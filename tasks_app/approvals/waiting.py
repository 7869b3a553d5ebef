"""What waits on a person and is no approval: told by the rooms that own it, decided on its own page.

The queue shows both, and so do its badge, its CSV and Today, all through here. A room above registers a
source; it answers what the viewer may see of some kinds, the most urgent first, and leaves out what an open
approval asks about already.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from tasks_app.people.models import User


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """One thing that waits on a person. `link`: where it is decided; `mine`: the viewer may do so;
    `caught`: the rule that stopped it, and `who` decides; `due_at`: None without a deadline; `answers`:
    (what a person can do, what that does); `subject`: (type, id) of what it is about, for campaign and money.
    """

    kind: str
    label: str
    reference: str
    title: str
    link: str
    glyph: str
    seller: str
    caught: str
    who: str
    since: datetime
    due_at: datetime | None = None
    mine: bool = False
    note: str = ""
    answers: tuple[tuple[str, str], ...] = ()
    subject: tuple[str, uuid.UUID] | None = None


def waiting_order(one: Waiting) -> tuple[bool, datetime]:
    """The earliest deadline first; what has none last, by its age."""
    return one.due_at is None, one.due_at or one.since


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is wanted of what waits: of some kinds, only what the viewer may act on (`mine`), only what is
    past its deadline (`late`)."""

    kinds: Collection[str]
    mine: bool
    late: bool


@dataclass(frozen=True, kw_only=True)
class Source:
    """What waits in one room; `labels`: kind to its name in the filter. `rows`: those asked for, the most
    urgent first; `tell`: what a person reads of some of them."""

    labels: Mapping[str, str]
    rows: Callable[[User, Asked], QuerySet[Any]]
    tell: Callable[[User, Sequence[Any]], list[Waiting]]


_sources: list[Source] = []


def waiting_register(source: Source) -> None:
    """Let the owner of some kinds tell what of them waits."""
    if source not in _sources:
        _sources.append(source)


def waiting_labels() -> dict[str, str]:
    """Kind to label, of every source."""
    return {kind: label for source in _sources for kind, label in source.labels.items()}


def waiting_for(
    viewer: User, *, limit: int = 50, kind: str = "", mine: bool = False, late: bool = False
) -> list[Waiting]:
    """What waits and the viewer may see, of one kind or of all; at most `limit` of each source, the most
    urgent."""
    found: list[Waiting] = []
    for source in _sources:
        kinds = source.labels.keys() if not kind else source.labels.keys() & {kind}
        if kinds:
            rows = source.rows(viewer, Asked(kinds=kinds, mine=mine, late=late))
            found += source.tell(viewer, list(rows[:limit]))
    return found


def waiting_counted(viewer: User) -> list[QuerySet[Any]]:
    """What waits on the viewer beside approvals, as rows to be counted: the same that `waiting_for` tells."""
    return [
        source.rows(viewer, Asked(kinds=source.labels.keys(), mine=True, late=False)) for source in _sources
    ]
