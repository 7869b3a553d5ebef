"""The split of a budget: exact to the minor unit in any currency, minimums and fixed amounts kept."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from campaigns.allocation import allocate
from campaigns.brief import Brief, brief_validate
from tasks_app import money
from tests.campaigns.briefs import NOW, brief

_CHANNELS = ("display", "olv", "ctv", "linear_tv", "radio", "streaming_audio", "podcast", "dooh")
_CURRENCIES = ("USD", "EUR", "JPY", "KRW", "KWD", "BHD", "CLF", "ISK")


def shares_of(**changed: Any) -> dict[str, Decimal]:
    found, problems = brief_validate(brief(**changed), now=NOW)
    assert found is not None, problems
    return allocate(found.budget, found.channels)


@st.composite
def valid_briefs(draw: st.DrawFn) -> Brief:
    """Any budget and channels that validation lets through."""
    currency = draw(st.sampled_from(_CURRENCIES))
    unit = money.unit(currency)
    total = draw(st.integers(1, 10**12)) * unit
    wishes = []
    left = total
    for name in draw(st.lists(st.sampled_from(_CHANNELS), min_size=1, unique=True)):
        wish: dict[str, Any] = {"channel": name, "weight": draw(_WEIGHTS)}
        bound = draw(st.sampled_from(["", "", "minimum", "fixed"]))
        most = int(left / unit)
        if bound and most:
            amount = draw(st.integers(1, most)) * unit
            wish[bound] = str(amount)
            left -= amount
        wishes.append(wish)
    found, problems = brief_validate(
        brief(budget={"total": str(total), "currency": currency}, channels=wishes), now=NOW
    )
    assume(not any("without a channel" in problem["problem"] for problem in problems))
    assert found is not None, problems
    return found


_WEIGHTS = (
    st.decimals("0.001", "1000", allow_nan=False).map(str) | st.integers(1, 5) | st.just("0.333333333333")
)


@given(valid_briefs())
def test_the_parts_are_whole_units_and_add_up_exactly(found: Brief) -> None:
    parts = allocate(found.budget, found.channels)

    assert sum(parts.values()) == found.budget.total
    unit = money.unit(found.budget.currency)
    assert all(amount > 0 and amount % unit == 0 for amount in parts.values())


@given(valid_briefs())
def test_fixed_amounts_are_kept_and_minimums_reached(found: Brief) -> None:
    parts = allocate(found.budget, found.channels)

    for wish in found.channels:
        if wish.fixed is not None:
            assert parts[wish.channel] == wish.fixed
        if wish.minimum is not None:
            assert parts[wish.channel] >= wish.minimum


@given(valid_briefs())
def test_more_weight_is_never_less_money(found: Brief) -> None:
    parts = allocate(found.budget, found.channels)
    unit = money.unit(found.budget.currency)
    free = [wish for wish in found.channels if wish.fixed is None and wish.minimum is None]

    for heavy in free:
        for light in free:
            if heavy.weight >= light.weight:
                assert parts.get(heavy.channel, 0) >= parts.get(light.channel, 0) - unit


def test_thirds_of_a_hundred_dollars() -> None:
    shares = shares_of(budget__total=100, channels=["olv", "ctv", "radio"])

    assert sorted(shares.values()) == [Decimal("33.33"), Decimal("33.33"), Decimal("33.34")]


def test_yen_have_no_smaller_unit() -> None:
    shares = shares_of(budget={"total": 100, "currency": "JPY"}, channels=["olv", "ctv", "radio"])

    assert sorted(shares.values()) == [33, 33, 34]


def test_a_minimum_takes_from_the_others_by_their_weight() -> None:
    shares = shares_of(
        budget__total=1000,
        channels=["olv", {"channel": "radio", "weight": 2}, {"channel": "ctv", "minimum": 700}],
    )

    assert shares == {"ctv": 700, "olv": 100, "radio": 200}


def test_a_channel_that_would_get_nothing_is_left_out() -> None:
    assert shares_of(budget__total=100, channels=["olv", {"channel": "ctv", "fixed": 100}]) == {"ctv": 100}


def test_what_is_left_over_goes_to_the_largest_remainders_first() -> None:
    weights = {"a": Decimal("1.1"), "b": Decimal("1.9"), "c": Decimal("1.5"), "d": Decimal("5.5")}
    assert money.split(Decimal(10), weights, "JPY") == {"a": 1, "b": 2, "c": 2, "d": 5}, "alike: by name"
    thirds = dict.fromkeys(("c", "b", "a"), Decimal(1))
    assert money.split(Decimal("0.02"), thirds, "USD") == {
        "a": Decimal("0.01"), "b": Decimal("0.01"), "c": 0,
    }  # fmt: skip


@pytest.mark.parametrize("weights", [{}, {"a": Decimal(0)}, {"a": Decimal(1), "b": Decimal(-1)}])
def test_nothing_is_split_by_no_weight(weights: dict[str, Decimal]) -> None:
    with pytest.raises(ValueError, match=r"^nothing to split by: no weight is above zero$"):
        money.split(Decimal(10), weights, "USD")
