"""Finding operations, and contradictions about them, by the names that sellers and colleagues use."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Q

from tasks_app.desk.search import Hit, Wanted, finder_register, hits_of, rows_of
from tasks_app.people.models import User
from tasks_app.sellers.models import Seller

KEY_SHOWN = 8  # characters of an idempotency key that people may see, and search by


def register() -> None:
    """Called when the application starts."""
    finder_register(find)


def find(wanted: Wanted, viewer: User) -> Iterator[Hit]:
    """By the seller's task_id and context_id, A2A's task and context ids, the purchase-order number, or an
    idempotency key, of which only the beginning is compared."""
    rows, text = rows_of("operation", viewer), wanted.text
    # The unique index begins with the seller: with all of them named it answers at once.
    of_sellers = rows.filter(seller__in=Seller.objects.order_by().values("pk")).exclude(task_id="")
    yield from hits_of("operation", of_sellers.filter(task_id=text), "task_id")
    named = Q(a2a_task_id=text) & ~Q(a2a_task_id="")
    yield from hits_of("operation", rows.filter(named), "A2A task id")
    talked = Q(a2a_context_id=text) & ~Q(a2a_context_id="")
    yield from hits_of("operation", rows.filter(talked), "A2A context id")
    in_context = Q(context_id=text) & ~Q(context_id="")
    yield from hits_of("operation", rows.filter(in_context), "context id")
    ordered = rows.filter(task_type="create_media_buy", request__po_number=text)
    yield from hits_of("operation", ordered, "po_number")
    if len(text) >= KEY_SHOWN:
        keyed = rows.filter(idempotency_key__startswith=text[:KEY_SHOWN])
        yield from hits_of("operation", keyed, f"idempotency key {text[:KEY_SHOWN]}…")
