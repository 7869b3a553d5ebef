"""Sellers as people and tools name them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from django.db.models import Q

from tasks_app.assistant.tools.answer_text import plain
from tasks_app.assistant.tools.facts import Fact
from tasks_app.assistant.tools.objects import not_found, visible_rows
from tasks_app.people.models import User
from tasks_app.sellers.models import Seller

SELLER_FIELD = "Short name or name of the seller, such as norrland-digital."
_MOST = 500


def seller_names(user: User) -> Iterable[tuple[uuid.UUID, str, tuple[str, ...]]]:
    """Return id, short name and words of the newest 500 sellers that the user may see."""
    rows = visible_rows("seller", user).order_by("-pk").values_list("pk", "slug", "name")
    return [(pk, slug, (slug, name)) for pk, slug, name in rows[:_MOST]]


def seller_fact(seller: Seller) -> Fact:
    """Return a seller: its name in the table, its short name in JSON."""
    return Fact(seller.name, seller.slug)


def find_seller(user: User, named: str) -> Seller:
    """Return the seller with that short name or name. Raise ToolRefusedError if there is none."""
    wanted = plain(named)
    rows = visible_rows("seller", user).filter(Q(slug=wanted.lower()) | Q(name__iexact=wanted))
    seller: Seller | None = rows.order_by("pk").first()
    if seller is None:
        raise not_found("seller", named)
    return seller
