"""Finding campaigns by the beginning of their name."""

from __future__ import annotations

from collections.abc import Iterator

from tasks_app.desk.search import MOST, Hit, Wanted, finder_register, hit_of, rows_of
from tasks_app.people.models import User


def register() -> None:
    """Called when the application starts."""
    finder_register(find)


def find(wanted: Wanted, viewer: User) -> Iterator[Hit]:
    """By the beginning of the name, in either case."""
    for campaign in rows_of("campaign", viewer).filter(name__istartswith=wanted.text)[:MOST]:
        exact = campaign.name.lower() == wanted.text.lower()
        yield hit_of("campaign", campaign, "name", exact=exact)
