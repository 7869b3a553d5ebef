"""Reading sellers: how they answered, from real operations, and what they told us lately."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Aggregate, Count, DurationField, ExpressionWrapper, F, Q, QuerySet

from tasks_app.ids import first_id_at
from tasks_app.people.models import User
from tasks_app.people.scope import visible
from tasks_app.sellers.health import Breaker, breakers_of
from tasks_app.sellers.models import Account, Seller, SellerBreaker


class Percentile(Aggregate):
    """PostgreSQL's percentile_cont over the rows of a group."""

    function = "percentile_cont"
    template = "%(function)s(%(fraction)s) WITHIN GROUP (ORDER BY %(expressions)s)"

    def __init__(self, expression: Any, *, fraction: float, **extra: Any) -> None:
        super().__init__(expression, fraction=fraction, **extra)


@dataclass(frozen=True, kw_only=True)
class AnswerTimes:
    """How one seller answered one task: settled operations, time from sending to settling, share completed
    and share settled by webhook, both in percent."""

    seller_id: uuid.UUID
    seller: str
    task: str
    count: int
    median: timedelta
    ninetieth: timedelta
    success: int
    by_webhook: int


def answer_times(operations: QuerySet[Any], *, since: datetime, by_task: bool = False) -> list[AnswerTimes]:
    """Answer times of `operations` settled since then, by seller (and task)."""
    took = ExpressionWrapper(F("settled_at") - F("sent_at"), output_field=DurationField())
    group = ["seller_id", "seller__name", *(["task_type"] if by_task else [])]
    found = (
        operations.filter(
            pk__gte=first_id_at(since - timedelta(days=3)), settled_at__gte=since, sent_at__isnull=False
        )
        .order_by()
        .values(*group)
        .annotate(
            count=Count("pk"),
            median=Percentile(took, fraction=0.5, output_field=DurationField()),
            ninetieth=Percentile(took, fraction=0.9, output_field=DurationField()),
            completed=Count("pk", filter=Q(status="completed")),
            hooked=Count("pk", filter=Q(settled_by="webhook")),
        )
        .order_by(*group[1:])
    )
    return [
        AnswerTimes(
            seller_id=row["seller_id"],
            seller=row["seller__name"],
            task=row.get("task_type", ""),
            count=row["count"],
            median=row["median"],
            ninetieth=row["ninetieth"],
            success=round(100 * row["completed"] / row["count"]),
            by_webhook=round(100 * row["hooked"] / row["count"]),
        )
        for row in found
    ]


def accounts_of(seller: Seller, viewer: User) -> list[Account]:
    """The accounts of the viewer's advertisers with a seller."""
    rows = visible(seller.accounts.all(), viewer, team="advertiser__team")
    return list(rows.select_related("advertiser").order_by("advertiser__name"))


DeliveriesReader = Callable[[User], QuerySet[Any]]
_deliveries: list[DeliveriesReader] = []


def deliveries_register(reader: DeliveriesReader) -> None:
    """Called by the room that keeps webhook deliveries, when the application starts: which a person sees."""
    _deliveries[:] = [reader]


def recent_deliveries(seller: Seller, viewer: User, *, limit: int = 12) -> list[Any]:
    """The latest webhook deliveries that the viewer sees, newest first, without their bodies."""
    if not _deliveries:
        return []
    return list(_deliveries[0](viewer).filter(seller=seller).defer("body").order_by("-id")[:limit])


def seller_names(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Id to name."""
    return dict(Seller.objects.filter(pk__in=set(ids)).values_list("pk", "name"))


def seller_breaker(seller: Seller) -> Breaker:
    """The circuit breaker of a seller as it stands."""
    return breakers_of([seller]).get(seller.pk, Breaker(state=SellerBreaker.State.CLOSED))
