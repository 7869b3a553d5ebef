"""The calendar's pages in the admin, and its feed for calendar programs."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseNotFound
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_safe

from campaigns.calendar import layout
from campaigns.calendar.entries import KINDS, Calendar, Lane, Wanted, calendar_of, calendar_to_keep
from campaigns.calendar.feeds import FeedRefusedError, feed_make, feed_of, feed_revoke, feed_user, may_read
from campaigns.calendar.ical import calendar_bytes
from tasks_app import clock, days
from tasks_app.desk import text
from tasks_app.desk.items import plural
from tasks_app.desk.page import viewer
from tasks_app.people.models import Advertiser, User
from tasks_app.people.scope import visible
from tasks_app.sellers.models import Seller

VIEWS = {"weeks": "Four weeks", "month": "Month", "agenda": "Agenda"}
_CHOICES = 200  # of a filter
_FEED_DEALS = 400
_FEED_BACK, _FEED_AHEAD = timedelta(days=14), timedelta(days=180)
_YEARS = (2000, 2100)  # that an address may name


def calendar_view(request: HttpRequest) -> HttpResponse:
    """Four weeks, a month or an agenda of what the viewer may see, filtered as the address says."""
    who = viewer(request)
    if not who.has_perm("orders.view_deal"):
        raise PermissionDenied
    view = request.GET.get("view", "weeks")
    view = view if view in VIEWS else "weeks"
    first, count = _span(view, _day(request.GET.get("from", "")))
    chosen = _chosen(request)
    since, until = days.start_of(first), days.start_of(first + timedelta(days=count))
    calendar = calendar_of(who, Wanted(since=since, until=until, **chosen))
    seen = _seen(view, calendar, first)
    shown = {name: "1" if value is True else str(value) for name, value in chosen.items() if value}
    return TemplateResponse(
        request,
        "desk/calendar.html",
        {
            **admin.site.each_context(request),
            "title": "Commitments",
            "view": view,
            "views": _segments(view, shown, request.GET.get("from", "")),
            "span": _span_words(view, first, count),
            "earlier": _address(view, shown, _step(view, first, -1)),
            "later": _address(view, shown, _step(view, first, 1)),
            "now": _address(view, shown, None),
            "agenda_link": _address("agenda", shown, None),
            "chosen": chosen,
            "filtered": bool(shown),
            "kinds": KINDS,
            "sellers": Seller.objects.filter(active=True)
            .order_by("name")
            .values_list("pk", "name")[:_CHOICES],
            "advertisers": visible(Advertiser.objects.all(), who).values_list("pk", "name")[:_CHOICES],
            "stake": text.amounts((lane.deal.currency, lane.amount) for lane in seen),
            "coming": next((one for one in calendar.entries if not one.passed), None),
            "more": calendar.more,
            "deals": plural(len(seen), "deal"),
            "anything": bool(seen or calendar.entries),
            **_VIEWED[view](calendar, first),
        },
    )


def _seen(view: str, calendar: Calendar, first: date) -> list[Lane]:
    """The deals that the view shows: as lanes, or by their dates."""
    if view == "weeks":
        return [one.lane for one in layout.drawn(calendar, first)]
    dated = {entry.deal for entry in calendar.entries}
    return [lane for lane in calendar.lanes if lane.deal.pk in dated]


def _weeks(calendar: Calendar, first: date) -> dict[str, Any]:
    return {
        "days": layout.days_of(first),
        "weeks": [first + timedelta(weeks=week) for week in range(4)],
        "lanes": layout.drawn(calendar, first),
        "now_x": _inside(layout.percent(clock.now(), first)),
        "agenda": layout.next_days(calendar.entries),
    }


def _month(calendar: Calendar, first: date) -> dict[str, Any]:
    middle = first + timedelta(days=15)
    return {"sheet": layout.weeks_of(calendar.entries, middle.replace(day=1))}


def _agenda(calendar: Calendar, _first: date) -> dict[str, Any]:
    return {"agenda": sorted(layout.by_day(calendar.entries).items())}


_VIEWED: dict[str, Callable[[Calendar, date], dict[str, Any]]] = {
    "weeks": _weeks,
    "month": _month,
    "agenda": _agenda,
}


def feed_view(request: HttpRequest) -> HttpResponse:
    """The viewer's own address of the calendar: shown once when it is made, revoked at any time."""
    who = viewer(request)
    if not may_read(who):
        raise PermissionDenied
    if request.method not in ("GET", "HEAD", "POST"):
        return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
    if request.method == "POST" and request.POST.get("act") == "make":
        return _made(request, who)
    if request.method == "POST":
        if feed_revoke(user=who):
            messages.success(request, "The address is revoked: programs that use it read nothing any more.")
        return redirect("calendar_feed_own")
    return _feed_page(request, who, "")


