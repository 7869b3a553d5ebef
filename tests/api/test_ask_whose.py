"""Whose a task is that an integrator of several teams asks for: nobody's but who was meant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from orders.models import Deal
from tasks_app.operations.models import Operation
from tasks_app.people.models import Advertiser, Membership, Team
from tasks_app.sellers.models import Seller
from tests.api.asks import ROOM, purchase
from tests.api.conftest import client_of
from tests.database import Database
from tests.factories import make_account, make_advertiser, make_seller, make_team, make_user
from tests.fake_seller.driver import FakeSeller
from tests.fake_seller.shop import TOOLS

BRAND = "arguments.brand.domain"
KNOWN, MISSPELT = {"domain": "lindqvist-coffee.com"}, {"domain": "lindquist-coffee.com"}


def of_two_teams() -> tuple[APIClient, Team, Team]:
    """An integrator of both, the one standing before the other."""
    teams = make_team("Alpha"), make_team("Beta")
    user = make_user("Integration", team=teams[0])
    Membership.objects.create(user=user, team=teams[1])
    return client_of(user), *teams


@pytest.fixture
def shop(db: None) -> Seller:
    """A seller that must not be asked: nobody is behind it."""
    return make_seller("Faulty", tools=sorted({*TOOLS, "list_creative_formats"}))


@pytest.fixture
def seller(committed_db: Database, tmp_path: Path) -> Iterator[FakeSeller]:
    with FakeSeller(tmp_path) as process:
        make_seller("Faulty", url=process.url, token=process.token, tools=sorted(TOOLS), slots=4)
        yield process


def read(task: str = "get_products", *, brand: Any = None, **said: Any) -> dict[str, Any]:
    arguments = {"buying_mode": "brief", "brief": "Cold brew, in secret"} if task == "get_products" else {}
    return {
        "task": task,
        "seller": "faulty",
        "arguments": arguments | ({"brand": brand} if brand else {}),
        **said,
    }


def refused(api: APIClient, body: dict[str, Any]) -> dict[str, str]:
    """Field to what is wrong with it; nothing was made of it."""
    answer = api.post(ROOM, body, format="json")
    assert answer.status_code == 400, answer.content
    assert not Operation.objects.exists()
    assert not Deal.objects.exists()
    return {field: told for field, (told,) in answer.json()["errors"].items()}


def asked(api: APIClient, body: dict[str, Any]) -> Operation:
    answer = api.post(ROOM, body, format="json")
    assert answer.status_code in (200, 202), answer.content
    return Operation.objects.get(pk=answer.json()["operation_id"])


def test_a_misspelt_brand_is_no_teams(shop: Seller) -> None:
    both, *teams = of_two_teams()
    make_advertiser(team=teams[1])
    (told,) = refused(both, read(brand=MISSPELT)).items()
    assert told[0] == BRAND
    assert "Alpha, Beta" in told[1]


def test_a_brand_of_two_teams_is_neithers(shop: Seller) -> None:
    both, *teams = of_two_teams()
    for team in teams:
        make_advertiser(team=team)
    told = refused(both, read(brand=KNOWN))
    assert "Lindqvist Coffee (Alpha), Lindqvist Coffee (Beta); say which `team`" in told[BRAND]


def test_a_brand_of_two_advertisers_of_a_team_is_neithers(shop: Seller) -> None:
    first = make_advertiser()
    Advertiser.objects.create(team=first.team, name="Lindqvist Tea", brand_domain=first.brand_domain)
    told = refused(client_of(make_user("Integration")), read(brand=KNOWN))
    assert told[BRAND].endswith("name an `account`")
    assert "Lindqvist Coffee (Halden & Marsh), Lindqvist Tea (Halden & Marsh)" in told[BRAND]


@pytest.mark.parametrize("task", ["get_products", "list_creative_formats", "get_adcp_capabilities"])
def test_without_a_brand_the_first_team_is_not_taken(shop: Seller, task: str) -> None:
    both, *_ = of_two_teams()
    assert refused(both, read(task)) == {"team": "say for which of your teams: Alpha, Beta"}


def test_of_a_purchase_the_team_that_has_an_account_is_not_taken(shop: Seller) -> None:
    both, *teams = of_two_teams()
    make_account(make_advertiser(team=teams[0]), shop)
    make_advertiser(team=teams[1])
    assert "say which `team`" in refused(both, purchase())[BRAND]


def test_a_purchase_for_a_team_without_an_account_is_not_another_teams(shop: Seller) -> None:
    both, *teams = of_two_teams()
    for team in teams:
        make_advertiser(team=team)
    make_account(Advertiser.objects.get(team=teams[0]), shop)
    assert set(refused(both, {**purchase(), "team": "Beta"})) == {"account"}


@pytest.mark.parametrize("task", ["get_products", "get_media_buys"])
def test_a_team_of_others_is_none(shop: Seller, task: str) -> None:
    both, *_ = of_two_teams()
    theirs = make_team("Somebody else")
    for named in (theirs.name, str(theirs.pk), "x"):
        assert refused(both, read(task, team=named)) == {"team": "is none of your teams"}


def test_what_an_account_tells_is_told_of_the_team_that_is_named(shop: Seller) -> None:
    both, *teams = of_two_teams()
    make_account(make_advertiser(team=teams[0]), shop)
    assert set(refused(both, read("get_media_buys", team="Beta"))) == {"account"}


def test_the_team_that_is_named_has_it(seller: FakeSeller) -> None:
    both, *teams = of_two_teams()
    for team in teams:
        make_advertiser(team=team)
    meant = asked(both, read(brand=KNOWN, team="Beta"))
    unknown = asked(both, read(brand=MISSPELT, team=str(teams[1].pk)))
    bare = asked(both, read("get_adcp_capabilities", team="Beta"))
    assert {one.team for one in (meant, unknown, bare)} == {teams[1]}
    assert meant.advertiser == Advertiser.objects.get(team=teams[1])
    assert (unknown.advertiser, bare.advertiser) == (None, None)
    assert "team" not in seller.requests("get_products")[0]["arguments"]


def test_the_brand_or_the_account_says_whose_it_is(seller: FakeSeller) -> None:
    both, *teams = of_two_teams()
    own = make_advertiser(team=teams[1])
    assert asked(both, read(brand=KNOWN)).advertiser == own
    make_advertiser(team=teams[0])
    account = make_account(own, Seller.objects.get())
    assert asked(both, read(brand=KNOWN, account=str(account.pk))).team == teams[1]


def test_of_one_team_nobody_needs_to_say_it(seller: FakeSeller) -> None:
    user = make_user("Integration")
    for body in (read(), read(brand=MISSPELT), read("get_adcp_capabilities")):
        assert asked(client_of(user), body).team == make_team()


def test_the_same_key_for_another_team_is_another_request(seller: FakeSeller) -> None:
    both, *_ = of_two_teams()
    first = both.post(ROOM, read(team="Alpha"), format="json", headers={"Idempotency-Key": "k"})
    other = both.post(ROOM, read(team="Beta"), format="json", headers={"Idempotency-Key": "k"})
    assert (first.status_code, other.status_code) == (200, 409)
