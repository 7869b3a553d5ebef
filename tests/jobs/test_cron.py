"""When a cron expression is due, by the wall clock of its zone: through the hour that is skipped in spring,
and through the one that comes twice in autumn."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks_app.jobs.cron import CronError, cron_read, due_after, due_last, zone_read

NEW_YORK = ZoneInfo("America/New_York")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")  # its clocks change by half an hour


def dues(expression: str, zone: ZoneInfo, after: str, count: int) -> list[str]:
    """`count` due times after a moment (ISO 8601), as the wall clock shows them, with its offset."""
    moment, found = datetime.fromisoformat(after), []
    for _ in range(count):
        moment = due_after(expression, zone, moment)
        found.append(moment.astimezone(zone).strftime("%d %H:%M %z"))
    return found


def test_every_day_at_the_same_reading_whatever_the_offset() -> None:
    assert dues("0 9 * * *", NEW_YORK, "2026-03-06T12:00:00+00:00", 4) == [
        "06 09:00 -0500",
        "07 09:00 -0500",
        "08 09:00 -0400",
        "09 09:00 -0400",
    ]


def test_what_the_clocks_skip_comes_as_much_later() -> None:
    assert dues("30 2 * * *", NEW_YORK, "2026-03-07T12:00:00+00:00", 2) == [
        "08 03:30 -0400",
        "09 02:30 -0400",
    ]
    assert dues("15 2 * * *", LORD_HOWE, "2026-10-03T12:00:00+00:00", 2) == [
        "04 02:45 +1100",
        "05 02:15 +1100",
    ]


def test_what_the_clocks_show_twice_counts_once() -> None:
    assert dues("30 1 * * *", NEW_YORK, "2026-10-31T12:00:00+00:00", 2) == [
        "01 01:30 -0400",
        "02 01:30 -0500",
    ]
    # Asked between the two, the first has been.
    assert dues("30 1 * * *", NEW_YORK, "2026-11-01T01:10:00-05:00", 1) == ["02 01:30 -0500"]


def test_a_beat_goes_on_through_both() -> None:
    assert dues("*/30 * * * *", NEW_YORK, "2026-03-08T01:10:00-05:00", 3) == [
        "08 01:30 -0500",
        "08 03:00 -0400",
        "08 03:30 -0400",
    ]
    assert dues("*/30 * * * *", NEW_YORK, "2026-11-01T01:10:00-04:00", 4) == [
        "01 01:30 -0400",
        "01 01:00 -0500",
        "01 01:30 -0500",
        "01 02:00 -0500",
    ]
    assert dues("0 */2 * * *", NEW_YORK, "2026-03-08T00:30:00-05:00", 2) == [
        "08 04:00 -0400",
        "08 06:00 -0400",
    ]


@given(
    expression=st.sampled_from(["*/20 * * * *", "0 */6 * * *", "30 2 * * *", "0,45 1-3 * * *", "5 4 1 * *"]),
    zone=st.sampled_from([NEW_YORK, LORD_HOWE, ZoneInfo("UTC"), ZoneInfo("Asia/Kathmandu")]),
    moment=st.datetimes(datetime(2025, 1, 1), datetime(2027, 12, 31)).map(lambda at: at.replace(tzinfo=UTC)),  # noqa: DTZ001
)
def test_due_times_go_forward_and_the_last_is_found(
    expression: str, zone: ZoneInfo, moment: datetime
) -> None:
    due = due_after(expression, zone, moment)
    assert due > moment
    assert due_after(expression, zone, due - timedelta(microseconds=1)) == due
    assert due_last(expression, zone, due) == due
    last = due_last(expression, zone, due - timedelta(seconds=1))
    assert last is not None
    assert last <= moment
    assert due_after(expression, zone, last) == due


def test_a_beat_is_an_hours_worth_of_real_time() -> None:
    moment, seen = datetime(2026, 3, 1, tzinfo=UTC), []
    while moment < datetime(2026, 11, 15, tzinfo=UTC):
        moment = due_after("0 * * * *", NEW_YORK, moment)
        seen.append(moment)
    assert {later - earlier for earlier, later in itertools.pairwise(seen)} == {timedelta(hours=1)}


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("* * * *", "five fields"),
        ("* * * * * *", "five fields"),
        ("0 25 * * *", "25"),
        ("0 0 30 2 *", "30 2"),
        ("H * * * *", "no cron expression"),
        ("R * * * *", "no cron expression"),
        ("0 0 * * MON#1", "no cron expression"),
        ("@daily", "five fields"),
        ("a b c d e", "no cron expression"),
    ],
)
def test_what_is_never_due_is_refused(expression: str, why: str) -> None:
    with pytest.raises(CronError, match=why):
        cron_read(expression)


def test_names_and_blanks_are_read() -> None:
    assert cron_read("  0  9 * JAN-MAR  mon-fri ") == "0 9 * JAN-MAR mon-fri"


def test_an_unknown_zone_is_named() -> None:
    with pytest.raises(CronError, match="Nowhere"):
        zone_read("Mars/Nowhere")
