"""What waits on a person and is no approval: told by the rooms that own it, decided on its own page.

The queue shows both. A room above registers a source; it answers what the viewer may see of some kinds, the
most urgent first, and leaves out what an open approval asks about already.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime

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


# (viewer, kinds wanted, at most so many)
Source = Callable[[User, Collection[str], int], list[Waiting]]
_sources: list[tuple[dict[str, str], Source]] = []


def waiting_register(labels: dict[str, str], source: Source) -> None:
    """Let the owner of some kinds tell what of them waits; `labels`: kind to its name in the filter."""
    if (labels, source) not in _sources:
        _sources.append((labels, source))


def waiting_labels() -> dict[str, str]:
    """Kind to label, of every source."""
    return {kind: label for labels, _ in _sources for kind, label in labels.items()}


def waiting_for(viewer: User, *, kind: str = "", limit: int = 50) -> list[Waiting]:
    """What waits and the viewer may see, of one kind or of all; at most `limit` of each source."""
    found: list[Waiting] = []
    for labels, source in _sources:
        kinds = labels.keys() if not kind else labels.keys() & {kind}
        if kinds:
            found += source(viewer, kinds, limit)
    return found
