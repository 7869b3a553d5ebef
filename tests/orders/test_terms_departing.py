"""Flights and targeting as a seller states them, in whatever form, are compared with what was approved."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.factories import make_deal, make_line
from tests.orders.live import packages, says
from tests.orders.test_amounts import settled, two, without

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("stated", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "until further notice"])
def test_a_date_that_nobody_can_read_is_a_departure_as_it_is_stated(stated: str) -> None:
    deal = two()
    told = packages(deal)
    settled(deal, [told[0] | {"end_time": stated}, told[1] | {"start_time": "asap"}])
    deal.refresh_from_db()
    assert [(one["line"], one["field"], one["confirmed"]) for one in deal.differences] == [
        (1, "stated_end", stated)
    ]
    assert deal.differs
    says(deal, "pending_start", revision=2, packages=told)
    assert not deal.differs, deal.differences


def test_targeting_that_a_seller_stops_naming_is_a_departure() -> None:
    deal = two()
    settled(deal, packages(deal))
    says(deal, "pending_start", revision=2, packages=without(packages(deal), "targeting_overlay"))
    assert {found["field"] for found in deal.differences} == {"targeting"}


@pytest.mark.parametrize("edge", ["start_time", "end_time"])
@pytest.mark.parametrize("named", [True, False], ids=["packages named", "no package named"])
def test_a_flight_that_is_stated_for_the_whole_is_compared(edge: str, named: bool) -> None:
    deal = two()
    bare = without(packages(deal), "start_time", "end_time") if named else []
    ours = {"start_time": deal.start_at, "end_time": deal.end_at}
    settled(deal, bare, total_budget=60000, **{name: at.isoformat() for name, at in ours.items()})
    assert not deal.differs, deal.differences
    moved = ours | {edge: ours[edge] + timedelta(days=-2 if edge == "end_time" else 2)}
    told = {name: at.isoformat() for name, at in moved.items()}
    says(deal, "pending_start", revision=2, packages=bare, **told)
    assert {(one["line"], one["field"]) for one in deal.differences} == {(n, edge[:-5]) for n in (1, 2)}
    says(deal, "pending_start", revision=3, packages=bare, **told | {edge: "some day"})
    assert (0, f"stated_{edge[:-5]}") in {(one["line"], one["field"]) for one in deal.differences}


def test_a_flight_of_the_whole_says_nothing_of_a_package_with_dates_of_its_own_but_where_it_cuts_it() -> None:
    deal = make_deal(make_line(), make_line(product_id="b"))
    own = deal.lines.get(position=2)
    own.start_at += timedelta(days=3)
    own.save()
    settled(deal, packages(deal))
    bare = without(packages(deal), "start_time", "end_time")
    flight = {"start_time": deal.start_at.isoformat(), "end_time": deal.end_at.isoformat()}
    says(deal, "pending_start", revision=2, packages=bare, **flight)
    assert not deal.differs, deal.differences
    flight["start_time"] = (own.start_at + timedelta(days=1)).isoformat()
    says(deal, "pending_start", revision=3, packages=bare, **flight)
    assert [(one["line"], one["field"]) for one in deal.differences] == [(1, "start"), (2, "start")]


# What a seller may say of targeting that was ordered; whether it departs.
TARGETING: dict[str, tuple[Any, bool]] = {
    "the same": ({"geo_countries": ["SE"]}, False),
    "more": ({"geo_countries": ["SE"], "age": {"min": 18}}, False),
    "another": ({"geo_countries": ["NO"]}, True),
    "none": ({}, True),
    "an empty list": ([], True),
    "an empty text": ("", True),
    "no": (False, True),
    "in words": ("everywhere", True),
    "a list": (["NO"], True),
    "null": (None, True),
}


@pytest.mark.parametrize("case", TARGETING)
def test_targeting_in_whatever_form_is_compared(case: str) -> None:
    told, departs = TARGETING[case]
    deal = make_deal(make_line(targeting={"geo_countries": ["SE"]}))
    settled(deal, packages(deal))
    says(deal, "pending_start", revision=2, packages=packages(deal, targeting_overlay=told))
    assert [one["field"] for one in deal.differences] == ["targeting"] * departs
