"""The calendar as iCalendar (RFC 5545), by the library icalendar."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings

from campaigns.calendar.entries import Calendar, Entry, Lane
from tasks_app import clock
from tasks_app.desk import text

if TYPE_CHECKING:
    from icalendar import Event

_REFRESH = timedelta(hours=1)


def calendar_bytes(calendar: Calendar) -> bytes:
    """Flights as days in their own zone, every other date as a moment in UTC."""
    from icalendar import Calendar as Document  # 9 MB that only this page needs

    document = Document()
    document.add("prodid", "-//Flightdeck//Commitments//EN")
    document.add("version", "2.0")
    document.add("method", "PUBLISH")
    document.add("name", "Flightdeck commitments")
    document.add("x-wr-calname", "Flightdeck commitments")
    document.add("refresh-interval", _REFRESH, parameters={"VALUE": "DURATION"})
    for event in (*_flights(calendar.lanes), *_dates(calendar.entries)):
        document.add_component(_event(event))
    return bytes(document.to_ical())


def _flights(lanes: Iterable[Lane]) -> Iterable[dict[str, Any]]:
    for lane in lanes:
        deal, zone = lane.deal, text.zone_of(lane.deal.zone)
        last = (deal.end_at - timedelta(microseconds=1)).astimezone(zone).date()
        yield {
            "uid": f"flight-{deal.pk}",
            "dtstart": deal.start_at.astimezone(zone).date(),
            "dtend": last + timedelta(days=1),
            "summary": f"Flight: {lane.name}, {deal.seller.name}",
            "description": _words(lane.owner, text.amount(lane.amount, deal.currency), deal.currency, ""),
            "url": lane.link,
        }


def _dates(entries: Iterable[Entry]) -> Iterable[dict[str, Any]]:
    for entry in entries:
        if entry.kind in ("start", "end"):
            continue  # the flight itself
        amount = "" if entry.amount is None else text.amount(entry.amount, entry.currency)
        named = ", ".join(part for part in (entry.part, entry.seller) if part)
        yield {
            "uid": entry.uid,
            "dtstart": entry.at.astimezone(UTC),
            "summary": f"{entry.what}: {named}" if named and entry.kind != "approval" else entry.what,
            "description": _words(entry.owner, amount, entry.currency, entry.note),
            "categories": [entry.label],
            "url": entry.link,
        }


def _event(told: dict[str, Any]) -> Event:
    from icalendar import Event

    event = Event()
    event.add("uid", f"{told['uid']}@{urlsplit(settings.PUBLIC_URL).hostname or 'flightdeck'}")
    event.add("dtstamp", clock.now().astimezone(UTC))
    event.add("transp", "TRANSPARENT")
    event.add("url", f"{settings.PUBLIC_URL}{told['url']}")
    for name in sorted(told.keys() - {"uid", "url"}):
        event.add(name, told[name])
    return event


def _words(owner: str, amount: str, currency: str, note: str) -> str:
    stake = f"At stake: {currency} {amount}" if amount else ""
    return "\n".join(part for part in (f"Owner: {owner}", stake, note[:1].upper() + note[1:]) if part)