@sensitive_variables("secret")
def _made(request: HttpRequest, who: User) -> HttpResponse:
    try:
        secret = feed_make(user=who)
    except FeedRefusedError as error:
        messages.error(request, str(error))
        return redirect("calendar_feed_own")
    return _feed_page(request, who, f"{settings.PUBLIC_URL}{reverse('calendar_feed', args=[secret])}")


def _feed_page(request: HttpRequest, who: User, address: str) -> HttpResponse:
    page = TemplateResponse(
        request,
        "desk/calendar_feed.html",
        {
            **admin.site.each_context(request),
            "title": "Commitments in your calendar",
            "feed": feed_of(who),
            "address": address,
        },
    )
    page["Cache-Control"] = "private, no-store"
    return page


@require_safe
@never_cache
@sensitive_variables("secret")
def feed_read(request: HttpRequest, secret: str) -> HttpResponse:
    """The calendar for whom the address was made, as they would see it: text/calendar, or 404."""
    who = feed_user(secret)
    if who is None:
        return HttpResponseNotFound("There is no calendar at this address.\n", content_type="text/plain")
    now = clock.now()
    with timezone.override(days.zone_of(who.time_zone)):
        wanted = Wanted(since=now - _FEED_BACK, until=now + _FEED_AHEAD, limit=_FEED_DEALS)
        body = calendar_bytes(calendar_to_keep(who, wanted))
    answer = HttpResponse(body, content_type="text/calendar; charset=utf-8")
    answer["Content-Disposition"] = 'inline; filename="flightdeck.ics"'
    answer["X-Robots-Tag"] = "noindex"
    return answer


def _day(stated: str) -> date:
    with suppress(ValueError):
        day = date.fromisoformat(stated)
        if _YEARS[0] <= day.year < _YEARS[1]:
            return day
    return days.today()


def _span(view: str, day: date) -> tuple[date, int]:
    if view == "month":
        return layout.month_days(day.replace(day=1))
    return layout.monday(day), layout.DAYS


def _span_words(view: str, first: date, count: int) -> str:
    if view == "month":
        middle = first + timedelta(days=15)
        return f"{middle:%B} {middle.year}"
    last = first + timedelta(days=count - 1)
    return f"{first.day} {first:%b} {text.DASH} {last.day} {last:%b} {last.year}"


def _step(view: str, first: date, way: int) -> date:
    if view == "month":
        month = (first + timedelta(days=15)).replace(day=1)
        return layout.next_month(month) if way > 0 else (month - timedelta(days=1)).replace(day=1)
    return first + timedelta(days=way * layout.DAYS)


def _chosen(request: HttpRequest) -> dict[str, Any]:
    """The filter of the address; what is not of its form is left out."""
    kind = request.GET.get("kind", "")
    found: dict[str, Any] = {"kind": kind if kind in KINDS else "", "mine": request.GET.get("mine") == "1"}
    for name in ("seller", "advertiser"):
        found[name] = None
        with suppress(ValueError):
            found[name] = uuid.UUID(request.GET.get(name, ""))
    return found


def _segments(view: str, shown: dict[str, str], since: str) -> list[dict[str, Any]]:
    kept = {"from": since} if since else {}
    return [
        {"title": title, "link": "?" + urlencode({"view": value, **shown, **kept}), "active": value == view}
        for value, title in VIEWS.items()
    ]


def _address(view: str, shown: dict[str, str], day: date | None) -> str:
    return "?" + urlencode({"view": view, **shown, **({"from": day.isoformat()} if day else {})})


def _inside(at: float) -> str | None:
    return f"{at:.4f}" if 0 <= at <= 100 else None


calendar_urls = [
    path("", admin.site.admin_view(calendar_view), name="commitments"),
    path("feed/", admin.site.admin_view(feed_view), name="calendar_feed_own"),
]
feed_urls = [path("<str:secret>.ics", feed_read, name="calendar_feed")]
