"""Limits of ratios, as every bench judges by them."""

from __future__ import annotations

import pytest

from bench.ratios import LIMITS, broken, table

# What each bench has to tell beside its trends.
_AGREED = {
    "wakeup_ratio": (1, False),
    "fanout_ratio": (1.5, True),
    "claim_ratio": (2, False),
    "verify_ratio": (0.5, True),
    "flood_page_ratio": (2, False),
    "flood_webhook_ratio": (2, False),
    "hostile_body_ratio": (2, False),
    "stream_end_ratio": (1, False),
}
_PAGES = ("queue", "dashboard", "search", "campaign", "decide")


@pytest.mark.parametrize("name", _AGREED)
def test_what_was_agreed_is_the_limit(name: str) -> None:
    assert (LIMITS[name].bound, LIMITS[name].least) == _AGREED[name]


@pytest.mark.parametrize("kind", _PAGES)
def test_each_kind_of_page_has_a_limit_of_its_own(kind: str) -> None:
    limit = LIMITS[f"{kind}_ratio"]
    assert limit.bound > 0
    assert not limit.least


@pytest.mark.parametrize("name", LIMITS)
def test_a_ratio_holds_at_its_limit_and_not_past_it(name: str) -> None:
    limit = LIMITS[name]
    worse = limit.bound - 0.01 if limit.least else limit.bound + 0.01
    assert broken({name: limit.bound}) == []
    assert broken({name: worse}) == [name]
    assert "DOES NOT HOLD" in table({name: worse})
    assert "DOES NOT HOLD" not in table({name: limit.bound})


def test_what_has_no_limit_is_a_trend_and_what_was_not_measured_is_not_judged() -> None:
    assert broken({"queue_ms": 10_000.0}) == []
    assert table({"queue_ms": 10_000.0}) == ""
