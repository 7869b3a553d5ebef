"""Whose campaign a brief is: nobody's but who was meant, whatever else is called like it."""

from __future__ import annotations

from typing import Any

import pytest

from campaigns.buyers import buyer_of
from campaigns.models import Campaign
from campaigns.services import BriefRefusedError, campaign_submit
from tasks_app.people.models import Advertiser, Membership, Team, User
from tests.api.conftest import client_of
from tests.campaigns.briefs import brief
from tests.factories import make_team, make_user

pytestmark = pytest.mark.django_db
ROOM = "/api/v1/campaigns/"


@pytest.fixture
def teams() -> tuple[Team, Team]:
    """Alpha stands before Beta; nobody's."""
    return make_team("Alpha"), make_team("Beta")


@pytest.fixture
def buyer(teams: tuple[Team, Team]) -> User:
    """Of both."""
    user = make_user("Buyer", team=teams[0])
    Membership.objects.create(user=user, team=teams[1])
    return user


def client(team: Team, name: str = "Lindqvist Coffee", domain: str = "lindqvist-coffee.com") -> Advertiser:
    return Advertiser.objects.create(team=team, name=name, brand_domain=domain)


def problem_of(user: User, **changed: Any) -> str:
    (problem,) = buyer_of(user, brief(**changed)).problems
    return f"{problem['field']}: {problem['problem']}"


def test_a_misspelt_client_of_one_of_several_teams_goes_to_none(
    teams: tuple[Team, Team], buyer: User
) -> None:
    client(teams[1])
    answer = client_of(buyer).post(ROOM, brief(advertiser="Lindquist Coffee"), format="json")
    assert answer.status_code == 400
    told = answer.json()["errors"]["advertiser"][0]
    assert told == "is none of your teams' advertisers; known: Lindqvist Coffee (Beta)"
    assert not Campaign.objects.exists()


def test_every_problem_is_named_with_it(teams: tuple[Team, Team], buyer: User) -> None:
    with pytest.raises(BriefRefusedError) as refused:
        campaign_submit(user=buyer, raw=brief(advertiser="Nobody", budget__total=-1))
    assert {one["field"] for one in refused.value.problems} == {"advertiser", "budget.total"}


def test_of_a_member_of_one_team_it_is_kept_there(teams: tuple[Team, Team]) -> None:
    client(teams[0])
    user = make_user("Buyer", team=teams[0])
    campaign = campaign_submit(user=user, raw=brief(advertiser="Lindquist Coffee"))
    assert (campaign.status, campaign.team, campaign.advertiser) == ("validation_failed", teams[0], None)


def test_one_name_in_two_teams_is_neither(teams: tuple[Team, Team], buyer: User) -> None:
    for team in teams:
        client(team)
    told = "advertiser: is one of several teams: Alpha, Beta; say which as `team`"
    assert problem_of(buyer) == told
    assert buyer_of(buyer, brief()).team is None
    for team in teams:
        found = buyer_of(buyer, brief(team=team.name.lower()))
        assert (found.team, found.problems) == (team, [])
        campaign = campaign_submit(
            user=buyer, raw=brief(team=team.name, flight__start="+9d", flight__end="+19d")
        )
        assert (campaign.team, campaign.advertiser, campaign.problems) == (team, found.advertiser, [])


def test_the_brand_domain_says_which(teams: tuple[Team, Team], buyer: User) -> None:
    for team in teams:
        client(team, domain=f"{team.name.lower()}.example")
    found = buyer_of(buyer, brief(brand_domain="Beta.example"))
    assert (found.team, found.problems) == (teams[1], [])


def test_two_of_one_team_that_differ_by_case_are_told_apart(teams: tuple[Team, Team], buyer: User) -> None:
    one, other = client(teams[0], "ACME"), client(teams[0], "Acme")
    assert buyer_of(buyer, brief(advertiser="ACME")).advertiser == one
    assert buyer_of(buyer, brief(advertiser="Acme")).advertiser == other
    assert "is the name of several" in problem_of(buyer, advertiser="acme")


def test_a_team_that_is_not_ones_own_is_none(teams: tuple[Team, Team], buyer: User) -> None:
    elsewhere = make_team("Elsewhere")
    client(elsewhere)
    assert problem_of(buyer, team="Elsewhere") == "team: is none of your teams"
    assert "Lindqvist" not in problem_of(buyer), "another team's clients are not named"


def test_what_is_known_is_told_in_part_only(teams: tuple[Team, Team], buyer: User) -> None:
    for number in range(12):
        client(teams[0], f"Client {number:02}")
    assert problem_of(buyer, advertiser="Zzz").count("(Alpha)") == 5
    assert problem_of(buyer, advertiser=7).count("(Alpha)") == 5
