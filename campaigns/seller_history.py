"""How a seller did for us so far: orders, what became of them, value, disputes, how soon it answers.

Of the latest orders only, so that a seller of a hundred thousand deals costs no more than a new one.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta

from django.db.models import F, Q, Sum
from django.db.models.functions import Coalesce

from campaigns.track import middle
from orders.models import CONFIRMED, Deal, DealLine, DealStatus
from tasks_app.desk import text
from tasks_app.operations.models import Operation
from tasks_app.operations.selectors import conflicts_of
from tasks_app.people.models import User
from tasks_app.people.scope import visible

_LATEST = 200  # orders, purchases and contradictions looked at
_UNBOUGHT = (DealStatus.QUOTED, DealStatus.NEGOTIATING, DealStatus.ACCEPTED)
_LOST = (DealStatus.FAILED, DealStatus.CANCELLED)


def seller_history(
    viewer: User, seller: uuid.UUID, *, without: uuid.UUID, answers: Sequence[timedelta]
) -> tuple[tuple[str, str], ...]:
    """(label, words) about the seller's latest orders, one deal left out; in five queries at most."""
    rows = visible(Deal.objects.filter(seller=seller), viewer).exclude(pk=without)
    rows = rows.exclude(status__in=_UNBOUGHT).order_by("-pk")
    before = list(rows.values_list("pk", "status", "differences", "confirmed_at")[:_LATEST])
    if not before:
        return (("Deals before", "none, this would be the first"),)
    booked = [(pk, found) for pk, status, found, _ in before if status in CONFIRMED]
    differing = sum(bool(found) for _, found in booked)
    lost = sum(status in _LOST for _, status, _, _ in before)
    since = min((at for *_, at in before if at is not None), default=None)
    as_approved = f"{len(booked) - differing} of {len(booked)} booked" if booked else "none booked yet"
    return (
        ("Orders", f"the latest {_LATEST}" if len(before) == _LATEST else str(len(before))),
        ("Booked as approved", as_approved + (f" since {text.day(since)}" if since else "")),
        ("Booked differently", str(differing) if differing else "none"),
        ("Failed or cancelled", str(lost) if lost else "none"),
        ("Disputes", _disputes(viewer, seller)),
        ("Answered in time", _in_time(viewer, seller)),
        ("Time to confirm", _times(answers)),
        ("Value confirmed", _value([pk for pk, _ in booked])),
    )


def _disputes(viewer: User, seller: uuid.UUID) -> str:
    rows = conflicts_of(viewer).filter(operation__seller=seller).order_by("-pk")
    found = list(rows.values_list("resolved_at", flat=True)[:_LATEST])
    still = sum(ended is None for ended in found)
    if not found:
        return "none"
    many = f"{len(found)}+" if len(found) == _LATEST else str(len(found))
    return f"{many}, {still} still open" if still else f"{many}, all resolved"


def _in_time(viewer: User, seller: uuid.UUID) -> str:
    bought = visible(Operation.objects.filter(seller=seller, task_type="create_media_buy"), viewer)
    ended = bought.filter(Q(settled_at__isnull=False) | Q(overdue_at__isnull=False)).order_by("-pk")
    found = list(ended.values_list("overdue_at", flat=True)[:_LATEST])
    if not found:
        return "no purchase answered yet"
    return f"{sum(at is None for at in found)} of {len(found)} purchases"


def _times(answers: Sequence[timedelta]) -> str:
    usual = middle(answers)
    if usual is None:
        return "no purchase confirmed yet"
    ranked = sorted(answers)
    most = ranked[min(len(ranked) - 1, round(0.9 * (len(ranked) - 1)))]
    many = f", nine in ten within {text.duration(most)}" if len(ranked) >= 10 else f", of {len(ranked)}"
    return f"median {text.duration(usual)}{many}"


def _value(deals: Sequence[uuid.UUID]) -> str:
    if not deals:
        return "nothing"
    lines = DealLine.objects.filter(deal__in=deals).order_by().values_list("deal__currency")
    totals = text.amounts(lines.annotate(gross=Sum(Coalesce(F("confirmed_budget"), F("budget")))))
    return ", ".join(f"{currency} {text.amount(total, currency)}" for currency, total in totals)
