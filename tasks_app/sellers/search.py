"""Finding sellers, accounts and advertisers by name or by the seller's id for an account."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

from django.db.models import Q
from django.urls import reverse

from tasks_app.desk.search import MOST, Hit, Wanted, finder_register, hit_of, hits_of, rows_of
from tasks_app.people.models import Advertiser, User
from tasks_app.people.scope import visible


def register() -> None:
    """Called when the application starts."""
    finder_register(sellers_find)
    finder_register(accounts_find)
    finder_register(advertisers_find)


def sellers_find(wanted: Wanted, viewer: User) -> Iterator[Hit]:
    """By the short name, whole, or the beginning of the name."""
    named = Q(slug=wanted.text.lower()) | Q(name__istartswith=wanted.text)
    for seller in rows_of("seller", viewer).filter(named)[:MOST]:
        exact = wanted.text.lower() in (seller.slug, seller.name.lower())
        yield hit_of("seller", seller, "name", exact=exact)


def accounts_find(wanted: Wanted, viewer: User) -> Iterator[Hit]:
    """By the seller's id for it (AdCP's account_id)."""
    rows = rows_of("account", viewer).filter(reference__account_id=wanted.text)
    yield from hits_of("account", rows, "account_id")


def advertisers_find(wanted: Wanted, viewer: User) -> Iterator[Hit]:
    """By the beginning of the name; they lead to their campaigns."""
    if not viewer.has_perm("campaigns.view_campaign"):
        return
    named = visible(Advertiser.objects.order_by(), viewer).filter(name__istartswith=wanted.text)
    campaigns = reverse("admin:campaigns_campaign_changelist")
    for one in named[:MOST]:
        yield Hit(
            kind="advertiser",
            label="Advertiser",
            id=str(one.pk),
            reference="",
            title=one.name,
            matched="name",
            link=f"{campaigns}?{urlencode({'q': one.name})}",
            exact=one.name.lower() == wanted.text.lower(),
        )
