"""Finding commands by their key."""

from __future__ import annotations

from collections.abc import Iterator

from tasks_app.desk.search import Hit, Wanted, finder_register, hits_of, rows_of
from tasks_app.people.models import User


def register() -> None:
    """Called when the application starts."""
    finder_register(find)


def find(wanted: Wanted, viewer: User) -> Iterator[Hit]:
    """By the whole key."""
    yield from hits_of("command", rows_of("command", viewer).filter(key=wanted.text), "key")
