"""Charts of the last two weeks, a bar a day, with the same in words; of so many of the latest rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

from django.db.models import Count, DurationField, F

from campaigns.today.sellers import Settled
from orders.amounts import confirmed
from orders.models import CONFIRMED, Deal
from tasks_app import clock, days, ids
from tasks_app.approvals.models import Decision
from tasks_app.desk import text
from tasks_app.desk.items import plural
from tasks_app.operations.models import OperationStatus as O
from tasks_app.people.models import User
from tasks_app.people.scope import visible
from tasks_app.sellers.selectors import Percentile

DAYS = 14
_LATEST = 2000
_BOOKED_OF = timedelta(days=60)  # a deal confirmed in these days was put forward since
_HEIGHT, _BASE = 60, 64


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One part of one day's bar; `x` and `width` in percent, `y` and `height` in pixels."""

    x: str
    width: str
    y: str
    height: str
    part: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """`parts`: (css class, name) of the legend; `ticks`: (x in percent, day); `top`: what the highest bar
    stands for; `lead`: the whole in one sentence; `label`: every day in words; `days`: (day, values)."""

    title: str
    parts: tuple[tuple[str, str], ...]
    bars: tuple[Bar, ...]
    ticks: tuple[tuple[str, str], ...]
    top: str
    lead: str
    label: str


def chart(
    *,
    title: str,
    parts: Sequence[tuple[str, str]],
    days: Sequence[tuple[date, Sequence[Decimal]]],
    lead: str,
    said: Callable[[Decimal], str],
) -> Chart | None:
    """Stacked bars; None where there is nothing in all those days."""
    top = max((sum(values, Decimal(0)) for _, values in days), default=Decimal(0))
    if top <= 0:
        return None
    step = 100 / len(days)
    bars: list[Bar] = []
    for index, (_, values) in enumerate(days):
        y = float(_BASE)
        for (part, _), value in zip(parts, values, strict=True):
            height = float(value / top) * _HEIGHT
            y -= height
            if value > 0:
                x = f"{index * step + step * 0.16:.3f}"
                bars.append(
                    Bar(x=x, width=f"{step * 0.68:.3f}", y=f"{y:.2f}", height=f"{height:.2f}", part=part)
                )
    named = (1, len(days) - 1)  # with their month
    ticks = [
        (f"{(index + 0.5) * step:.3f}", f"{day.day}{text.SPACE}{day:%b}" if index in named else f"{day.day}")
        for index, (day, _) in enumerate(days)
        if index % 2
    ]
    return Chart(
        title=title,
        parts=tuple(parts),
        bars=tuple(bars),
        ticks=tuple(ticks),
        top=said(top),
        lead=lead,
        label=_label(title, parts, days, said),
    )


def decisions_chart(who: User) -> Chart | None:
    """What people decided, approvals and rejections a day, and how long it took from asking."""
    since = _since()
    rows = visible(Decision.objects.filter(pk__gte=ids.first_id_at(since)), who, team="approval__team")
    # Counted in the database: two thousand rows of dates took longer to read than the rest of the card.
    latest = Decision.objects.filter(pk__in=rows.order_by("-pk").values("pk")[:_LATEST]).order_by()
    taken = Percentile(F("at") - F("approval__created_at"), fraction=0.5, output_field=DurationField())
    found = latest.aggregate(count=Count("pk"), taken=taken)
    of_a_day = latest.values_list(days.day_of_column("at"), "verdict")
    counted = of_a_day.annotate(Count("pk")) if found["count"] else ()
    per_day = _days(
        ((day, _index(verdict == Decision.Verdict.REJECT), count) for day, verdict, count in counted), parts=2
    )
    usual = f", half of them within {text.lasted(found['taken'])}" if found["count"] else ""
    return chart(
        title="Decisions",
        parts=(("b-firm", "approved"), ("b-no", "rejected")),
        days=per_day,
        lead=f"{plural(found['count'], 'decision')} in {DAYS} days{usual} of asking.",
        said=lambda value: plural(int(value), "decision"),
    )


def answers_chart(settled: Iterable[Settled]) -> Chart | None:
    """How the operations of the sellers shown ended, a day."""
    since = _since()
    found = [one for one in settled if one.settled_at >= since]
    per_day = _days(
        ((days.day_of(one.settled_at), _index(one.status != O.COMPLETED), 1) for one in found),
        parts=2,
    )
    good = sum(one.status == O.COMPLETED for one in found)
    return chart(
        title="Sellers’ answers",
        parts=(("b-firm", "completed"), ("b-no", "failed, rejected or given up")),
        days=per_day,
        lead=f"{good} of {len(found)} completed in {DAYS} days, of each seller’s latest 100.",
        said=lambda value: plural(int(value), "answer"),
    )


def confirmed_chart(who: User) -> tuple[Chart | None, list[tuple[str, Decimal]]]:
    """What sellers confirmed a day, in the currency of most deals; and the sums per currency."""
    since = _since()
    rows = visible(Deal.objects.filter(status__in=CONFIRMED), who)
    rows = rows.filter(pk__gte=ids.first_id_at(clock.now() - _BOOKED_OF)).order_by("-pk")
    latest = rows.annotate(said=confirmed()).values_list("confirmed_at", "currency", "said")[:_LATEST]
    found = [(at, currency, money) for at, currency, money in latest if at and money and at >= since]
    sums = text.amounts((currency, money) for _, currency, money in found)
    if not sums:
        return None, []
    currency = Counter(named for _, named, _ in found).most_common(1)[0][0]
    total = dict(sums)[currency]
    days = _sums((at, money) for at, named, money in found if named == currency)
    drawn = chart(
        title=f"Confirmed by sellers, {currency}",
        parts=(("b-firm", "confirmed"),),
        days=days,
        lead=f"{currency} {text.amount(total, currency)} in {DAYS} days.",
        said=lambda value: f"{currency} {text.amount(value, currency, 0)}",
    )
    return drawn, sums


def _since() -> datetime:
    """Midnight of the first day, in the viewer's zone."""
    return days.start_of(_first())


def _first() -> date:
    return days.today() - timedelta(days=DAYS - 1)


def _span() -> list[date]:
    first = _first()
    return [first + timedelta(days=index) for index in range(DAYS)]


def _index(second: bool) -> int:
    return 1 if second else 0


def _days(found: Iterable[tuple[date, int, int]], *, parts: int) -> list[tuple[date, list[Decimal]]]:
    """`found`: so many of a part on a day."""
    counts = {day: [Decimal(0)] * parts for day in _span()}
    for day, part, count in found:
        if day in counts:
            counts[day][part] += count
    return list(counts.items())


def _sums(found: Iterable[tuple[datetime, Decimal]]) -> list[tuple[date, list[Decimal]]]:
    sums = {day: [Decimal(0)] for day in _span()}
    for at, money in found:
        day = days.day_of(at)
        if day in sums:
            sums[day][0] += money
    return list(sums.items())


def _label(
    title: str,
    parts: Sequence[tuple[str, str]],
    days: Sequence[tuple[date, Sequence[Decimal]]],
    said: Callable[[Decimal], str],
) -> str:
    told = [
        f"{day.day} {day:%b}: "
        + ", ".join(
            f"{said(value)} {name}" for (_, name), value in zip(parts, values, strict=True) if value > 0
        )
        for day, values in days
        if any(value > 0 for value in values)
    ]
    return f"{title}. {'; '.join(told)}"
