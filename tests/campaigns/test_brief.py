"""Validation of a brief: every problem is named at once, by its field; a right one keeps its numbers."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from campaigns.brief import brief_kept, brief_validate
from tests.campaigns.briefs import NOW, brief


def problems_of(raw: object) -> dict[str, str]:
    """Field to problem; there is no brief beside a problem."""
    found, problems = brief_validate(raw, now=NOW)
    assert found is None
    assert all(set(problem) == {"field", "problem"} for problem in problems)
    return {problem["field"]: problem["problem"] for problem in problems}


def test_a_right_brief_has_no_problem_and_exact_numbers() -> None:
    found, problems = brief_validate(brief(budget__total=250_000.1, objective__target=0.1), now=NOW)

    assert problems == []
    assert found is not None
    assert found.budget.total == Decimal("250000.1")
    assert found.objective.target == Decimal("0.1")
    assert [wish.channel for wish in found.channels] == ["display", "ctv"]
    assert [wish.weight for wish in found.channels] == [1, 2]


def test_the_flight_is_whole_days_in_its_zone() -> None:
    found, _ = brief_validate(brief(), now=NOW)

    assert found is not None
    assert found.flight.start_at == datetime(2030, 4, 1, 4, tzinfo=UTC)
    assert found.flight.end_at == datetime(2030, 5, 1, 4, tzinfo=UTC)


def test_relative_days_count_from_today() -> None:
    found, _ = brief_validate(brief(flight__start="+14d", flight__end="+41d"), now=NOW)

    assert found is not None
    assert found.flight.start == date(2030, 3, 15)
    assert found.flight.end - found.flight.start == timedelta(days=27)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("budget.total", -250_000, "greater than 0"),
        ("budget.total", 0, "greater than 0"),
        ("budget.total", "NaN", "no amount"),
        ("budget.total", "inf", "no amount"),
        ("budget.total", 1e300, "at most 24 digits"),
        ("budget.total", True, "must be a number"),
        ("budget.total", "a lot", "no amount"),
        ("budget.total", "450,50", "450.50 or as 45050"),
        ("budget.total", "100.000", "100.00 or as 100000"),
        ("budget.total", 10**13 + 1, "less than or equal"),
        ("budget.total", 250_000.001, "smallest unit of USD"),
        ("budget.currency", "DOLLARS", "ISO 4217"),
        ("flight.zone", "Mars/Olympus", "time zone"),
        ("flight.start", "soon", "must be a date"),
        ("flight.start", 1_900_000_000, "must be a date"),
        ("flight.start", "1900000000", "must be a date"),
        ("flight.start", "2030-02-31", "day is out of range"),
        ("flight.start", "2030-03-01", "not in the future"),
        ("flight.end", "2030-03-31", "before it starts"),
        ("flight.end", "9999-12-31", "less than or equal"),
        ("channels.0.channel", [{"channel": "skywriting"}], "must be"),
        ("channels", [], "at least 1"),
        ("channels", "display", "valid tuple"),
        ("channels", ["ctv", "ctv"], "named twice"),
        ("channels.0", [{"channel": "ctv", "fixed": 10, "minimum": 5}, "olv"], "exclude each other"),
        ("channels", [{"channel": "ctv", "fixed": 300_000}], "more than the budget"),
        ("channels", ["ctv", {"channel": "olv", "minimum": 250_000.01}], "more than the budget"),
        ("channels", [{"channel": "ctv", "fixed": 10}], "without a channel"),
        ("channels.1.minimum", ["ctv", {"channel": "olv", "minimum": 10.005}], "smallest unit"),
        ("channels.1.fixed", ["ctv", {"channel": "olv", "fixed": 10.005}], "smallest unit"),
        ("channels.0.weight", [{"channel": "ctv", "weight": "1e-900"}], "no amount"),
        ("channels.0.weight", [{"channel": "ctv", "weight": "1e-9"}], "greater than or equal"),
        ("geography.countries.0", ["usa"], "country code"),
        ("geography.countries", [], "at least 1"),
        ("geography.countries", ["US"] * 301, "at most 300 items"),
        ("geography.regions", ["US-IL"] * 501, "at most 500 items"),
        ("geography.regions.0", ["Illinois"], "no region of ISO 3166-2"),
        ("geography", {"countries": ["US"], "regions": ["CA-ON"]}, "lie in CA"),
        ("geography", {"countries": ["US", "CA"], "regions": ["US-IL"]}, "CA has none"),
        ("formats", ["x"] * 101, "at most 100 items"),
        ("measurement", ["x"] * 101, "at most 100 items"),
        ("constraints.excluded_sellers", ["x"] * 101, "at most 100 items"),
        ("brand_domain", "not a domain", "no domain"),
        ("brand_domain", "-bad.com", "no domain"),
        ("constraints.ceilings.cpm", -5, "greater than 0"),
        ("constraints.ceilings.cpm", 10**12, "less than"),
        ("constraints.delivery_type", "perhaps", "must be"),
        ("name", " ", "at least 1 character"),
        ("name", 7, "valid string"),
        ("budget.total", "1_000", "no amount"),
        ("budget.total", "\u0661\u0660", "no amount"),
        ("budget.total", "9" * 1_000_000, "no amount"),
        ("budget.total", 10**700, "at most 24 digits"),
        ("objective.target", "1e" + "9" * 100_000, "no amount"),
        ("surprise", 1, "is not a field of a brief"),
    ],
)
def test_each_wrong_field_is_named(field: str, value: Any, said: str) -> None:
    where = re.split(r"\.[0-9]", field)[0].replace(".", "__")

    problems = problems_of(brief(**{where: value}))

    assert list(problems) == [field]
    assert said in problems[field]


def test_every_problem_is_named_at_once() -> None:
    problems = problems_of(
        brief(
            name="",
            budget__total=-1,
            budget__currency="XYZ1",
            flight__zone="Nowhere/At_all",
            flight__start="2030-05-01",
            flight__end="2030-04-01",
            channels=["skywriting", "ctv", "ctv", {"channel": "olv", "fixed": 1, "minimum": 1}],
            geography__countries=["Germany"],
            constraints__ceilings={"cpm": 0, "per_smile": 1},
            misspelt="x",
        )
    )

    assert set(problems) == {
        "name",
        "budget.total",
        "budget.currency",
        "flight.zone",
        "flight.end",
        "channels.0.channel",
        "channels",
        "channels.3",
        "geography.countries.0",
        "constraints.ceilings.cpm",
        "constraints.ceilings.per_smile.[key]",
        "misspelt",
    }


def test_money_is_checked_beside_other_mistakes() -> None:
    problems = problems_of(brief(channels=["skywriting", {"channel": "ctv", "minimum": 250_001}]))

    assert set(problems) == {"channels.0.channel", "channels"}
    assert "250001, more than the budget of 250000" in problems["channels"]


def test_missing_fields_are_each_named() -> None:
    assert set(problems_of({})) == {
        "name", "advertiser", "brand_domain", "objective", "budget", "flight", "channels", "geography",
    }  # fmt: skip


@pytest.mark.parametrize("raw", [None, 3, "text", [], [brief()]])
def test_what_is_no_object_is_one_problem(raw: object) -> None:
    assert list(problems_of(raw)) == ["brief"]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.decimals(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_PATHS = st.sampled_from(
    ["name", "brand_domain", "objective", "objective__target", "budget", "budget__total", "budget__currency",
     "flight", "flight__zone", "flight__start", "flight__end", "channels", "audience", "geography",
     "geography__countries", "formats", "measurement", "constraints", "constraints__ceilings"]
)  # fmt: skip


@given(path=_PATHS, value=_VALUES)
def test_any_value_in_any_field_is_taken_or_named(path: str, value: Any) -> None:
    found, problems = brief_validate(brief(**{path: value}), now=NOW)

    assert (found is None) == bool(problems)
    if found is not None:
        assert found.flight.start_at < found.flight.end_at


@given(wishes=st.lists(st.fixed_dictionaries({}, optional={
    "channel": st.sampled_from(["ctv", "olv", "radio"]) | _VALUES, "weight": _VALUES, "minimum": _VALUES,
    "fixed": _VALUES, "more": _VALUES}), max_size=4))  # fmt: skip
def test_any_channels_are_taken_or_named(wishes: list[dict[str, Any]]) -> None:
    found, problems = brief_validate(brief(channels=wishes), now=NOW)

    assert (found is None) == bool(problems)


def test_more_channels_than_are_taken_are_counted_and_not_compared() -> None:
    """Ten thousand of them took minutes: each was looked for among all."""
    channels = [{"channel": "ctv", "fixed": 10, "minimum": 5}] * 9_000
    assert set(problems_of(brief(channels=channels))) == {"channels"}


HUGE = "x" * 100_000


@pytest.mark.parametrize(
    "wrong",
    [
        {"flight__zone": HUGE},
        {"brand_domain": HUGE},
        {"geography__countries": [HUGE] * 300},
        {"geography__regions": [HUGE] * 500},
        {"channels": [HUGE, HUGE]},
        {HUGE: 1},
        {"constraints__ceilings": {f"{HUGE}{n}": 1 for n in range(300)}},
        {f"surprise{n}": 1 for n in range(5_000)},
    ],
    ids=["zone", "domain", "countries", "regions", "channels", "name", "bases", "names"],
)
def test_problems_repeat_no_more_than_names_what_is_wrong(wrong: dict[str, Any]) -> None:
    """They are kept with the campaign, and listed with it."""
    _, problems = brief_validate(brief(**wrong), now=NOW)
    assert problems
    assert len(json.dumps(problems)) < 20_000


def test_what_is_named_twice_is_bought_once() -> None:
    """Its seller confirms it once: it would be booked differently for ever."""
    found, problems = brief_validate(
        brief(geography={"countries": ["US", "US"], "regions": ["US-IL", "US-WI", "US-IL"]}), now=NOW
    )
    assert (found is not None, problems) == (True, [])
    assert found is not None
    assert (found.geography.countries, found.geography.regions) == (("US",), ("US-IL", "US-WI"))


@pytest.mark.parametrize(
    "long",
    [
        {"formats": ["x"] * 101},
        {"measurement": ["x"] * 101},
        {"constraints__excluded_sellers": ["x"] * 101},
        {"geography__countries": ["US"] * 301},
    ],
    ids=["formats", "measurement", "sellers", "countries"],
)
def test_a_brief_that_is_kept_may_be_longer_than_what_comes_today(long: dict[str, Any]) -> None:
    assert brief_validate(brief(**long), now=NOW)[0] is None
    assert brief_kept(brief(**long), now=NOW)[1] == []
