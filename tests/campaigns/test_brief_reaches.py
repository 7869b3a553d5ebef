"""Nothing that a brief asks for is taken and then forgotten: each of its fields changes what sellers are
asked for, how the budget is split, what is picked or bought, or at least what people read of it."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from campaigns.allocation import allocate
from campaigns.brief import Brief, brief_validate
from campaigns.models import Campaign
from campaigns.presenters import brief_facts
from campaigns.recommend import pick, products_wanted
from campaigns.services import campaign_brief, sellers_for
from orders.offers import offers
from tasks_app.sellers.models import Seller
from tests.campaigns.briefs import NOW, brief
from tests.factories import make_seller
from tests.unsaved import unsaved

SELLER = unsaved(Seller, slug="norrland-digital", name="Norrland Digital")
# What a brief says with another value there, and where that is seen.
REACHES: dict[str, tuple[Any, str]] = {
    "name": ("Another", "asked"),
    "objective.goal": ("Another", "asked"),
    "objective.kpi": ("clicks", "read"),
    "objective.target": (7, "read"),
    "budget.total": (200_000, "split"),
    "budget.currency": ("EUR", "picked"),
    "flight.zone": ("UTC", "kept"),
    "flight.start": ("2030-04-02", "asked"),
    "flight.end": ("2030-05-02", "asked"),
    "channels.channel": ([{"channel": "olv", "weight": 2}], "asked"),
    "channels.weight": (["display", {"channel": "ctv", "weight": 9}], "split"),
    "channels.minimum": (["display", {"channel": "ctv", "minimum": 240_000}], "split"),
    "channels.fixed": (["display", {"channel": "ctv", "fixed": 10_000}], "split"),
    "audience": ("Commuters", "asked"),
    "geography.countries": (["CA"], "bought"),
    "geography.regions": (["US-IL", "US-WI"], "bought"),
    "formats": (["audio_hosted"], "picked"),
    "measurement": (["incremental_reach"], "picked"),
    "constraints.ceilings": ({"cpm": 9}, "picked"),
    "constraints.delivery_type": ("guaranteed", "picked"),
    "booking": ("together", "read"),
}
# Whose campaign it is (test_buyers.py), what policies judge by (tests/orders/test_policies.py), and who is
# not asked at all (below).
ELSEWHERE = {"advertiser", "team", "brand_domain", "policy_categories", "constraints.excluded_sellers"}


def leaves(model: type[BaseModel], path: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        while get_origin(inner) is tuple:
            inner = get_args(inner)[0]
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from leaves(inner, f"{path}{name}.")
        else:
            yield f"{path}{name}"


def test_every_field_is_among_these() -> None:
    assert {*leaves(Brief)} == REACHES.keys() | ELSEWHERE


def seen(raw: dict[str, Any], **product: Any) -> dict[str, Any]:
    """What comes of a brief, by where it is seen."""
    found, problems = brief_validate(raw, now=NOW)
    assert found is not None, problems
    option = {"pricing_option_id": "cpm", "pricing_model": "cpm", "currency": "USD", "fixed_price": 10}
    told = {"name": "p", "channels": ["ctv"], "pricing_options": [option]}
    offered = offers(SELLER, [{"product_id": "p", **told, **product}], {**found.constraints.ceilings})
    picks, passed = pick(found, {"ctv": Decimal(1000)}, offered, now=NOW)
    return {
        "asked": products_wanted(found, brand_domain="lindqvist-coffee.com").model_dump(mode="json"),
        "split": allocate(found.budget, found.channels),
        "picked": [one.matches for one in picks] + [one.why for one in passed],
        "bought": found.geography.targeting,
        "kept": (found.flight.start_at, found.flight.end_at),
        "read": brief_facts(unsaved(Campaign, brief=raw)),
    }


@pytest.mark.parametrize("field", REACHES)
def test_a_field_changes_what_comes_of_the_brief(field: str) -> None:
    value, where = REACHES[field]
    path = "channels" if field.startswith("channels.") else field.replace(".", "__")
    assert seen(brief(**{path: value}))[where] != seen(brief())[where]


@pytest.mark.django_db
@pytest.mark.parametrize("named", ["norrland-digital", "NORRLAND digital"])
def test_a_seller_that_the_brief_leaves_out_is_not_asked(named: str) -> None:
    norrland, quill = make_seller("Norrland Digital"), make_seller("Quill Audio")
    for left_out, asked in (([], [norrland, quill]), ([named], [quill])):
        found, _ = brief_validate(brief(constraints__excluded_sellers=left_out), now=NOW)
        assert found is not None
        assert sorted(sellers_for(found), key=str) == asked


def test_regions_are_asked_for_bought_and_read() -> None:
    """Alone: beside them a seller may read the country as the whole of it."""
    told = seen(brief(geography__regions=["US-IL", "US-WI"]))
    assert "Only in US-IL, US-WI." in told["asked"]["brief"]
    assert told["bought"] == {"geo_regions": ["US-IL", "US-WI"]}
    assert ("Regions", "US-IL, US-WI") in told["read"]
    assert "can be cut to US-IL, US-WI, as its seller declares" in str(told["picked"])


@pytest.mark.parametrize(
    ("channels", "filtered"), [(["dooh", "radio"], ["US-IL"]), (["dooh", "ctv"], None), (["ctv"], None)]
)
def test_regions_filter_what_lies_in_one(channels: list[str], filtered: list[str] | None) -> None:
    """What is sold for a country, and can be cut to regions, might be left out by a seller's filter."""
    asked = seen(brief(channels=channels, geography__regions=["US-IL"]))["asked"]
    assert asked["filters"]["regions"] == filtered


@pytest.mark.parametrize(
    ("support", "taken"),
    [
        (None, True),
        ({"geo_regions": True}, True),
        ({"geo_regions": {"countries": {"US": {"all_values": True}}}}, True),
        ({"geo_regions": {"countries": {"US": {"values": ["US-IL"]}}}}, False),
        ({"geo_regions": {"countries": {"US": {"all_values": True}}, "max_values_per_package": 1}}, False),
        ({"geo_regions": {"countries": {"US": {"all_values": True}}, "max_values_per_package": 2}}, True),
        ({"geo_metros": True}, False),
        ({}, False),
    ],
)
def test_a_product_that_packages_cannot_cut_so_is_passed_over(support: Any, taken: bool) -> None:
    told = seen(brief(geography__regions=["US-IL", "US-WI"]), overlay_support=support)
    assert ("does not let packages be cut to US-IL, US-WI" in str(told["picked"])) is not taken
    assert "does not let" not in str(seen(brief(), overlay_support=support)["picked"])


@pytest.mark.parametrize("regions", [["Illinois"], ["CA-ON"], [7], "US-IL", ["US-IL", "Chicagoland"]])
def test_words_that_were_regions_once_are_read_over_in_a_kept_brief(regions: Any) -> None:
    """Nothing read them when it came: its job goes on as it began."""
    kept = unsaved(Campaign, brief=brief(geography__regions=regions), created_at=NOW)
    assert campaign_brief(kept).geography.targeting == {"geo_countries": ["US"]}


def test_a_kept_briefs_regions_are_bought() -> None:
    kept = unsaved(Campaign, brief=brief(geography__regions=["US-IL"]), created_at=NOW)
    assert campaign_brief(kept).geography.targeting == {"geo_regions": ["US-IL"]}
