"""New dates move what they must, by whole days of the flight's own clocks."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from orders.flights import Flight, change_redated, line_flight

ZONE = "America/New_York"
Days = tuple[tuple[int, int], tuple[int, int]]


def day(month: int, number: int) -> datetime:
    """Midnight there, as it is kept."""
    return datetime(2027, month, number, tzinfo=ZoneInfo(ZONE)).astimezone(ZoneInfo("UTC"))


def flight(days: Days) -> Flight:
    return Flight(start=day(*days[0]), end=day(*days[1]))


BEGUN = (((6, 1), (7, 1)), ((6, 5), (7, 1)))  # and ends as it would
OVER = (((6, 1), (7, 1)), ((8, 1), (8, 31)))
CLOCKS = (((3, 1), (3, 20)), ((3, 20), (4, 8)))  # they change on March 14
LINES: dict[str, tuple[tuple[Days, Days], Days, Days]] = {
    "within": (BEGUN, ((6, 10), (6, 15)), ((6, 10), (6, 15))),
    "within, to the end": (BEGUN, ((6, 10), (7, 1)), ((6, 10), (7, 1))),
    "with the whole": (BEGUN, *BEGUN),
    "begun with the whole": (BEGUN, ((6, 1), (6, 15)), ((6, 5), (6, 19))),
    "begun": (BEGUN, ((6, 3), (6, 8)), ((6, 7), (6, 12))),
    "over": (OVER, ((6, 10), (6, 15)), ((8, 10), (8, 15))),
    "over, with the whole": (OVER, *OVER),
    "over the change of clocks": (CLOCKS, ((3, 1), (3, 16)), ((3, 20), (4, 4))),
    "over the change of clocks, inside": (CLOCKS, ((3, 3), (3, 16)), ((3, 22), (4, 4))),
}


@pytest.mark.parametrize("case", LINES)
def test_a_line_moves_as_it_must(case: str) -> None:
    (before, after), line, to = LINES[case]
    assert line_flight(flight(line), flight(before), flight(after), ZONE) == flight(to)


@pytest.mark.parametrize(
    ("package", "to"),
    [
        (((3, 1), (3, 16)), ((3, 20), (4, 4))),
        (((3, 1), (3, 25)), ((3, 20), (3, 25))),
        (((3, 25), (3, 28)), ((3, 25), (3, 28))),
    ],
    ids=["over", "begun", "ahead"],
)
def test_a_late_change_keeps_its_days(package: Days, to: Days) -> None:
    def named(days: Days) -> dict[str, object]:
        dates = flight(days)
        return {"packages": [{"start_time": dates.start.isoformat(), "end_time": dates.end.isoformat()}]}

    found = change_redated(named(package), day(3, 20), ZONE)["packages"][0]
    moments = {name: datetime.fromisoformat(str(at)) for name, at in found.items()}
    assert moments == {"start_time": day(*to[0]), "end_time": day(*to[1])}
