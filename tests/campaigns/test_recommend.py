"""Which offers are put forward: within share, ceiling and the seller's minimum, ranked by stated facts."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from campaigns.brief import RATE_BASES, Brief, brief_validate
from campaigns.recommend import PassedOver, Pick, pick
from orders.offers import Offer, forecast_of, offers
from tasks_app import money
from tasks_app.sellers.models import Seller
from tests.campaigns.briefs import NOW, brief

SHARE = Decimal(1000)
NORRLAND, QUILL = (
    Seller(slug="norrland-digital", name="Norrland Digital"),
    Seller(slug="quill-audio", name="Quill Audio"),
)


def brief_with(**changed: Any) -> Brief:
    found, problems = brief_validate(brief(**changed), now=NOW)
    assert found is not None, problems
    return found


def product(name: str = "pre-roll", **changed: Any) -> dict[str, Any]:
    option = {"pricing_option_id": "cpm-fixed", "pricing_model": "cpm", "currency": "USD", "fixed_price": 10}
    option |= changed.pop("option", {})
    return {"product_id": name, "name": name, "channels": ["olv"], "pricing_options": [option], **changed}


def auction(**option: Any) -> dict[str, Any]:
    return product(option={"fixed_price": None, **option})


def picked(
    found: Brief,
    *products: dict[str, Any],
    shares: dict[str, Decimal] | None = None,
    seller: Seller = NORRLAND,
) -> tuple[list[Pick], list[PassedOver]]:
    ceilings: dict[Any, Decimal] = {**found.constraints.ceilings}
    offered = offers(seller, list(products), ceilings)
    return pick(found, shares or {"olv": SHARE}, offered, now=NOW)


def only_reason(found: Brief, *products: dict[str, Any]) -> str:
    picks, passed = picked(found, *products)
    assert picks == []
    assert len(passed) == 1
    return passed[0].why


def test_a_fitting_offer_gets_the_share() -> None:
    picks, passed = picked(brief_with(), product())

    assert passed == []
    assert [(one.offer.product_id, one.channel, one.budget) for one in picks] == [("pre-roll", "olv", SHARE)]
    assert all(match.met for match in picks[0].matches)
    assert picks[0].offer.units(picks[0].budget) == 100_000


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"option": {"currency": "EUR"}}, "sold in EUR"),
        ({"option": {"currency": None}}, "sold in"),
        ({"option": {"fixed_price": 10.01}}, "above the ceiling of 10"),
        ({"option": {"fixed_price": None}}, "no price"),
        ({"option": {"fixed_price": 0}}, "no price"),
        ({"option": {"fixed_price": -3}}, "no price"),
        ({"option": {"fixed_price": "many"}}, "no price"),
        ({"option": {"fixed_price": 1e-9}}, "too small"),
        ({"option": {"pricing_model": "cpc", "fixed_price": 1e300}}, "above the channel's share"),
        ({"option": {"pricing_model": "flat_rate", "fixed_price": 1000.01}}, "above the channel's share"),
        ({"option": {"pricing_model": "flat_rate", "fixed_price": 900.005}}, "finer than the smallest unit"),
        ({"option": {"pricing_model": "per_smile" * 99}}, "none we know"),
        ({"option": {"min_spend_per_package": 1000.01}}, "minimum of 1000.01 is above"),
        ({"delivery_type": "non_guaranteed"}, "is not guaranteed"),
        ({"expires_at": NOW.isoformat()}, "has expired"),
    ],
)
def test_what_cannot_be_taken_says_why(changed: dict[str, Any], why: str) -> None:
    wanted = brief_with(constraints={"ceilings": {"cpm": 10}, "delivery_type": "guaranteed"})

    assert why in only_reason(wanted, product(**{"delivery_type": "guaranteed", **changed}))


@pytest.mark.parametrize(
    "answer",
    [
        None, {}, "products", [None, 1, "x"], [{"product_id": 7}], [{"product_id": "a"}],
        [{"product_id": "a", "pricing_options": {}}], [product("")], [product("x" * 256)],
        [product(option={"pricing_option_id": None})], [product(option={"pricing_option_id": "x" * 256})],
    ],
)  # fmt: skip
def test_what_cannot_be_read_or_ordered_is_no_offer(answer: Any) -> None:
    assert list(offers(NORRLAND, answer, {})) == []


@pytest.mark.parametrize(
    ("option", "ceiling", "bid"),
    [
        ({"floor_price": 4}, None, 4),
        ({"floor_price": 4, "price_guidance": {"p50": 7}}, None, 7),
        ({"floor_price": 4, "price_guidance": {"p50": 7}}, 5, 5),
        ({"floor_price": 4, "price_guidance": {"p50": 3}}, None, 4),
        ({"price_guidance": {"p50": 7}}, None, 7),
        ({"floor_price": 0, "price_guidance": {"p50": 7}}, 6, 6),
        ({}, 5, None),
    ],
)
def test_what_is_bid_in_an_auction(option: dict[str, Any], ceiling: int | None, bid: int | None) -> None:
    ceilings = {} if ceiling is None else {"cpm": Decimal(ceiling)}

    (offer,) = offers(NORRLAND, [auction(**option)], ceilings)

    assert (offer.rate, offer.is_fixed) == (bid, False)


def test_a_floor_above_the_ceiling_is_passed_over() -> None:
    wanted = brief_with(constraints={"ceilings": {"cpm": 5}})

    assert "cpm 6 is above the ceiling of 5" in only_reason(wanted, auction(floor_price=6))


def test_a_flat_rate_takes_its_price_and_leaves_the_rest() -> None:
    takeover = product("takeover", option={"pricing_model": "flat_rate", "fixed_price": 600})
    rest = product("zz-rest", option={"min_spend_per_package": 400})

    picks, passed = picked(brief_with(), rest, takeover, shares={"olv": SHARE})
    budgets = {one.offer.product_id: one.budget for one in picks}

    assert passed == []
    assert budgets in ({"takeover": 600, "zz-rest": 400}, {"zz-rest": 1000})
    assert budgets == {"takeover": 600, "zz-rest": 400}


def test_the_rest_is_not_pressed_below_a_minimum() -> None:
    takeover = product("takeover", option={"pricing_model": "flat_rate", "fixed_price": 600})
    rest = product("zz-rest", option={"min_spend_per_package": 400.01})

    picks, passed = picked(brief_with(), rest, takeover)

    assert [one.offer.product_id for one in picks] == ["takeover"]
    assert [other.product for other in passed] == ["zz-rest"]


def test_more_matches_come_first_then_the_rate_against_the_ceiling_then_a_forecast() -> None:
    wanted = brief_with(formats=["video"], measurement=["viewability"], constraints={"ceilings": {"cpm": 20}})
    video = {"format_options": [{"format_kind": "video"}]}
    measured = {"reporting_capabilities": {"available_metrics": ["viewability"]}}
    forecast = {"forecast": {"method": "modeled", "points": []}}
    best_first = [
        product("b-matches-all", **video, **measured, option={"fixed_price": 19}),
        product("z-cheap-with-forecast", **video, **forecast, option={"fixed_price": 8}),
        product("a-cheap", **video, option={"fixed_price": 8}),
        product("a-dear", **video, option={"fixed_price": 9}),
        product("a-nothing-stated"),
    ]
    left = best_first[::-1]

    for expected in best_first:
        picks, _ = picked(wanted, *left)
        assert picks[0].offer.product_id == expected["product_id"]
        left = [other for other in left if other is not expected]


def test_an_unmet_requirement_says_what_is_missing() -> None:
    wanted = brief_with(formats=["video"], measurement=["viewability", "brand_lift"])
    stated = product(
        format_options=[{"format_kind": "image"}],
        reporting_capabilities={"available_metrics": ["viewability"]},
    )

    picks, _ = picked(wanted, stated)
    unmet = {match.name: match.detail for match in picks[0].matches if not match.met}

    assert unmet == {"format": "takes image", "measurement": "does not state brand_lift"}


def test_one_product_is_taken_once_for_a_channel() -> None:
    flat = {"pricing_model": "flat_rate", "currency": "USD"}
    twice = product()
    twice["pricing_options"] = [
        {**flat, "pricing_option_id": "week", "fixed_price": 300},
        {**flat, "pricing_option_id": "day", "fixed_price": 100},
    ]

    picks, passed = picked(brief_with(), twice)

    assert len(picks) == 1
    assert [other.why for other in passed] == ["the same product was taken at another price"]


_JUNK = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers())
)
_PRICES = st.decimals("0.0001", "3000", places=4).map(float) | st.integers(1, 2000) | _JUNK
_OPTIONS = st.fixed_dictionaries(
    {
        "pricing_option_id": st.sampled_from(["a", "b", "c"]) | _JUNK,
        "pricing_model": st.sampled_from(sorted(RATE_BASES)) | _JUNK,
        "currency": st.sampled_from(["USD", "USD", "USD", "EUR"]) | _JUNK,
    },
    optional={
        "fixed_price": _PRICES,
        "floor_price": _PRICES,
        "min_spend_per_package": _PRICES,
        "price_guidance": st.fixed_dictionaries({}, optional={"p50": _PRICES}) | _JUNK,
    },
)
_PRODUCTS = st.fixed_dictionaries(
    {
        "product_id": st.sampled_from(["p1", "p2", "p3"]) | _JUNK,
        "channels": st.lists(st.sampled_from(["olv", "ctv"]), max_size=2) | _JUNK,
        "pricing_options": st.lists(_OPTIONS, max_size=3) | _JUNK,
    },
    optional={
        "name": _JUNK,
        "delivery_type": st.sampled_from(["guaranteed", "non_guaranteed"]) | _JUNK,
        "expires_at": st.sampled_from([(NOW + timedelta(days=d)).isoformat() for d in (-1, 1)]) | _JUNK,
        "forecast": st.just({"method": "modeled"}) | _JUNK,
        "format_options": st.lists(st.just({"format_kind": "video"}) | _JUNK) | _JUNK,
        "reporting_capabilities": st.just({"available_metrics": ["viewability", 1]}) | _JUNK,
        "delivery_measurement": st.just({"vendors": [{"domain": "viewability"}, 3]}) | _JUNK,
    },
)
_SHARES = st.dictionaries(
    st.sampled_from(["olv", "ctv"]),
    st.integers(1, 200_000).map(lambda cents: Decimal(cents) / 100),
    min_size=1,
)


@given(theirs=st.lists(_PRODUCTS, max_size=5), others=st.lists(_PRODUCTS, max_size=3), shares=_SHARES)
def test_whatever_sellers_answer_the_limits_hold(
    theirs: list[Any], others: list[Any], shares: dict[str, Decimal]
) -> None:
    wanted = brief_with(
        formats=["video"], measurement=["viewability"], constraints={"ceilings": {"cpm": 20, "cpc": 2}}
    )
    ceilings: dict[Any, Decimal] = {**wanted.constraints.ceilings}
    found = [*offers(NORRLAND, theirs, ceilings), *offers(QUILL, others, ceilings)]

    picks, passed = pick(wanted, shares, found, now=NOW)

    spent: Counter[str] = Counter()
    for one in picks:
        spent[one.channel] += one.budget  # type: ignore[assignment]
        assert_storable_and_fitting(one, wanted)
    assert all(spent[channel] <= share for channel, share in shares.items())
    considered = sum(channel in offer.channels for channel in shares for offer in found)
    assert len(picks) + len(passed) == considered
    assert all(other.why for other in passed)


def assert_storable_and_fitting(one: Pick, wanted: Brief) -> None:
    offer: Offer = one.offer
    assert one.channel in offer.channels
    assert offer.rate is not None
    assert 0 < offer.rate <= one.budget
    assert one.budget == money.floor_to_unit(one.budget, "USD")
    assert one.budget >= (offer.minimum or 0)
    assert offer.rate <= wanted.constraints.ceilings.get(offer.model, offer.rate)  # type: ignore[call-overload]
    assert (offer.units(one.budget) or 0) < 10**19
    assert isinstance(forecast_of(offer.product), dict)
