"""The day that a seller confirmed beside the one that was approved: told so that they can be told apart."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from orders.presenters import _not
from tasks_app import clock

NEW_YORK = "America/New_York"
MIDNIGHT = datetime(2026, 11, 23, 5, tzinfo=UTC)  # there


@pytest.mark.parametrize(
    ("confirmed", "name", "told"),
    [
        (datetime(2026, 11, 24, 5, tzinfo=UTC), "start", "24 Nov, not 23 Nov"),
        (datetime(2026, 11, 24, 5, tzinfo=UTC), "end", "23 Nov, not 22 Nov"),
        (datetime(2026, 11, 23, 8, tzinfo=UTC), "start", "Mon 23 Nov, 03:00 New York, not Mon 23 Nov"),
        (datetime(2027, 11, 23, 5, tzinfo=UTC), "start", "Tue 23 Nov 2027, not Mon 23 Nov"),
        (datetime(2027, 11, 24, 5, tzinfo=UTC), "start", "Wed 24 Nov 2027, not Mon 23 Nov"),
        (None, "start", "–, not 23 Nov"),
    ],
)
def test_the_hour_and_the_year_are_told_where_the_days_are_the_same(
    confirmed: datetime | None, name: str, told: str
) -> None:
    with clock.injected(lambda: MIDNIGHT):
        words = _not(confirmed, MIDNIGHT, name, NEW_YORK)
    assert words.replace("\u202f", " ").replace("\u00a0", " ") == told
