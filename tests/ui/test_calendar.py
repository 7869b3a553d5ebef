"""The commitment calendar: its dates with owner and money, who sees them, its feed for calendar programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from icalendar import Calendar as Document

from campaigns.calendar import layout
from campaigns.calendar import pages as calendar_pages
from campaigns.calendar.entries import Calendar, Wanted, calendar_of
from campaigns.calendar.feeds import FeedRefusedError, feed_make, feed_revoke, feed_user
from campaigns.calendar.models import CalendarFeed
from config.logs import renderer
from orders.models import Deal
from tasks_app import clock
from tasks_app.days import last_day
from tasks_app.people.models import User
from tests.clocks import Clock
from tests.factories import make_team
from tests.ui.pages import ClientOf, read, stranger
from tests.ui.seed import Agency

PAGE = reverse("commitments")
FEED = reverse("calendar_feed_own")


def seen(user: User, **wanted: Any) -> Calendar:
    now = clock.now()
    return calendar_of(user, Wanted(since=now - timedelta(days=30), until=now + timedelta(days=60), **wanted))


def of(calendar: Calendar, deal: Deal) -> dict[str, Any]:
    return {entry.kind: entry for entry in calendar.entries if entry.deal == deal.pk}


def address(secret: str) -> str:
    return reverse("calendar_feed", args=[secret])


def test_a_deals_dates_have_owner_and_money(agency: Agency) -> None:
    asked = of(seen(agency.people["Finance"]), agency.deals["tamarack-cobalt"])
    assert set(asked) == {"approval", "hold", "start", "end"}
    hold, question = asked["hold"], asked["approval"]
    assert (hold.owner, f"{hold.stake.spends:.0f}", hold.stake.currency) == (
        "Tomás Ferreira",
        "288000",
        "USD",
    )
    assert (hold.part, hold.seller) == ("Tamarack Winter Boots", "Cobalt Bay TV")
    assert question.owner == "Maya Lindgren or Ada Okafor"
    assert question.note == "it expires at the deadline. Waiting never approves."
    booked = of(seen(agency.people["Finance"]), agency.deals["aldous-display"])
    assert {"creative", "cancel", "start", "end"} <= set(booked)
    before = agency.deals["aldous-display"].start_at - timedelta(days=14)
    assert booked["cancel"].day == last_day(before, booked["cancel"].zone), "its last day is free"


def test_the_last_day_of_a_flight_is_the_one_before_its_end(agency: Agency) -> None:
    deal = agency.deals["aldous-display"]
    entry = of(seen(agency.people["Finance"]), deal)["end"]
    assert entry.at < deal.end_at
    assert entry.at > deal.end_at - timedelta(hours=1)


def test_what_is_over_costs_nothing_any_more(agency: Agency, tamper: Callable[..., None]) -> None:
    deal = agency.deals["tamarack-quill"]
    tamper(deal, status="cancelled")
    assert deal.pk not in {lane.deal.pk for lane in seen(agency.people["Finance"]).lanes}


def test_the_filters(agency: Agency) -> None:
    who, cobalt = agency.people["Finance"], agency.sellers["cobalt"]
    assert {entry.kind for entry in seen(who, kind="hold").entries} == {"hold"}
    of_cobalt = seen(who, seller=cobalt.pk)
    assert of_cobalt.entries
    assert {entry.seller for entry in of_cobalt.entries} == {"Cobalt Bay TV"}
    deal = agency.deals["tamarack-cobalt"]
    assert {e.part for e in seen(who, advertiser=deal.advertiser_id).entries} == {"Tamarack Winter Boots"}
    mine = seen(agency.people["Approver"], mine=True)
    assert mine.lanes == ()
    assert {entry.kind for entry in mine.entries} == {"approval"}
    assert not [
        entry for entry in seen(agency.people["Buyer"], mine=True).entries if entry.kind == "approval"
    ]


def test_more_than_fits_is_said(agency: Agency) -> None:
    few = seen(agency.people["Finance"], limit=2)
    assert len(few.lanes) == 2
    assert few.more


@pytest.mark.parametrize("view", ["weeks", "month"])
def test_what_does_not_fit_is_shown_with_the_same_filters(
    agency: Agency, client_of: ClientOf, view: str
) -> None:
    deal = agency.deals["aldous-display"]
    wanted = {"view": view, "advertiser": str(deal.advertiser_id), "from": "2030-03-01"}
    answer = client_of("Approver").get(PAGE, wanted)
    assert answer.context["agenda_link"] == f"?view=agenda&advertiser={deal.advertiser_id}"
    assert "?view=agenda&amp;from" not in answer.content.decode()


@pytest.mark.parametrize("view", ["weeks", "month", "agenda"])
def test_another_team_sees_nothing_of_it(agency: Agency, view: str) -> None:
    shown = read(stranger(), f"{PAGE}?view={view}")
    assert "Tamarack" not in shown
    assert "No date costs money in this time" in shown


def test_without_the_right_there_is_no_calendar(agency: Agency, client_of: ClientOf) -> None:
    agency.people["Finance"].groups.clear()
    client = client_of("Finance")
    assert client.get(PAGE).status_code == 403
    assert client.get(FEED).status_code == 403


@pytest.mark.parametrize(
    "query",
    [
        "?from=2026-13-99",
        "?from=9999-12-31",
        "?from=0001-01-01",
        "?view=x&seller=x&kind=x",
        "?view=month&from=2100-01-01",
    ],
)
def test_an_address_that_makes_no_sense_shows_today(agency: Agency, client_of: ClientOf, query: str) -> None:
    assert client_of("Finance").get(f"{PAGE}{query}").status_code == 200


def test_the_viewers_zone_decides_the_day() -> None:
    with timezone.override("America/New_York"):
        assert layout.percent(datetime(2026, 11, 16, 5, tzinfo=UTC), date(2026, 11, 16)) == 0
        assert layout.percent(datetime(2026, 11, 30, 5, tzinfo=UTC), date(2026, 11, 16)) == 50
    with timezone.override("Asia/Tokyo"):
        assert layout.percent(datetime(2026, 11, 15, 15, tzinfo=UTC), date(2026, 11, 16)) == 0


def test_a_day_of_25_hours_is_as_wide_as_any() -> None:
    with timezone.override("America/New_York"):  # clocks go back on 1 November 2026
        midnight = datetime(2026, 11, 2, 5, tzinfo=UTC)
        assert layout.percent(midnight, date(2026, 10, 26)) == 25


@pytest.mark.parametrize(
    ("month", "first", "days"),
    [(date(2026, 12, 1), date(2026, 11, 30), 35), (date(2027, 2, 1), date(2027, 2, 1), 28)],
)
def test_a_months_sheet_is_whole_weeks(month: date, first: date, days: int) -> None:
    assert layout.month_days(month) == (first, days)


def made(client: Client) -> str:
    """The secret of a new address."""
    found = re.search(r"/calendar/([\w-]+)\.ics", client.post(FEED, {"act": "make"}).content.decode())
    assert found is not None
    return found[1]


def test_the_feed_is_the_persons_calendar(agency: Agency, client_of: ClientOf) -> None:
    secret = made(client_of("Finance"))
    answer = Client().get(address(secret))
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/calendar; charset=utf-8")
    document = Document.from_ical(answer.content)
    events = {str(event["uid"]): event for event in document.walk("VEVENT")}
    deal = agency.deals["aldous-display"]
    flight = next(event for uid, event in events.items() if uid.startswith(f"flight-{deal.pk}"))
    assert flight.decoded("dtend") - flight.decoded("dtstart") == timedelta(days=28)
    hold = next(
        e for uid, e in events.items() if uid.startswith(f"hold-{agency.deals['tamarack-cobalt'].pk}")
    )
    assert "Owner: Tomás Ferreira" in str(hold["description"])
    assert "USD 288,000.00" in str(hold["description"])
    assert hold.decoded("dtstart").tzinfo is not None
    assert all(len(line) <= 75 for line in answer.content.split(b"\r\n"))


def test_the_address_is_shown_once_and_stored_as_a_digest(agency: Agency, client_of: ClientOf) -> None:
    client = client_of("Finance")
    secret = made(client)
    assert secret not in client.get(FEED).content.decode()
    assert secret not in str(CalendarFeed.objects.values_list())


def test_it_ends_when_it_is_revoked_renewed_or_its_person_may_not(
    agency: Agency, client_of: ClientOf
) -> None:
    client, who = client_of("Finance"), agency.people["Finance"]
    first = made(client)
    second = made(client)
    assert (feed_user(first), feed_user(second)) == (None, who)
    client.post(FEED, {"act": "revoke"})
    assert Client().get(address(second)).status_code == 404
    third = made(client)
    who.is_active = False
    who.save()
    assert Client().get(address(third)).status_code == 404
    who.is_active = True
    who.save()
    assert Client().get(address(third)).status_code == 200
    who.groups.clear()
    assert Client().get(address(third)).status_code == 404


def test_a_feed_that_is_cut_holds_the_next_dates_and_says_so(
    agency: Agency, still: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flight that ends last may have its deadline first."""
    late, now = agency.deals["aldous-display"], still.now
    page, said = address(feed_make(user=agency.people["Finance"])), "more dates than this calendar holds"
    coming = [entry for entry in seen(agency.people["Finance"]).entries if not entry.passed]
    # The others' dates come nearer while other tests work on them.
    before_all = now + (min(entry.at for entry in coming) - now) / 2
    Deal.objects.filter(pk=late.pk).update(end_at=now + timedelta(days=170), creative_deadline=before_all)
    dated = len({entry.deal for entry in coming} | {late.pk})
    for most, cut in ((2, True), (dated, False), (400, False)):
        monkeypatch.setattr(calendar_pages, "_FEED_DEALS", most)
        told = Client().get(page).content.decode().replace("\r\n ", "")
        assert f"creative-{late.pk}" in told
        assert (said in told) == cut


