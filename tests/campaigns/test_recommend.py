"""Which offers are put forward: within share, ceiling and the seller's minimum, ranked by stated facts."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from campaigns.brief import MOST_CHANNELS, RATE_BASES, Brief, brief_validate
from campaigns.recommend import PassedOver, Pick, pick
from orders.offers import Offer, forecast_of, left_out, offers
from orders.terms.matching import MOST_PACKAGES
from tasks_app import money
from tasks_app.desk import terms, text
from tasks_app.sellers.models import Seller
from tests.campaigns.briefs import NOW, brief
from tests.unsaved import unsaved

SHARE = Decimal(1000)
NORRLAND, QUILL = (
    unsaved(Seller, slug="norrland-digital", name="Norrland Digital"),
    unsaved(Seller, slug="quill-audio", name="Quill Audio"),
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
    assert [(one.offer.product.id, one.channel, one.budget) for one in picks] == [("pre-roll", "olv", SHARE)]
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
        ({"option": {"fixed_price": "many"}}, "its price, stated as many, cannot be read"),
        ({"option": {"fixed_price": "1e999999", "floor_price": 5}}, "stated as 1e999999, cannot"),
        ({"option": {"fixed_price": 1e-9}}, "too small"),
        ({"option": {"pricing_model": "cpc", "fixed_price": 1e20}}, "above the channel's share"),
        ({"option": {"pricing_model": "cpc", "fixed_price": 1e300}}, "stated as 1e+300, cannot be read"),
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
    left = list(left_out(NORRLAND, answer))
    assert len(left) == (len(answer) if isinstance(answer, list) else 0), "each is named with its reason"
    assert all(one.why.startswith("has no ") for one in left)


@pytest.mark.parametrize("currency", ["usd", "BTC", "EUR"])
def test_a_forecast_is_told_in_the_currency_that_the_seller_states(currency: str) -> None:
    points = [{"budget": 10_000, "metrics": {"impressions": {"low": 9000, "high": 11_000}}}]
    (offer,) = offers(NORRLAND, [{**product(), "forecast": {"currency": currency, "points": points}}], {})
    shown = terms.forecast(forecast_of(offer.product.stated), Decimal(12_000), "USD")
    assert shown.endswith(f" impressions for {currency}{text.SPACE}{text.amount(10_000, currency)}")


SUPPORTED = {"publisher_domain": "a.example", "supported_channels": ["ctv", "olv"]}


@pytest.mark.parametrize(
    ("stated", "asked", "channels", "source"),
    [
        ({"channels": ["radio"]}, ("olv",), ("radio",), ""),
        ({"channels": []}, ("olv",), ("olv",), "what was asked for"),
        ({}, ("olv", "ctv"), ("olv", "ctv"), "what was asked for"),
        ({}, (), (), ""),
        ({"publisher_properties": [SUPPORTED]}, ("olv", "display"), ("olv",), "its properties"),
        ({"publisher_properties": [{"property_type": "podcast"}]}, ("olv",), ("podcast",), "its properties"),
        ({"publisher_properties": [{"selection_type": "all"}]}, ("ctv",), ("ctv",), "what was asked for"),
        ({"format_options": [{"format_kind": "video_hosted"}]}, ("ctv", "display"), ("ctv",), "its formats"),
        ({"format_ids": [{"agent_url": "x", "id": "display_300x250"}]}, (), ("display",), "its formats"),
        ({"format_ids": ["audio_30s", 7, None]}, ("podcast",), ("podcast",), "its formats"),
        ({"channels": "ctv", "format_options": {}, "publisher_properties": 3}, (), (), ""),
    ],
)
def test_channels_that_are_not_stated_are_read_from_elsewhere_and_marked(
    stated: dict[str, Any], asked: tuple[str, ...], channels: tuple[str, ...], source: str
) -> None:
    offered = {key: value for key, value in product().items() if key != "channels"} | stated
    (offer,) = offers(NORRLAND, [offered], {}, asked=asked)
    assert (offer.product.channels, offer.product.inferred_from) == (channels, source)


def test_an_inferred_channel_is_no_stated_match_and_ranks_behind() -> None:
    silent, said = product("a-silent"), product("said", option={"fixed_price": 10})
    del silent["channels"]
    offered = list(offers(NORRLAND, [silent, said], {}, asked=("olv",)))

    picks, _passed = pick(brief_with(), {"olv": SHARE}, offered, now=NOW)
    assert [one.offer.product.id for one in picks] == ["said"]
    (alone,), _ = pick(brief_with(), {"olv": SHARE}, offered[:1], now=NOW)
    channel = next(match for match in alone.matches if match.name == "channel")
    assert (channel.met, channel.detail) == (False, "olv, inferred from what was asked for")


def test_an_offer_for_another_channel_is_listed_with_its_reason() -> None:
    picks, passed = picked(brief_with(), product(channels=["radio"]), product("mute", channels=None))
    assert picks == []
    assert [one.why for one in passed] == [
        "sold as radio, which the brief does not ask for",
        "states no channel, and neither its properties nor its formats tell one",
    ]


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
    budgets = {one.offer.product.id: one.budget for one in picks}

    assert passed == []
    assert budgets in ({"takeover": 600, "zz-rest": 400}, {"zz-rest": 1000})
    assert budgets == {"takeover": 600, "zz-rest": 400}


def test_the_rest_is_not_pressed_below_a_minimum() -> None:
    takeover = product("takeover", option={"pricing_model": "flat_rate", "fixed_price": 600})
    rest = product("zz-rest", option={"min_spend_per_package": 400.01})

    picks, passed = picked(brief_with(), rest, takeover)

    assert [one.offer.product.id for one in picks] == ["takeover"]
    assert [other.product for other in passed] == ["zz-rest"]


def test_more_matches_come_first_then_the_rate_against_the_ceiling_then_a_forecast() -> None:
    wanted = brief_with(formats=["video"], measurement=["viewability"], constraints={"ceilings": {"cpm": 20}})
    video = {"format_options": [{"format_kind": "video"}]}
    measured = {"reporting_capabilities": {"available_metrics": ["viewability"]}}
    forecast = {"forecast": {"method": "modeled", "points": []}}
    best_first = [
        product("b-matches-all", **video, **measured, option={"fixed_price": 19}),
        product("z-cheap-with-forecast", **video, **forecast, option={"fixed_price": 8}),
        product("n-cheap", **video, option={"fixed_price": 8}),
        product("a-dear", **video, option={"fixed_price": 9}),
        product("a-nothing-stated"),
    ]
    left = best_first[::-1]

    for expected in best_first:
        picks, _ = picked(wanted, *left)
        assert picks[0].offer.product.id == expected["product_id"]
        left = [other for other in left if other is not expected]


def test_rates_of_different_bases_are_ranked_by_their_share_of_the_ceiling() -> None:
    wanted = brief_with(constraints={"ceilings": {"cpm": 20, "cpc": 2}})
    half = product("z-half", option={"pricing_model": "cpm", "fixed_price": 10})
    more = product("m-more", option={"pricing_model": "cpc", "fixed_price": 1.5})
    unbounded = product("a-unbounded", option={"pricing_model": "cpcv", "fixed_price": 0.01})

    for left, first in (((unbounded, more, half), "z-half"), ((unbounded, more), "m-more")):
        assert picked(wanted, *left)[0][0].offer.product.id == first
    dearest = product("b-dearest", option={"pricing_model": "cpm", "fixed_price": 20})
    assert picked(wanted, dearest, unbounded)[0][0].offer.product.id == "a-unbounded", "as if at its ceiling"


def test_what_is_alike_goes_by_seller_product_and_option() -> None:
    twice = product("b")
    (one,) = twice["pricing_options"]
    twice["pricing_options"] = [{**one, "pricing_option_id": name} for name in ("y", "x")]
    offered = [*offers(QUILL, [product("a")], {}), *offers(NORRLAND, [twice, product("c")], {})]
    order = []
    while offered:
        first = pick(brief_with(), {"olv": SHARE}, offered, now=NOW)[0][0].offer
        order.append((first.seller.slug, first.product.id, first.option_id))
        offered.remove(first)

    norrland, quill = NORRLAND.slug, QUILL.slug
    assert order == [
        (norrland, "b", "x"), (norrland, "b", "y"), (norrland, "c", "cpm-fixed"), (quill, "a", "cpm-fixed"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "fits",
    [
        product(option={"min_spend_per_package": 1000}),
        product(option={"fixed_price": 20}),
        product(option={"fixed_price": 0.000001}),
        product(option={"pricing_model": "flat_rate", "fixed_price": 1000}),
    ],
)
def test_what_is_just_within_its_bound_fits(fits: dict[str, Any]) -> None:
    picks, passed = picked(brief_with(constraints={"ceilings": {"cpm": 20}}), fits)
    assert (len(picks), passed) == (1, [])


def test_each_channel_takes_its_own_and_what_is_passed_over_names_it() -> None:
    found = [product("o"), product("r", channels=["radio"]), product("p", channels=["podcast", "dooh"])]
    dear = product("d", channels=["radio"], option={"currency": "EUR"})
    shares = {"olv": SHARE, "radio": Decimal(500)}

    picks, passed = picked(brief_with(), *found, dear, shares=shares)

    assert [(one.channel, one.offer.product.id, one.budget) for one in picks] == [
        ("olv", "o", 1000), ("radio", "r", 500),
    ]  # fmt: skip
    name, option = NORRLAND.name, "cpm-fixed"
    unasked = "sold as podcast, dooh, which the brief does not ask for"
    assert [(one.seller, one.product, one.option, one.channel, one.why) for one in passed] == [
        (name, "p", option, "", unasked),
        (name, "d", option, "radio", "sold in EUR, the brief is in USD"),
    ]


def test_each_match_says_what_was_asked_and_what_is_stated() -> None:
    wanted = brief_with(
        geography={"countries": ["US", "CA"]},
        formats=["video", "image", "audio"],
        measurement=["reach", "a.example"],
    )
    stated = product(
        channels=["olv", "ctv"],
        format_options=[{"format_kind": "video"}, {"format_kind": "audio"}, {"format_kind": "text"}],
        reporting_capabilities={"available_metrics": ["reach"]},
        delivery_measurement={"vendors": [{"domain": "a.example"}, "junk"]},
    )
    (taken,), _ = picked(wanted, stated)
    assert [(match.name, match.met, match.detail) for match in taken.matches] == [
        ("channel", True, "olv, as stated"),
        ("geography", True, "offered for US, CA, as asked"),
        ("dates", True, "offered for 1 Apr 2030 to 30 Apr 2030, as asked"),
        ("format", True, "takes audio, video"),
        ("measurement", True, "states reach, a.example"),
    ]
    (silent,), _ = picked(wanted, product())
    unmet = [(match.name, match.detail) for match in silent.matches if not match.met]
    assert unmet == [("format", "takes no stated format"), ("measurement", "does not state a.example, reach")]
    for junk in (None, 7, "x"):
        unread = {
            "reporting_capabilities": {"available_metrics": junk},
            "delivery_measurement": {"vendors": junk},
        }
        assert not picked(wanted, product(**unread))[0][0].matches[-1].met
    (other,), _ = picked(wanted, product(format_options=[{"format_kind": "text"}, {"format_kind": "html"}]))
    assert [m.detail for m in other.matches if m.name == "format"] == ["takes html, text"]


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


@settings(suppress_health_check=[HealthCheck.too_slow])
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
    considered = sum(channel in offer.product.channels for channel in shares for offer in found)
    nowhere = sum(not shares.keys() & set(offer.product.channels) for offer in found)
    assert len(picks) + len(passed) == considered + nowhere, "what is left out is listed with its reason"
    assert all(other.why for other in passed)


def assert_storable_and_fitting(one: Pick, wanted: Brief) -> None:
    offer: Offer = one.offer
    assert one.channel in offer.product.channels
    assert offer.rate is not None
    assert 0 < offer.rate <= one.budget
    assert one.budget == money.floor_to_unit(one.budget, "USD")
    assert one.budget >= (offer.minimum or 0)
    assert offer.rate <= wanted.constraints.ceilings.get(offer.model, offer.rate)  # type: ignore[call-overload]
    assert (offer.units(one.budget) or 0) < 10**19
    assert isinstance(forecast_of(offer.product.stated), dict)


def test_a_share_is_split_among_no_more_flat_rates_than_a_buy_is_read_back_with() -> None:
    cheap = {"pricing_model": "flat_rate", "fixed_price": 1}
    picks, passed = picked(brief_with(), *(product(f"p{number:02}", option=cheap) for number in range(60)))
    assert [one.offer.product.id for one in picks] == [f"p{number:02}" for number in range(50)]
    assert {one.why for one in passed} == {"50 others match as well or better"}
    assert len(picks) * MOST_CHANNELS <= MOST_PACKAGES


def test_of_many_formats_that_nobody_wants_a_few_are_named() -> None:
    kinds = [{"format_kind": f"kind {number:02}"} for number in range(60)]
    wanted = brief_with(formats=["video"])
    (taken,), _ = picked(wanted, product(format_options=[*kinds, {"format_kind": None}, None]))
    (found,) = (one for one in taken.matches if one.name == "format")
    assert found.detail == "takes " + ", ".join(f"kind {number:02}" for number in range(10))
    (taken,), _ = picked(wanted, product(format_options=[*kinds, {"format_kind": "video"}]))
    assert "takes video" in [one.detail for one in taken.matches]
