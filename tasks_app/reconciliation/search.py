"""Finding what the reconciliation found, by the seller's id for it."""

from __future__ import annotations

from collections.abc import Iterator

from tasks_app.desk.search import Hit, Wanted, finder_register, hits_of, rows_of
from tasks_app.people.models import User
from tasks_app.reconciliation.findings import id_digest
from tasks_app.sellers.models import Seller


def register() -> None:
    """Called when the application starts."""
    finder_register(find)


def find(wanted: Wanted, viewer: User) -> Iterator[Hit]:
    """By the seller's whole id."""
    # The index is (seller, kind, digest): with both named it answers at once.
    rows = rows_of("finding", viewer).filter(
        seller__in=Seller.objects.order_by().values("pk"),
        kind__in=("task", "media_buy"),
        digest=id_digest(wanted.text),
    )
    yield from hits_of("finding", rows, "the seller’s id")