def test_a_feed_that_leaves_out_a_flight_without_a_date_ahead_says_so(
    agency: Agency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that began long ago and ends long after."""
    long, now = agency.deals["aldous-display"], clock.now()
    span = {"start_at": now - timedelta(days=300), "end_at": now + timedelta(days=300)}
    Deal.objects.filter(pk=long.pk).update(**span, creative_deadline=None)
    long.lines.update(**span, terms={})
    page = address(feed_make(user=agency.people["Finance"]))
    dated = {entry.deal for entry in seen(agency.people["Finance"]).entries if not entry.passed} - {long.pk}
    for most, cut in ((len(dated), True), (400, False)):
        monkeypatch.setattr(calendar_pages, "_FEED_DEALS", most)
        told = Client().get(page).content.decode().replace("\r\n ", "")
        assert ("more dates than this calendar holds" in told, f"flight-{long.pk}" in told) == (cut, not cut)


def test_the_feed_follows_the_persons_teams(agency: Agency) -> None:
    secret = feed_make(user=agency.people["Finance"])
    assert b"Tamarack" in Client().get(address(secret)).content
    agency.people["Finance"].teams.set([make_team("Elsewhere")])
    assert b"Tamarack" not in Client().get(address(secret)).content


def test_it_reads_and_does_nothing_else(agency: Agency) -> None:
    secret = feed_make(user=agency.people["Approver"])
    client = Client()
    assert client.post(address(secret)).status_code == 405
    answer = client.get(address(secret))
    assert not client.cookies
    assert "no-store" in answer["Cache-Control"]
    assert client.get(PAGE).status_code == 302


@pytest.mark.parametrize("secret", ["x", "A" * 43, "A" * 44, "%00" * 3, "..%2f", "é" * 43])
def test_an_unknown_address_is_404(agency: Agency, secret: str) -> None:
    feed_make(user=agency.people["Finance"])
    assert Client().get(f"/calendar/{secret}.ics").status_code == 404


def test_a_service_account_has_no_address(agency: Agency) -> None:
    with pytest.raises(FeedRefusedError):
        feed_make(user=agency.people["Integration"])
    assert not feed_revoke(user=agency.people["Integration"])


def test_no_log_line_holds_the_secret(agency: Agency) -> None:
    secret = feed_make(user=agency.people["Finance"])
    for event in (
        {"event": f"Not Found: {address(secret)}"},
        {"event": "request_finished", "request": f"GET {address(secret)}"},
    ):
        line = renderer(None, "warning", dict(event))
        assert secret not in line
        assert "/calendar/(hidden).ics" in line
