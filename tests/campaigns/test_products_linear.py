"""What a campaign makes of a seller's products is at most linear in what the seller answers: the steps that
it takes, what is put forward and what is kept of the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from campaigns.brief import brief_validate
from campaigns.outcome import outcome_kept
from campaigns.proposals import deal_reasons
from campaigns.recommend import pick
from orders.offers import left_out, offers
from tasks_app.sellers.models import Seller
from tests.campaigns.briefs import NOW, brief
from tests.unsaved import unsaved
from tests.webhooks.work_counted import counted

SELLER = unsaved(Seller, slug="norrland-digital", name="Norrland Digital")
WANTED = {
    "channels": ["ctv", "olv"],
    "formats": ["video_hosted"],
    "measurement": ["viewability"],
    "geography": {"countries": ["US"], "regions": ["US-IL", "US-WI"]},
}
Json = dict[str, Any]


def option(number: int, **stated: Any) -> Json:
    priced = {"pricing_model": "cpm", "currency": "USD", "fixed_price": 10}
    return {"pricing_option_id": f"o{number}", **priced, **stated}


def product(many: int = 1, **stated: Any) -> Json:
    """With as many pricing options."""
    options = [option(number, **stated.pop("priced", {})) for number in range(many)]
    return {"product_id": "p", "name": "P", "channels": ["olv", "ctv"], "pricing_options": options, **stated}


def flat_rates(many: int) -> list[Json]:
    priced = {"pricing_model": "flat_rate", "fixed_price": 0.01}
    return [product(product_id=f"p{number}", priced=priced) for number in range(many)]


# By what a seller may have much of; twice as much of it, twice as large an answer.
ANSWERS: dict[str, Callable[[int], list[Json]]] = {
    "options": lambda many: [product(many)],
    "options and a name": lambda many: [product(many, name="n" * 100 * many)],
    "options and channels": lambda many: [product(many, channels=[f"channel {n}" for n in range(10 * many)])],
    "options and a channel": lambda many: [product(many, channels=["c" * 100 * many])],
    "options and formats": lambda many: [
        product(many, format_options=[{"format_kind": f"image {number}"} for number in range(many)])
    ],
    "options and a format": lambda many: [
        product(many, channels=None, format_options=[{"format_kind": "f" * 100 * many}])
    ],
    "options and metrics": lambda many: [
        product(many, reporting_capabilities={"available_metrics": [f"metric {n}" for n in range(many)]})
    ],
    "options and vendors": lambda many: [
        product(many, delivery_measurement={"vendors": [{"domain": f"{n}.example"} for n in range(many)]})
    ],
    "options and regions": lambda many: [
        product(
            many,
            overlay_support={
                "geo_regions": {"countries": {"US": {"values": [f"US-{n}" for n in range(many)]}}}
            },
        )
    ],
    "options and a hold": lambda many: [product(many, expires_at="2030-" * many)],
    "options and a delivery type": lambda many: [product(many, delivery_type="d" * 100 * many)],
    "options and properties": lambda many: [
        product(many, channels=None, publisher_properties=[{"property_type": "ctv_app"}] * many)
    ],
    "currencies": lambda many: [product(priced={"currency": "C" * 100 * many})] * 20,
    "prices": lambda many: [product(priced={"fixed_price": "p" * 100 * many})] * 20,
    "products": lambda many: [product(product_id=f"p{number}") for number in range(many)],
    "the same product": lambda many: [product()] * many,
    "products at a flat rate": flat_rates,
    "products without a price": lambda many: [product(0, product_id=f"p{number}") for number in range(many)],
}


def made_of(products: list[Json]) -> Any:
    """What the step `recommend` stores of one seller's answer."""
    found, problems = brief_validate(brief(**WANTED), now=NOW)
    assert found is not None, problems
    shares = {"ctv": Decimal(10_000), "olv": Decimal(10_000)}
    picks, passed = pick(found, shares, offers(SELLER, products, {}), now=NOW)
    unread = [vars(one) for one in left_out(SELLER, products)]
    return {
        "reasons": deal_reasons(found, picks, passed) if picks else {},
        "outcome": outcome_kept([*(vars(one) for one in passed), *unread]),
        "lines": [(one.offer.terms, one.offer.product.name, one.channel) for one in picks],
    }


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_each_part_of_an_answer_costs_the_same_however_much_there_is(
    answer: Callable[[int], list[Json]],
) -> None:
    """Were one part looked at anew for each other one, twice as much would be four times the work."""
    (few, _, _), (many, _, _) = (counted(made_of, answer(size)) for size in (200, 400))
    assert many < 2.5 * few


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_what_is_stored_of_an_answer_is_no_larger_than_people_can_read(
    answer: Callable[[int], list[Json]],
) -> None:
    products = answer(1_500)
    assert len(json.dumps(made_of(products), default=str)) < 3_000_000
