"""The tags of our pages: state, glyph, money, age, bar, spark; times and numbers as filters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from tasks_app import clock
from tasks_app.desk import text
from tasks_app.desk.states import COLOURS, GLYPHS, face
from tasks_app.people.agents import browser_of

register = template.Library()


@register.simple_tag
def glyph(name: str, cls: str = "") -> SafeString:
    """The shape of a state, without its word: only beside the word."""
    return format_html(
        '<svg class="gl c-{} {}" viewBox="0 0 14 14" aria-hidden="true">{}</svg>',
        COLOURS[name],
        cls,
        mark_safe(GLYPHS[name]),  # noqa: S308 (our own constants)
    )


@register.simple_tag
def state(status: str, pill: Any = False, word: str | None = None) -> SafeString:
    """A status as shape, colour and word; `pill` beside a title, `word` instead of the usual one."""
    shown = face(status)
    return mark(shown.glyph, word or shown.word, pill)


@register.simple_tag
def mark(glyph_name: str, word: str, pill: Any = False) -> SafeString:
    """Any word with any shape and its colour."""
    return format_html(
        '<span class="st c-{}{}">{}<span>{}</span></span>',
        COLOURS[glyph_name],
        " pill" if pill else "",
        glyph(glyph_name),
        word,
    )


@register.filter
def browser(agent: str) -> str:
    """Chrome 156 on Linux, of what a browser sent."""
    return browser_of(agent)


@register.filter
def num(value: Any, places: Any = None) -> str:
    """A number with its thousands separated: {{ v|num:1 }}; without places, as exact as it is."""
    return text.number(value, None if places is None else int(places))


@register.simple_tag
def money(value: Any, currency: str, places: Any = None) -> str | SafeString:
    """The currency code, small, before the amount; the currency's own decimals unless `places` is given."""
    if value in (None, ""):
        return text.DASH
    shown = text.amount(value, currency, None if places is None else int(places))
    return format_html('<span class="nw"><span class="cur">{}</span>{}</span>', currency, shown)


@register.filter
def exact(value: Any) -> str:
    """An amount for a script: its digits with four decimals, whatever the language."""
    return f"{value:.4f}"


@register.simple_tag
def moneys(totals: Sequence[tuple[str, Any]], places: Any = None) -> str | SafeString:
    """Several currencies beside each other, never added: [(currency, amount), …]."""
    if not totals:
        return text.DASH
    return format_html_join(", ", "{}", ((money(value, currency, places),) for currency, value in totals))


@register.simple_tag
def age(left: Any, right: str = "", percent: int = 0) -> SafeString:
    """Time against a deadline: an Age, or the words left and right and the percentage used."""
    shown = left if isinstance(left, text.Age) else text.Age(str(left), right, int(percent))
    fill = mark_safe(' fill="url(#fd-over)"') if shown.look == "over" else ""
    return format_html(
        '<div class="age {}"><span><span class="m">{}</span><span class="mute">{}</span></span>'
        '<svg class="agebar" height="4" width="100%" aria-hidden="true">'
        '<rect class="t" width="100%" height="4" rx="2"/>'
        '<rect class="u" width="{}%" height="4" rx="2"{}/></svg></div>',
        shown.look,
        shown.left,
        shown.right,
        min(max(shown.percent, 0), 100),
        fill,
    )


@register.simple_tag
def bar(parts: Sequence[tuple[str, float]], label: str) -> SafeString:
    """Shares of a whole, in percent: [("firm" | "soft" | "ask", 37.5), …], with the same in words."""
    drawn, at = [], 0.0
    for kind, share in parts:
        width = min(max(share, 0.0), 100.0 - at)
        if width > 0:
            drawn.append((f"{at:.3f}", f"{width:.3f}", kind, _FILLS.get(kind, "")))
            at += width
    rects = format_html_join(
        "", '<rect x="{}%" y=".5" width="{}%" height="13" rx="2" class="b-{}"{}/>', drawn
    )
    return format_html(
        '<svg class="share" height="14" width="100%" role="img" aria-label="{}">'
        '<rect class="t" width="100%" height="14" rx="3"/>{}</svg>',
        label,
        rects,
    )


_FILLS = {"soft": mark_safe(' fill="url(#fd-hatch)"')}


@register.simple_tag
def spark(values: Sequence[float], label: str, width: int = 48, height: int = 16) -> str | SafeString:
    """A line of at least two values, told in words by `label`."""
    if len(values) < 2:
        return text.DASH
    top, step = max(values) or 1, width / (len(values) - 1)
    points = " ".join(
        f"{i * step:.1f},{height - 1 - v / top * (height - 3):.1f}" for i, v in enumerate(values)
    )
    return format_html(
        '<svg class="spark" width="{}" height="{}" role="img" aria-label="{}"><polyline points="{}"/></svg>',
        width,
        height,
        label,
        points,
    )


@register.filter
def moment(at: datetime | None, zone: str = "") -> str:
    """Wed 18 Nov, 12:00 in the viewer's zone, or in the one given."""
    return text.moment(at, zone)


@register.filter
def soon(at: datetime | None) -> str:
    """today 12:00, tomorrow 12:00, Wed 18 Nov, 12:00."""
    return text.moment_short(at)


@register.filter
def day(at: datetime | None, zone: str = "") -> str:
    """Wed 18 Nov."""
    return text.day(at, zone)


@register.filter
def span(value: timedelta | float | None) -> str:
    """A timedelta, or seconds: 6 h 48 m."""
    if value is None:
        return text.DASH
    return text.duration(value if isinstance(value, timedelta) else timedelta(seconds=float(value)))


@register.filter
def ago(at: datetime | None) -> str:
    """How long since: 6 h 48 m."""
    return text.DASH if at is None else text.duration(clock.now() - at)


@register.simple_tag
def flight(start: datetime | None, end: datetime | None, zone: str) -> str:
    """1 – 31 Dec 2026, the last day included, in the flight's own zone."""
    return text.flight(start, end, zone)


@register.filter
def zone(name: str) -> str:
    """New York for America/New_York."""
    return text.zone_name(name)


@register.simple_tag
def clock_line() -> str:
    """The header's clock: Tue 17 Nov 2026, 09:12 New York."""
    return text.moment_now()
