"""Business hours: one line of a person, validated; deadlines in open time, over changes of the clocks."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st

from tasks_app.sellers.hours import BusinessHours, deadline_after, hours_of, hours_parse

NEW_YORK = ZoneInfo("America/New_York")
WEEK = {"zone": "America/New_York", "weekdays": [1, 2, 3, 4, 5], "from": "09:00", "to": "17:00"}


def hours(**changed: Any) -> BusinessHours:
    found = hours_of({**WEEK, **changed})
    assert found is not None
    return found


def local(text: str, zone: ZoneInfo = NEW_YORK) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone)


@pytest.mark.parametrize(
    ("start", "span", "end"),
    [
        ("2026-11-18T10:00", 2, "2026-11-18T12:00"),
        ("2026-11-18T10:00", 7, "2026-11-18T17:00"),
        ("2026-11-18T16:00", 2, "2026-11-19T10:00"),
        ("2026-11-20T16:00", 2, "2026-11-23T10:00"),
        ("2026-11-21T12:00", 1, "2026-11-23T10:00"),
        ("2026-11-18T03:00", 1, "2026-11-18T10:00"),
        ("2026-11-18T20:00", 24, "2026-11-23T17:00"),
    ],
    ids=["same day", "to the last minute", "overnight", "weekend", "from Saturday", "before opening", "24 h"],
)
def test_a_deadline_counts_open_time_only(start: str, span: int, end: str) -> None:
    assert deadline_after(local(start), timedelta(hours=span), hours()) == local(end)


def test_without_hours_every_hour_counts() -> None:
    start = local("2026-11-20T16:00")
    assert deadline_after(start, timedelta(hours=24), None) == start + timedelta(hours=24)


@pytest.mark.parametrize(
    ("day", "open_hours"),
    [("2026-03-07", 6), ("2026-03-08", 5), ("2026-11-01", 7)],
    ids=["usual", "spring", "autumn"],
)
def test_a_night_on_which_the_clocks_change_is_an_hour_shorter_or_longer(day: str, open_hours: int) -> None:
    night = hours(weekdays=[1, 2, 3, 4, 5, 6, 7], **{"from": "00:00", "to": "06:00"})
    span = timedelta(hours=open_hours)
    assert deadline_after(local(f"{day}T00:00"), span, night) == local(f"{day}T06:00")
    assert deadline_after(local(f"{day}T00:00"), span + timedelta(minutes=1), night) > local(f"{day}T23:00")


def test_an_opening_that_the_clocks_skip_begins_after_the_change() -> None:
    early = hours(weekdays=[7], **{"from": "02:30", "to": "12:00"})
    found = deadline_after(local("2026-03-08T00:00"), timedelta(minutes=30), early)
    assert found == datetime(2026, 3, 8, 8, 0, tzinfo=UTC)  # 03:30 + 30 min in New York


@given(
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)),  # noqa: DTZ001 (given their zone below)
    st.integers(1, 60 * 60),
    st.integers(1, 60 * 24 * 3),
)
def test_more_time_is_never_an_earlier_deadline(start: datetime, minutes: int, more: int) -> None:
    begin, opened = start.replace(tzinfo=UTC), hours()
    first = deadline_after(begin, timedelta(minutes=minutes), opened)
    assert begin < first < deadline_after(begin, timedelta(minutes=minutes + more), opened)
    at = first.astimezone(NEW_YORK)
    assert at.isoweekday() <= 5
    assert time(9) < at.time() <= time(17)


@pytest.mark.parametrize(
    "line",
    [
        "Mon-Fri 09:00-17:30 America/New_York",
        "Mon,Wed,Fri 08:00-24:00 Europe/Stockholm",
        "Sat,Sun 00:00-12:00 UTC",
    ],
)
def test_what_a_person_writes_is_what_is_shown(line: str) -> None:
    found = hours_parse(line)
    assert str(found) == line
    assert found is not None
    assert hours_of(found.as_json()) == found


def test_nothing_written_is_no_hours() -> None:
    assert hours_parse("  ") is None
    assert hours_of({}) is None


@pytest.mark.parametrize(
    "line",
    [
        "always",
        "Mon-Fri 9-5 UTC",
        "Mon-Fri 17:00-09:00 UTC",
        "Mon-Fri 09:00-25:00 UTC",
        "Mon-Fri 09:00-17:00 Mars/Olympus",
        "Mon-Fri 09:00-17:00 ../../etc/passwd",
        "Montag 09:00-17:00 UTC",
        "1-5 09:00-17:00 UTC",
    ],
)
def test_what_makes_no_sense_is_refused_with_a_hint(line: str) -> None:
    with pytest.raises(ValidationError):
        hours_parse(line)


@pytest.mark.parametrize(
    "stored",
    [
        [],
        "x",
        {"zone": "UTC"},
        {**WEEK, "extra": 1},
        {**WEEK, "weekdays": []},
        {**WEEK, "weekdays": [0]},
        {**WEEK, "weekdays": [True]},
        {**WEEK, "weekdays": "12345"},
        {**WEEK, "from": 9},
        {**WEEK, "zone": None},
        {**WEEK, "from": "17:00"},
    ],
    ids=str,
)
def test_only_the_known_shape_is_stored(stored: Any) -> None:
    with pytest.raises(ValidationError):
        hours_of(stored)
