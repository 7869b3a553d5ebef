"""What follows from a change of status in its own commit: told to the rooms that asked for it."""

from __future__ import annotations

from collections.abc import Callable

from tasks_app.lifecycle.models import Stateful

Listener = Callable[[Stateful, str, str], None]
_listeners: dict[str, list[Listener]] = {}


def on_moved(entity: str, listener: Listener) -> None:
    """Call `listener(row, reason, actor key)` in the commit that moves one of `entity` to another status,
    once it has; it writes rows only."""
    known = _listeners.setdefault(entity, [])
    if listener not in known:
        known.append(listener)


def is_heard(entity: str) -> bool:
    """Whether somebody is told of moves of `entity`."""
    return bool(_listeners.get(entity))


def tell_moved(row: Stateful, reason: str, actor: str) -> None:
    """Tell the listeners."""
    for listener in _listeners.get(row.entity, ()):
        listener(row, reason, actor)
