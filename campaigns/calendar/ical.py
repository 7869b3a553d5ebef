"""The calendar as iCalendar (RFC 5545), by the library icalendar."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings
from django.urls import reverse

from campaigns.calendar.entries import Calendar, Entry, Lane
from tasks_app import clock, days
from tasks_app.approvals.spending import Stake
from tasks_app.desk import text
from tasks_app.desk.items import raised

if TYPE_CHECKING:
    from icalendar import Event

_REFRESH = timedelta(hours=1)


def calendar_bytes(calendar: Calendar) -> bytes:
    """Flights as days in their own zone, every other date as a moment in UTC; today, where not all is in
    it, that it is not."""
    from icalendar import Calendar as Document  # 9 MB that only this page needs

    document = Document()
    document.add("prodid", "-//Flightdeck//Commitments//EN")
    document.add("version", "2.0")
    document.add("method", "PUBLISH")
    document.add("name", "Flightdeck commitments")
    document.add("x-wr-calname", "Flightdeck commitments")
    document.add("refresh-interval", _REFRESH, parameters={"VALUE": "DURATION"})
    for event in (*_left_out(calendar), *_flights(calendar.lanes), *_dates(calendar.entries)):
        document.add_component(_event(event))
    return bytes(document.to_ical())


def _left_out(calendar: Calendar) -> Iterable[dict[str, Any]]:
    if calendar.more:
        yield {
            "uid": "left-out",
            "dtstart": days.day_of(clock.now()),
            "summary": "Flightdeck has more dates than this calendar holds",
            "description": "The next ones are in it. Open Flightdeck for all.",
            "url": reverse("commitments"),
        }


def _flights(lanes: Iterable[Lane]) -> Iterable[dict[str, Any]]:
    for lane in lanes:
        deal = lane.deal
        yield {
            "uid": f"flight-{deal.pk}",
            "dtstart": days.day_of(deal.start_at, deal.zone),
            "dtend": days.last_day(deal.end_at, deal.zone) + timedelta(days=1),
            "summary": f"Flight: {lane.name}, {deal.seller.name}",
            "description": _words(lane.owner, _stake_words(lane.stake), ""),
            "url": lane.link,
        }


def _dates(entries: Iterable[Entry]) -> Iterable[dict[str, Any]]:
    for entry in entries:
        if entry.kind in ("start", "end"):
            continue  # the flight itself
        named = ", ".join(part for part in (entry.part, entry.seller) if part)
        yield {
            "uid": entry.uid,
            "dtstart": days.utc(entry.at),
            "summary": f"{entry.what}: {named}" if named and entry.kind != "approval" else entry.what,
            "description": _words(entry.owner, _stake_words(entry.stake), entry.note),
            "categories": [entry.label],
            "url": entry.link,
        }


def _event(told: dict[str, Any]) -> Event:
    from icalendar import Event

    event = Event()
    event.add("uid", f"{told['uid']}@{urlsplit(settings.PUBLIC_URL).hostname or 'flightdeck'}")
    event.add("dtstamp", clock.now())
    event.add("transp", "TRANSPARENT")
    event.add("url", f"{settings.PUBLIC_URL}{told['url']}")
    for name in sorted(told.keys() - {"uid", "url"}):
        event.add(name, told[name])
    return event


def _stake_words(stake: Stake) -> str:
    if stake.shown is None:
        return ""
    told = f"{stake.currency} {text.amount(stake.shown, stake.currency)}"
    return f"{'At stake' if stake.frees is None else 'Frees'}: {told}"


def _words(owner: str, stake: str, note: str) -> str:
    return "\n".join(part for part in (f"Owner: {owner}", stake, raised(note)) if part)
