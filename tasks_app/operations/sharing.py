"""Rows that wait, taken in shares: a seller with many of them delays only itself."""

from __future__ import annotations

from typing import TypeVar, cast

from django.db.models import Case, Count, Min, Model, QuerySet, When, Window
from django.db.models.functions import RowNumber

from tasks_app.operations.claims import shares

M = TypeVar("M", bound=Model)


def rows_in_shares(waiting: QuerySet[M], *, seller: str, since: str, limit: int) -> QuerySet[M]:
    """Of each seller, by the name of its column, what has waited for the longest, as much as is its share of
    `limit`. Where sellers are more than that, whose oldest is the oldest comes first."""
    sellers = waiting.order_by().values_list(seller).annotate(Count("pk"), oldest=Min(since))
    counts = {pk: count for pk, count, _ in sellers.order_by("oldest")}
    if not counts:
        return waiting.none()
    given = shares(counts, {}, limit=limit, batch=limit)
    most = Case(*(When(**{seller: pk}, then=number) for pk, number in given.items()), default=0)
    place = Window(RowNumber(), partition_by=seller, order_by=since)
    rows = waiting.annotate(place=place).filter(place__lte=most).order_by(since)
    return cast("QuerySet[M]", rows)
