"""The dates of deals in SQL: which deals have one in a time, and which of them comes next.

The same dates as `cost_dates` tells of one deal, so that a list of some kind is narrowed and ordered before
it is cut off (tests/orders/test_next_dates.py compares the two).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db.models import (
    Case,
    CharField,
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    FloatField,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
    Value,
    When,
)
from django.db.models.expressions import Combinable, Expression
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce, Concat, Least, Left, Substr

from orders.cost_dates import CANCELLABLE, HELD, OVER
from orders.models import Deal, DealLine
from tasks_app.desk.terms import SECONDS

_DAY = timedelta(days=1)
_CLOCKS = timedelta(hours=2)  # days before a flight are counted here without its zone's changes of time
# A moment with a zone; its day of the month is added to the first, as not every month has a 31st.
_MOMENT = (
    r"^2[01]\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?"
    r"([Zz]|[+-](0\d|1[0-4]):[0-5]\d)$"
)
_NUMBER = r"^\d{1,4}(\.\d{1,6})?$"


def with_dates(
    deals: QuerySet[Deal], kinds: Collection[str], *, since: datetime, until: datetime
) -> QuerySet[Deal]:
    """Those that have a date of one of the kinds (hold, creative, cancel, start, end) in [since, until), the
    next date first. What could be cancelled until a moment up to a day before or after is among them, for its
    day may not be over; where that has passed it comes by its next date to come, or last."""
    found, shown, ahead = deals, Q(), {}
    for kind in kinds:
        name = f"next_{kind}"
        margin, changed = (_DAY, _CLOCKS) if kind == "cancel" else (timedelta(0), timedelta(0))
        before = Q(**{f"{name}__lt": until + margin})
        found = found.annotate(**{name: _MOMENTS[kind]()})
        shown |= Q(**{f"{name}__gte": since - margin}) & before
        coming = When(Q(**{f"{name}__gte": since - changed}) & before, then=F(name))
        ahead[f"{name}_ahead"] = Case(coming, output_field=DateTimeField())
    nexts = [F(name) for name in ahead]
    first = Least(*nexts) if len(nexts) > 1 else nexts[0]
    found = found.annotate(**ahead).annotate(next_date=first)
    return found.filter(shown).order_by(F("next_date").asc(nulls_last=True), "pk")


def _hold() -> Expression:
    said = KT("terms__hold_expires_at")
    begin = Cast(Concat(Left(said, 8), Value("01"), Substr(said, 11)), DateTimeField())
    later = Cast(Substr(said, 9, 2), IntegerField()) - Value(1)
    at = ExpressionWrapper(begin + _times(later, _DAY), output_field=DateTimeField())
    readable = When(status__in=HELD, terms__hold_expires_at__regex=_MOMENT, then=at)
    return Case(readable, output_field=DateTimeField())


def _creative() -> Expression:
    due = When(~Q(status__in=OVER), then=F("creative_deadline"))
    return Case(due, output_field=DateTimeField())


def _cancel() -> Expression:
    policy = "terms__cancellation_policy"
    interval = Cast(KT(f"{policy}__notice_period__interval"), FloatField())
    begins = Coalesce("confirmed_start_at", "start_at")
    stated = Q(**{f"{policy}__notice_period__has_key": "interval"}) & Q(number__regex=_NUMBER)
    units = [
        When(
            stated & Q(unit__in=[unit, f"{unit}s"]),
            then=ExpressionWrapper(
                begins - _times(interval, timedelta(seconds=seconds)), output_field=DateTimeField()
            ),
        )
        for unit, seconds in SECONDS.items()
    ]
    lines = (
        DealLine.objects.filter(deal=OuterRef("pk"))
        .exclude(**{f"{policy}__cancellation_fee__type": "none"})
        .annotate(
            number=Cast(KT(f"{policy}__notice_period__interval"), TextField()),
            unit=Cast(KT(f"{policy}__notice_period__unit"), CharField()),
        )
        .annotate(last=Case(*units, output_field=DateTimeField()))
        .filter(last__isnull=False)
        .order_by("last")
    )
    free = When(status__in=CANCELLABLE, then=Subquery(lines.values("last")[:1]))
    return Case(free, output_field=DateTimeField())


def _times(count: Combinable, span: timedelta) -> Expression:
    return ExpressionWrapper(count * Value(span, DurationField()), output_field=DurationField())


def _start() -> Expression:
    return ExpressionWrapper(F("start_at"), output_field=DateTimeField())


def _end() -> Expression:
    return ExpressionWrapper(F("end_at"), output_field=DateTimeField())


_MOMENTS = {"hold": _hold, "creative": _creative, "cancel": _cancel, "start": _start, "end": _end}
