"""Charts of the last two weeks, a bar a day, with the same in words; of so many of the latest rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from statistics import median

from django.db.models import F, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from campaigns.today.sellers import Settled
from orders.models import CONFIRMED, Deal
from tasks_app import clock, ids
from tasks_app.approvals.models import Decision
from tasks_app.desk import text
from tasks_app.desk.items import plural
from tasks_app.operations.models import OperationStatus as O
from tasks_app.people.models import User
from tasks_app.people.scope import visible

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
    found = list(rows.order_by("-pk").values_list("at", "verdict", "approval__created_at")[:_LATEST])
    days = _days(((at, _index(verdict == Decision.Verdict.REJECT)) for at, verdict, _ in found), parts=2)
    took = [(at - asked).total_seconds() for at, _, asked in found]
    usual = f", half of them within {text.lasted(timedelta(seconds=median(took)))}" if took else ""
    return chart(
        title="Decisions",
        parts=(("b-firm", "approved"), ("b-no", "rejected")),
        days=days,
        lead=f"{plural(len(found), 'decision')} in {DAYS} days{usual} of asking.",
        said=lambda value: plural(int(value), "decision"),
    )


def answers_chart(settled: Iterable[Settled]) -> Chart | None:
    """How the operations of the sellers shown ended, a day."""
    since = _since()
    found = [one for one in settled if one.settled_at >= since]
    days = _days(((one.settled_at, _index(one.status != O.COMPLETED)) for one in found), parts=2)
    good = sum(one.status == O.COMPLETED for one in found)
    return chart(
        title="Sellers’ answers",
        parts=(("b-firm", "completed"), ("b-no", "failed, rejected or given up")),
        days=days,
        lead=f"{good} of {len(found)} completed in {DAYS} days, of each seller’s latest 100.",
        said=lambda value: plural(int(value), "answer"),
    )


def confirmed_chart(who: User) -> tuple[Chart | None, list[tuple[str, Decimal]]]:
    """What sellers confirmed a day, in the currency with the most; and the sums per currency."""
    since = _since()
    rows = visible(Deal.objects.filter(status__in=CONFIRMED), who)
    rows = rows.filter(pk__gte=ids.first_id_at(clock.now() - _BOOKED_OF)).order_by("-pk")
    gross = Sum(Coalesce(F("lines__confirmed_budget"), F("lines__budget")))
    latest = rows.annotate(gross=gross).values_list("confirmed_at", "currency", "gross")[:_LATEST]
    found = [(at, currency, money) for at, currency, money in latest if at and money and at >= since]
    sums = text.amounts((currency, money) for _, currency, money in found)
    if not sums:
        return None, []
    currency, total = sums[0]
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
    first = timezone.localtime(clock.now()).date() - timedelta(days=DAYS - 1)
    return datetime(first.year, first.month, first.day, tzinfo=timezone.get_current_timezone())


def _span() -> list[date]:
    first = _since().date()
    return [first + timedelta(days=index) for index in range(DAYS)]


def _index(second: bool) -> int:
    return 1 if second else 0


def _days(found: Iterable[tuple[datetime, int]], *, parts: int) -> list[tuple[date, list[Decimal]]]:
    counts = {day: [Decimal(0)] * parts for day in _span()}
    for at, part in found:
        day = timezone.localtime(at).date()
        if day in counts:
            counts[day][part] += 1
    return list(counts.items())


def _sums(found: Iterable[tuple[datetime, Decimal]]) -> list[tuple[date, list[Decimal]]]:
    sums = {day: [Decimal(0)] for day in _span()}
    for at, money in found:
        day = timezone.localtime(at).date()
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
