"""Who set something off beside who asked for it: by starting or retrying its job, by sending it again.

They do not decide on it either. The storeys that let people do so name who did; the storeys whose rows follow
from others say which, so that what is open already is found when somebody sets it off again.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from tasks_app.people.actors import is_login

About = tuple[str, uuid.UUID | None]
# Of a subject: keys of who set it off, and further subjects whose setting off is its own.
Source = Callable[[str, uuid.UUID], Iterable[str | About]]
_sources: list[Source] = []
# Of subjects of a type: subjects of other types that are set off with them, the other way round.
Reach = Callable[[str, Collection[uuid.UUID]], Iterable[tuple[str, Collection[uuid.UUID]]]]
_reaches: list[Reach] = []


def set_off_register(source: Source) -> None:
    """Called by the storey that lets people set things off, when the application starts."""
    if source not in _sources:
        _sources.append(source)


def reach_register(reach: Reach) -> None:
    """Called by the storey whose rows follow from others, when the application starts."""
    if reach not in _reaches:
        _reaches.append(reach)


def set_off_by(subject_type: str, subject_id: uuid.UUID | None) -> set[str]:
    """The keys of the logins that set a subject off, at first or again."""
    keys: set[str] = set()
    seen: set[About] = set()
    left: list[About] = [(subject_type, subject_id)]
    while left:
        about = left.pop()
        kind, pk = about
        if pk is None or about in seen:
            continue
        seen.add(about)
        for told in (one for source in _sources for one in source(kind, pk)):
            if isinstance(told, str):
                keys.add(told)
            else:
                left.append(told)
    return {key for key in keys if is_login(key)}


def led_to(subject_type: str, subject_id: uuid.UUID) -> dict[str, set[uuid.UUID]]:
    """What is set off with a subject, itself included, by type."""
    found: dict[str, set[uuid.UUID]] = defaultdict(set)
    left: list[tuple[str, Collection[uuid.UUID]]] = [(subject_type, {subject_id})]
    while left:
        kind, ids = left.pop()
        new = {*ids} - found[kind]
        found[kind] |= new
        if new:
            left.extend(further for reach in _reaches for further in reach(kind, new))
    return {kind: ids for kind, ids in found.items() if ids}
