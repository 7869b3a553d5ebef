"""Finding campaigns by the beginning of their name."""

from __future__ import annotations

from collections.abc import Iterator

from campaigns.acts import may_submit
from tasks_app.desk.page_search import PageAction, page_action_register
from tasks_app.desk.search import MOST, Hit, Wanted, finder_register, hit_of, rows_of
from tasks_app.people.models import User


def register() -> None:
    """Called when the application starts."""
    finder_register(find)
    page_action_register(PageAction(title="New campaign", address="admin:campaign_submit", may=may_submit))


def find(wanted: Wanted, viewer: User) -> Iterator[Hit]:
    """By the beginning of the name, in either case."""
    for campaign in rows_of("campaign", viewer).filter(name__istartswith=wanted.text)[:MOST]:
        exact = campaign.name.lower() == wanted.text.lower()
        yield hit_of("campaign", campaign, "name", exact=exact)
