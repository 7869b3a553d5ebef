"""What deals commit, with what changes on their way bring: those that people let go and sellers have not
answered, or of which nobody knows yet whether they made them.

The one place for that: a campaign's sums, its ceiling and its room, and the orders beside one ask it.
"""

from __future__ import annotations

import uuid
from decimal import Decimal

from django.db.models import Exists, OuterRef, Q, QuerySet, Sum

from orders.amounts import COMMITTED, amount_after, deal_amounts, gross
from orders.doubt import changes_on_their_way, unsure
from orders.models import LIVE, Deal
from tasks_app.operations.models import Operation

_NOTHING = Decimal(0)


def coming_by(deals: QuerySet[Deal]) -> dict[uuid.UUID, Decimal]:
    """How much more than they commit now those deals come to by changes on their way; others are left out."""
    open_ones = Operation.objects.filter(
        subject_type="deal",
        subject_id=OuterRef("pk"),
        task_type="update_media_buy",
        published_at__isnull=True,
    )
    moving = deals.filter(Q(Exists(open_ones)) | unsure(), status__in=LIVE)
    rows = moving.order_by().prefetch_related("lines")
    return {deal.pk: more for deal in rows if (more := _coming(deal))}


def committed_beside(deal: Deal) -> Decimal:
    """What the other deals of the same campaign commit, in its currency."""
    others = Deal.objects.filter(campaign_id=deal.campaign_id, currency=deal.currency, status__in=COMMITTED)
    return taken_by(others.exclude(pk=deal.pk))


def taken_by(deals: QuerySet[Deal]) -> Decimal:
    """What deals of one currency come to together, with what is on its way; as put forward where nobody has
    decided."""
    found = deals.annotate(gross=gross()).aggregate(total=Sum("gross"))
    return (found["total"] or _NOTHING) + sum(coming_by(deals).values(), _NOTHING)


def _coming(deal: Deal) -> Decimal:
    changes = changes_on_their_way(deal)
    return amount_after(deal, *changes, {}) - deal_amounts(deal).committed if changes else _NOTHING
