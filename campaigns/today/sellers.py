"""How sellers do: of each the latest settled operations, and what is open now; in three queries."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from typing import Any

from django.db.models import Count, Q, QuerySet

from campaigns.track import middle
from tasks_app import clock
from tasks_app.lifecycle.names import link_to
from tasks_app.operations.answer_stages import answer_awaited
from tasks_app.operations.models import READS, Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.people.models import User
from tasks_app.people.scope import visible
from tasks_app.sellers.models import Seller

_MONTH = timedelta(days=30)
_SHOWN, _LATEST, _DRAWN = 8, 100, 12
_ASKED = 200  # sellers looked at


@dataclass(frozen=True, kw_only=True)
class Settled:
    """One settled operation."""

    seller: uuid.UUID
    task: str
    status: str
    sent_at: datetime | None
    settled_at: datetime

    @property
    def bought(self) -> float | None:
        """Seconds from sending to its end, of a purchase that was confirmed."""
        if self.task != "create_media_buy" or self.status != O.COMPLETED or self.sent_at is None:
            return None
        return (self.settled_at - self.sent_at).total_seconds()


@dataclass(frozen=True, kw_only=True)
class SellerLine:
    """One seller: share of its latest 100 operations of a month that succeeded, in percent; median time to
    confirm a purchase; the latest such times in seconds, oldest first."""

    name: str
    link: str
    glyph: str
    word: str
    success: float | None
    answer: timedelta | None
    latest: tuple[float, ...]


def sellers_shown(who: User) -> tuple[list[SellerLine], list[Settled]]:
    """Those with the most trouble first, then the most that is open; and what their figures are of."""
    sellers = dict(Seller.objects.filter(active=True).order_by("name").values_list("pk", "name")[:_ASKED])
    trouble = _open(who)
    ranked = sorted(sellers, key=lambda pk: _rank(trouble.get(pk, {}), sellers[pk]))[:_SHOWN]
    settled = _settled(who, ranked)
    of_each: dict[uuid.UUID, list[Settled]] = {pk: [] for pk in ranked}
    for one in settled:
        of_each[one.seller].append(one)
    found = [_line(pk, sellers[pk], trouble.get(pk, {}), of_each[pk]) for pk in ranked]
    return found, settled


def _rank(trouble: Mapping[str, int], name: str) -> tuple[Any, ...]:
    return -trouble.get("refused", 0), -trouble.get("overdue", 0), -trouble.get("out", 0), name


def _open(who: User) -> dict[uuid.UUID, dict[str, int]]:
    rows = visible(Operation.objects.filter(settled_at__isnull=True), who).order_by().values("seller_id")
    counted = rows.annotate(
        out=Count("pk"),
        overdue=Count("pk", filter=Q(status=O.TIMED_OUT) & ~Q(task_type__in=READS)),
        refused=Count("pk", filter=Q(status=O.AUTH_REQUIRED) & ~Q(answer_awaited())),
    )
    return {row["seller_id"]: {name: row[name] for name in ("out", "overdue", "refused")} for row in counted}


def _settled(who: User, sellers: Sequence[uuid.UUID]) -> list[Settled]:
    """The latest of each seller, oldest first: one query, a limit for each, so that a busy one hides none."""
    if not sellers:
        return []
    since = clock.now() - _MONTH
    each = [
        visible(Operation.objects.filter(seller=pk, settled_at__gte=since), who)
        .order_by("-settled_at")
        .values_list("seller_id", "task_type", "status", "sent_at", "settled_at")[:_LATEST]
        for pk in sellers
    ]
    rows: QuerySet[Any, Any] = reduce(lambda before, more: before.union(more, all=True), each)
    found = [
        Settled(seller=pk, task=task, status=status, sent_at=sent, settled_at=end)
        for pk, task, status, sent, end in rows
    ]
    return sorted(found, key=lambda one: one.settled_at)


def _line(pk: uuid.UUID, name: str, trouble: Mapping[str, int], settled: Sequence[Settled]) -> SellerLine:
    times = [took for one in settled if (took := one.bought) is not None]
    good = sum(one.status == O.COMPLETED for one in settled)
    glyph, word = _face(trouble, len(settled), good)
    return SellerLine(
        name=name,
        link=link_to(Seller, pk),
        glyph=glyph,
        word=word,
        success=100 * good / len(settled) if settled else None,
        answer=middle([timedelta(seconds=took) for took in times]),
        latest=tuple(times[-_DRAWN:]),
    )


def _face(trouble: Mapping[str, int], settled: int, good: int) -> tuple[str, str]:
    if trouble.get("refused"):
        return "person", "Authorisation required"
    if trouble.get("overdue"):
        return "overdue", f"{trouble['overdue']} overdue"
    if not settled:
        return ("seller", "No answer yet") if trouble.get("out") else ("waiting", "Not asked yet")
    return ("done", "Answers") if good else ("failed", "Nothing succeeded")
