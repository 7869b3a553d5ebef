"""The columns of a deal that hold what its seller says of the media buy. Without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orders.confirmation import mirror, stated_at, values_unread
from tasks_app import clock

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
START, END = datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
LATER = END + timedelta(days=3)


def told(buy: dict[str, Any], asked_at: datetime | None = None) -> dict[str, Any]:
    with clock.injected(lambda: NOW):
        return mirror(buy, asked_at=asked_at)


def test_the_mirror_takes_what_is_told_within_its_columns() -> None:
    stated = {
        "media_buy_id": "i" * 255,
        "media_buy_status": "active",
        "status": "completed",
        "revision": 2**31 - 1,
        "valid_actions": ["pause", 3, "cancel"],
        "confirmed_at": START.isoformat(),
        "creative_deadline": END.isoformat(),
        "status_as_of": NOW.isoformat(),
    }
    assert told(stated, LATER) == {
        "as_of": NOW,
        "media_buy_id": "i" * 255,
        "media_buy_status": "active",
        "revision": 2**31 - 1,
        "valid_actions": ["pause", "cancel"],
        "confirmed_at": START,
        "creative_deadline": END,
    }
    assert told({"media_buy_id": "1"})["media_buy_id"] == "1"
    assert told({"media_buy_id": 7})["media_buy_id"] == "7"
    assert told({"status": "y" * 300, "revision": 0}) == {
        "as_of": NOW,
        "media_buy_status": "y" * 40,
        "revision": 0,
    }


@pytest.mark.parametrize(
    "odd",
    [
        *({"media_buy_id": ""}, {"media_buy_id": "i" * 256}, {"media_buy_id": ["7"]}, {"media_buy_id": None}),
        *({"revision": -1}, {"revision": 2**31}, {"revision": True}, {"revision": 1.0}, {"revision": "1"}),
        *({"valid_actions": "pause"}, {"status": 7}, {"creative_deadline": "soon"}, {"confirmed_at": 1}),
    ],
    ids=[
        *(
            "no-id",
            "long-id",
            "list-as-id",
            "null-id",
            "negative",
            "too-large",
            "truth",
            "fraction",
            "text",
        ),
        *("actions", "status", "deadline", "confirmed"),
    ],
)
def test_what_the_columns_do_not_hold_is_no_value(odd: dict[str, Any]) -> None:
    assert told(odd, LATER) == {"as_of": LATER}


@pytest.mark.parametrize(
    ("ahead", "believed"),
    [(timedelta(minutes=5), True), (timedelta(minutes=5, seconds=1), False), (-timedelta(days=9), True)],
    ids=["five-minutes", "more", "long-ago"],
)
def test_a_clock_that_is_ahead_is_not_believed(ahead: timedelta, believed: bool) -> None:
    with clock.injected(lambda: NOW):
        assert stated_at({"status_as_of": (NOW + ahead).isoformat()}) == (NOW + ahead if believed else None)


def test_moments_that_nobody_can_read_stay_until_one_can() -> None:
    known = {"creative_deadline": "soon", "confirmed_at": "then"}
    assert values_unread(known, {}) == known
    assert values_unread(known, {"creative_deadline": END.isoformat(), "status_as_of": 3}) == {
        "confirmed_at": "then",
        "status_as_of": "3",
    }
    assert values_unread({}, {"creative_deadline": None, "start_time": "x"}) == {}
    assert values_unread({}, {"confirmed_at": "yesterday"}) == {"confirmed_at": "yesterday"}
