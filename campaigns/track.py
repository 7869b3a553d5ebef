"""How sellers do, out of real operations: how often they succeed, how long they take, what is wrong now."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from django.db.models import Count, Q
from django.urls import reverse

from tasks_app import clock
from tasks_app.operations.models import READS, SETTLED, Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.people.models import User
from tasks_app.people.scope import visible
from tasks_app.sellers.models import Seller

_MONTH = timedelta(days=30)
_ANSWERS, _DRAWN = 500, 12


@dataclass(frozen=True, kw_only=True)
class SellerLine:
    """One seller: success of the last 30 days in percent, median time to settle a purchase, last answers."""

    name: str
    link: str
    glyph: str
    word: str
    settled: int
    success: float | None
    answer: timedelta | None
    latest: tuple[float, ...]


def seller_lines(viewer: User) -> list[SellerLine]:
    """Every active seller as the viewer's teams know it, in two queries."""
    sellers = list(Seller.objects.filter(active=True).values_list("pk", "name"))
    counts = _counts(viewer)
    answers = answer_times(viewer, [pk for pk, _ in sellers])
    return [_line(pk, name, counts.get(pk, {}), answers.get(pk, [])) for pk, name in sellers]


def answer_times(viewer: User, sellers: Collection[uuid.UUID]) -> dict[uuid.UUID, list[timedelta]]:
    """Seller id to how long the latest purchases took from sending to completion, oldest first."""
    settled = visible(Operation.objects.all(), viewer).filter(
        seller__in=sellers,
        status=O.COMPLETED,
        task_type="create_media_buy",
        sent_at__isnull=False,
        settled_at__isnull=False,
    )
    rows = settled.order_by("-settled_at").values_list("seller_id", "sent_at", "settled_at")[:_ANSWERS]
    found: dict[uuid.UUID, list[timedelta]] = {}
    for seller, sent, end in reversed(rows):
        if sent is not None and end is not None:
            found.setdefault(seller, []).append(end - sent)
    return found


def middle(spans: Sequence[timedelta]) -> timedelta | None:
    """The median, None of nothing."""
    return timedelta(seconds=median(span.total_seconds() for span in spans)) if spans else None


def _counts(viewer: User) -> dict[uuid.UUID, dict[str, int]]:
    recent = visible(Operation.objects.all(), viewer).filter(created_at__gte=clock.now() - _MONTH)
    rows = (
        recent.order_by()
        .values("seller_id")
        .annotate(
            asked=Count("pk"),
            settled=Count("pk", filter=Q(status__in=SETTLED)),
            succeeded=Count("pk", filter=Q(status=O.COMPLETED)),
            overdue=Count("pk", filter=Q(status=O.TIMED_OUT) & ~Q(task_type__in=READS)),
            refused=Count("pk", filter=Q(status=O.AUTH_REQUIRED)),
        )
    )
    return {row["seller_id"]: {k: v for k, v in row.items() if isinstance(v, int)} for row in rows}


def _line(pk: uuid.UUID, name: str, counts: dict[str, int], answers: list[timedelta]) -> SellerLine:
    settled = counts.get("settled", 0)
    glyph, word = _face(counts)
    return SellerLine(
        name=name,
        link=reverse("admin:tasks_app_seller_change", args=[pk]),
        glyph=glyph,
        word=word,
        settled=settled,
        success=100 * counts["succeeded"] / settled if settled else None,
        answer=middle(answers),
        latest=tuple(one.total_seconds() for one in answers[-_DRAWN:]),
    )


def _face(counts: dict[str, int]) -> tuple[str, str]:
    if counts.get("refused"):
        return "person", "Authorisation required"
    if counts.get("overdue"):
        return "overdue", f"{counts['overdue']} overdue"
    if not counts.get("settled"):
        return ("seller", "No answer yet") if counts.get("asked") else ("waiting", "Not asked yet")
    return ("done", "Answers") if counts["succeeded"] else ("failed", "Nothing succeeded")
