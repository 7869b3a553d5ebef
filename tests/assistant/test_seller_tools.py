"""What the assistant reads of sellers: what is committed with one, and how several compare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Sum
from pytest_django.plugin import DjangoDbBlocker

from orders.models import CONFIRMED, Deal
from orders.questions import ask_deal
from tasks_app import clock, days
from tasks_app.assistant.tools.sellers import seller_names
from tasks_app.people.models import User
from tasks_app.sellers.models import Seller
from tests.assistant.reading import read, rows_of, shared_rows, usd
from tests.database import Database
from tests.factories import make_deal, make_seller, make_team, make_user
from tests.orders.late import booking, bought, decide, say


@dataclass(frozen=True, kw_only=True)
class Ground:
    """A buyer with two booked deals and a failed one with Norrland Digital, and a rejected and a quoted one
    with Cobalt Bay TV."""

    buyer: User
    stranger: User
    norrland: Seller
    cobalt: Seller


@pytest.fixture(scope="module")
def ground(django_db_setup: Database, django_db_blocker: DjangoDbBlocker) -> Iterator[Ground]:
    with shared_rows(django_db_blocker):
        norrland, cobalt = make_seller(), make_seller("Cobalt Bay TV")
        rejected = make_deal(seller=cobalt)
        ask_deal(rejected)
        decide("deal", "reject")
        make_deal(seller=cobalt, account=False, currency="EUR")
        for number in (1, 2):
            deal, operation = booking(norrland)
            say(operation, "completed", bought(deal, f"buy-{number}"))
        say(booking(norrland)[1], "failed")
        yield Ground(
            buyer=make_user("Buyer"),
            stranger=make_user("Buyer", team=make_team("Another team")),
            norrland=norrland,
            cobalt=cobalt,
        )


def _confirmed(seller: Seller) -> Any:
    deals = Deal.objects.filter(seller=seller, status__in=CONFIRMED)
    return deals.aggregate(sum=Sum("confirmed_gross"))["sum"]


def test_what_is_committed_with_a_seller(ground: Ground) -> None:
    answer = read("seller_spend", ground.buyer, seller="Norrland Digital")
    assert answer.summary == (
        "You see 3 deals with Norrland Digital: 2 booked and 1 failed. "
        f"They commit {usd(_confirmed(ground.norrland))}."
    )
    assert answer.data["committed"] == ["20500 USD"]
    booked = next(row for row in rows_of(answer) if row["Status"] == "booked")
    assert (booked["Deals"], booked["Confirmed"]) == ("2", "USD 20,500")

    cobalt = read("seller_spend", ground.buyer, seller="cobalt-bay-tv")
    assert "They commit nothing." in cobalt.summary
    assert {row["Put forward"] for row in rows_of(cobalt)} == {"USD 10,250", "EUR 10,250"}
    tomorrow = days.day_of(clock.now() + timedelta(days=2)).isoformat()
    later = read("seller_spend", ground.buyer, seller="norrland-digital", since=tomorrow)
    assert later.summary.startswith("You see no deals with Norrland Digital put forward since ")


def test_sellers_are_compared_by_deals_money_and_speed(ground: Ground, settings: Any) -> None:
    answer = read("compare_sellers", ground.buyer)
    rows = {row["Seller"]: row for row in rows_of(answer)}
    norrland, cobalt = rows["Norrland Digital"], rows["Cobalt Bay TV"]
    figures = ("Deals", "Booked", "Failed", "Rejected", "Committed")
    assert [norrland[name] for name in figures] == ["3", "2", "1", "0", usd(_confirmed(ground.norrland))]
    assert [cobalt[name] for name in figures] == ["2", "0", "0", "1", "nothing"]
    assert "Norrland Digital has the most booked deals: 2 of 3." in answer.summary
    assert "None of them has answered the 5 purchases" in answer.summary

    settings.ESTIMATE_SAMPLE = 2
    timed = read("compare_sellers", ground.buyer, sellers=["norrland-digital"])
    assert "Norrland Digital answers purchases fastest" in timed.summary
    assert [one["seller"] for one in timed.data["sellers"]] == ["norrland-digital"]


def test_figures_of_deals_are_the_viewers_own(ground: Ground) -> None:
    assert read("compare_sellers", ground.stranger).links == ()
    (row,) = rows_of(read("compare_sellers", ground.stranger, sellers=["Norrland Digital"]))
    assert (row["Deals"], row["Committed"]) == ("0", "nothing")
    assert read("seller_spend", ground.stranger, seller="norrland-digital").table is None


def test_sellers_are_named_by_short_name_and_name(ground: Ground) -> None:
    expected = {(one.pk, one.slug, (one.slug, one.name)) for one in Seller.objects.all()}
    assert {*seller_names(ground.buyer)} == expected
    assert list(seller_names(User.objects.create(username="without-role"))) == []
