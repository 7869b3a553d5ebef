"""How a seller did for us so far: orders, what became of them, value, disputes, how soon it answers.

Of the latest orders only, so that a seller of a hundred thousand deals costs no more than a new one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import timedelta
from decimal import Decimal

from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q

from campaigns.track import Purchase, middle
from orders.amounts import confirmed
from orders.models import CONFIRMED, Deal, DealStatus
from orders.questions import DIFFERENT
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.desk import text
from tasks_app.desk.items import plural
from tasks_app.operations.models import Operation
from tasks_app.operations.selectors import conflicts_of
from tasks_app.people.models import User
from tasks_app.people.scope import visible

_LATEST = 200  # orders, purchases and contradictions looked at
_UNBOUGHT = (DealStatus.QUOTED, DealStatus.NEGOTIATING, DealStatus.ACCEPTED)
# What people rejected, withdrew or let expire was never ordered, and says nothing of its seller.
_SENT = Exists(
    Operation.objects.filter(
        subject_type="deal", subject_id=OuterRef("pk"), task_type="create_media_buy", sent_at__isnull=False
    )
)
# Each difference is put to people, and so is a media buy that was adopted.
_DECIDED = (ApprovalStatus.OPEN, ApprovalStatus.APPROVED, ApprovalStatus.REJECTED)
_BOOKED_DIFFERENTLY = ExpressionWrapper(
    Exists(
        Approval.objects.filter(
            kind=DIFFERENT, subject_type="deal", subject_id=OuterRef("pk"), status__in=_DECIDED
        )
    )
    & ~Q(reasons__has_key="adopted"),
    output_field=BooleanField(),
)
_ORDERED = Q(status__in=CONFIRMED) | Q(confirmed_at__isnull=False) | _SENT


def seller_history(
    viewer: User, seller: uuid.UUID, *, without: uuid.UUID, bought: Sequence[Purchase]
) -> tuple[tuple[str, str], ...]:
    """(label, words) about the seller's latest orders, one deal left out; in two queries. `bought`: its
    latest purchases, oldest first."""
    rows = visible(Deal.objects.filter(seller=seller), viewer).exclude(pk=without)
    rows = rows.exclude(status__in=_UNBOUGHT).filter(_ORDERED).order_by("-pk")
    rows = rows.annotate(stated=confirmed(), asked=_BOOKED_DIFFERENTLY)
    told = ("status", "asked", "confirmed_at", "currency", "stated")
    before = list(rows.values_list(*told)[:_LATEST])
    if not before:
        return (("Deals before", "none, this would be the first"),)
    booked = [row for row in before if row[0] in CONFIRMED]
    differing = sum(asked for _, asked, *_ in booked)
    unstated = sum(row[-1] is None and not row[1] for row in booked)
    failed = sum(row[0] == DealStatus.FAILED for row in before)
    cancelled = sum(row[0] == DealStatus.CANCELLED for row in before)
    since = min((row[2] for row in before if row[2] is not None), default=None)
    well = len(booked) - differing - unstated
    as_approved = f"{well} of {len(booked)} booked" if booked else "none booked yet"
    return (
        ("Orders", f"the latest {_LATEST}" if len(before) == _LATEST else str(len(before))),
        ("Booked as approved", as_approved + (f" since {text.day(since)}" if since else "")),
        ("Booked differently", str(differing) if differing else "none"),
        *([("Booked without amounts", str(unstated))] if unstated else []),
        ("Failed", str(failed) if failed else "none"),
        *([("Cancelled after the order", str(cancelled))] if cancelled else []),
        ("Disputes", _disputes(viewer, seller)),
        ("Answered in time", _in_time(bought)),
        ("Time to confirm", _times([one.took for one in bought if one.took is not None])),
        ("Value confirmed", _value((currency, money) for *_, currency, money in booked)),
    )


def _disputes(viewer: User, seller: uuid.UUID) -> str:
    rows = conflicts_of(viewer).filter(operation__seller=seller).order_by("-pk")
    found = list(rows.values_list("resolved_at", flat=True)[:_LATEST])
    still = sum(ended is None for ended in found)
    if not found:
        return "none"
    many = f"{len(found)}+" if len(found) == _LATEST else str(len(found))
    return f"{many}, {still} still open" if still else f"{many}, all resolved"


def _in_time(bought: Sequence[Purchase]) -> str:
    if not bought:
        return "no purchase answered yet"
    return f"{sum(not one.late for one in bought)} of {plural(len(bought), 'purchase')}"


def _times(answers: Sequence[timedelta]) -> str:
    usual = middle(answers)
    if usual is None:
        return "no purchase confirmed yet"
    ranked = sorted(answers)
    most = ranked[min(len(ranked) - 1, round(0.9 * (len(ranked) - 1)))]
    many = f", nine in ten within {text.duration(most)}" if len(ranked) >= 10 else f", of {len(ranked)}"
    return f"median {text.duration(usual)}{many}"


def _value(sums: Iterable[tuple[str, Decimal | None]]) -> str:
    totals = text.amounts(sums)
    return ", ".join(f"{currency} {text.amount(total, currency)}" for currency, total in totals) or "nothing"
