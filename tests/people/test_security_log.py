"""The security log: what is in it, who reads it, and that nobody changes it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection, transaction
from django.db.utils import DatabaseError
from django.test import Client

from tasks_app import clock
from tasks_app.people.models import Advertiser, Membership, Team, User
from tasks_app.people.security import security_forget, security_record
from tasks_app.people.security_models import LoginSession, SecurityEvent
from tests.factories import make_advertiser, make_deal, make_team, make_user
from tests.ui.pages import person_form, send

pytestmark = pytest.mark.django_db
Person, SignIn = Callable[[str], User], Callable[..., Client]
LOG = "/admin/tasks_app/securityevent/"


def latest(event: str) -> SecurityEvent:
    return SecurityEvent.objects.filter(event=event).latest("id")


def change(desk: Client, user: User, **changed: Any) -> int:
    return send(desk, f"/admin/tasks_app/user/{user.pk}/change/", person_form(user, **changed)).status_code


def test_signing_in_and_out_is_recorded_with_address_and_browser(person: Person, sign_in: SignIn) -> None:
    maya = person("Approver")
    browser = sign_in(maya, agent="Firefox")
    entry = latest("login")
    assert (entry.actor, entry.address, entry.detail) == (
        f"human:{maya.pk}",
        "127.0.0.1",
        {"agent": "Firefox"},
    )
    browser.post("/admin/logout/")
    assert latest("logout").actor == f"human:{maya.pk}"


def test_a_refused_sign_in_names_who_it_was_tried_for(person: Person, sign_in: SignIn) -> None:
    maya = person("Approver")
    sign_in(maya, "wrong")
    entry = latest("login_failed")
    assert (entry.actor, entry.about) == ("", maya.username)


def test_what_was_typed_for_a_name_is_not_kept() -> None:
    Client().post("/admin/login/", {"username": "my secret password", "password": "x"})
    assert latest("login_failed").about == "(no such login)"


def test_rights_are_recorded_from_what_to_what_and_by_whom(person: Person, sign_in: SignIn) -> None:
    tomas, ada = person("Buyer"), person("Administrator")
    desk = sign_in(ada)
    assert change(desk, tomas, groups=[Group.objects.get(name="Approver").pk]) == 302
    entry = latest("rights_changed")
    assert (entry.actor, entry.about) == (f"human:{ada.pk}", tomas.username)
    assert entry.detail == {"changes": {"roles": [["Buyer"], ["Approver"]]}}
    assert change(desk, tomas, first_name="Tomás") == 302
    assert SecurityEvent.objects.filter(event="rights_changed").count() == 1


def test_a_person_never_becomes_a_service_account(person: Person, sign_in: SignIn) -> None:
    """They would be another actor, who has asked for nothing yet, and could not sign in."""
    tomas, desk = person("Approver"), sign_in(person("Administrator"))
    assert change(desk, tomas, is_service="on") == 302
    tomas.refresh_from_db()
    assert not tomas.is_service


def test_a_limit_to_advertisers_is_set_in_the_form_and_recorded(person: Person, sign_in: SignIn) -> None:
    tomas, desk = person("Buyer"), sign_in(person("Administrator"))
    coffee = make_advertiser()
    named = {"memberships-0-every_advertiser": None, "memberships-0-advertisers": [str(coffee.pk)]}
    assert change(desk, tomas, **named) == 302
    seat = Membership.objects.get(user=tomas)
    assert (seat.every_advertiser, list(seat.advertisers.all())) == (False, [coffee])
    team = make_team().name
    assert latest("rights_changed").detail == {
        "changes": {"teams": [{team: "all"}, {team: ["Lindqvist Coffee"]}]}
    }


@pytest.mark.parametrize("wrong", ["of another team", "beside all"])
def test_a_limit_that_says_nothing_is_refused(person: Person, sign_in: SignIn, wrong: str) -> None:
    tomas, desk = person("Buyer"), sign_in(person("Administrator"))
    other = make_advertiser("Theirs", team=make_team("Others"))
    coffee = make_advertiser()
    named: dict[str, Any] = {"memberships-0-advertisers": [str(coffee.pk)]}
    if wrong == "of another team":
        named = {"memberships-0-every_advertiser": None, "memberships-0-advertisers": [str(other.pk)]}
    assert change(desk, tomas, **named) == 200
    assert Membership.objects.get(user=tomas).every_advertiser


def test_who_must_now_have_a_second_factor_is_signed_out(
    person: Person, sign_in: SignIn, settings: Any
) -> None:
    tomas, ada = person("Buyer"), person("Administrator")
    his, desk = sign_in(tomas), sign_in(ada)
    settings.SECOND_FACTOR_ROLES = ["Approver"]
    assert change(desk, tomas, groups=[Group.objects.get(name="Approver").pk]) == 302
    assert his.get("/admin/").status_code == 302
    assert not LoginSession.objects.filter(user=tomas).exists()


def test_teams_and_advertisers_are_recorded_and_an_advertiser_keeps_its_team(
    person: Person, sign_in: SignIn
) -> None:
    desk, coffee = sign_in(person("Administrator")), make_advertiser()
    others = make_team("Others")
    desk.post("/admin/tasks_app/team/add/", {"name": "New desk"})
    assert Team.objects.filter(name="New desk").exists()
    assert latest("team_changed").detail == {"changes": {"name": ["none", "New desk"]}}
    form = {"name": "Lindqvist Tea", "brand_domain": coffee.brand_domain, "team": str(others.pk)}
    assert send(desk, f"/admin/tasks_app/advertiser/{coffee.pk}/change/", form).status_code == 302
    after = Advertiser.objects.get(pk=coffee.pk)
    assert (after.name, after.team) == ("Lindqvist Tea", make_team())
    assert latest("advertiser_changed").detail == {"changes": {"name": ["Lindqvist Coffee", "Lindqvist Tea"]}}


def test_an_advertiser_gets_no_name_that_its_team_has(person: Person, sign_in: SignIn) -> None:
    desk, coffee, tea = sign_in(person("Administrator")), make_advertiser(), make_advertiser("Lindqvist Tea")
    form = {"name": tea.name, "brand_domain": coffee.brand_domain, "team": str(coffee.team_id)}
    answer = send(desk, f"/admin/tasks_app/advertiser/{coffee.pk}/change/", form)
    assert answer.status_code == 200
    assert "This team has an advertiser of that name." in answer.content.decode()
    assert Advertiser.objects.get(pk=coffee.pk).name == "Lindqvist Coffee"
    form["name"] = "Lindqvist Coffee"
    assert send(desk, f"/admin/tasks_app/advertiser/{coffee.pk}/change/", form).status_code == 302


def test_exports_and_tokens_are_recorded(person: Person, sign_in: SignIn) -> None:
    ruth, deal = person("Auditor"), make_deal()
    answer = sign_in(ruth).get(f"/admin/audit/deal/{deal.pk}/trail.csv")
    assert b"".join(answer.streaming_content)  # type: ignore[attr-defined]
    assert latest("exported").about == f"trail of deal {deal.pk}"
    robot = make_user("Integration", name="robot")
    call_command("api_token", "robot")
    assert latest("token_made").about == robot.username
    call_command("api_token", "robot", "--revoke")
    assert latest("token_revoked").detail == {"tokens": 1}


@pytest.mark.parametrize("sql", ["update {} set about = ''", "delete from {}", "truncate {}"])
def test_the_database_refuses_to_change_it(sql: str) -> None:
    security_record(event="login", actor="system")
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql.format("tasks_app_securityevent"))
    assert SecurityEvent.objects.exists()


def test_what_is_old_goes_and_what_is_young_stays_whoever_asks(settings: Any) -> None:
    old = security_record(event="login", actor="system")
    then = clock.now() - timedelta(days=401)
    with clock.injected(lambda: then):
        security_record(event="logout", actor="system")
    assert security_forget() == 1
    settings.SECURITY_KEEP = timedelta(0)
    assert security_forget() == 0
    assert list(SecurityEvent.objects.all()) == [old]


def test_an_event_of_no_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no kind"):
        security_record(event="something", actor=None)


@pytest.mark.parametrize("role", ["Buyer", "Approver", "Ad Ops", "Finance", "Auditor", "Administrator"])
def test_auditors_and_administrators_read_it(person: Person, sign_in: SignIn, role: str) -> None:
    answer = sign_in(person(role)).get(LOG)
    assert answer.status_code == (200 if role in ("Auditor", "Administrator") else 403)
    if answer.status_code == 200:
        assert "Signed in" in answer.content.decode()


def test_it_tells_what_was_exported_and_when_as_our_pages_do(person: Person, sign_in: SignIn) -> None:
    security_record(
        event=SecurityEvent.Kind.EXPORTED, actor=None, about="tasks_app.webhookdelivery", detail={"query": ""}
    )
    page = sign_in(person("Auditor")).get(LOG).content.decode()
    assert "webhook deliveries" in page
    assert "tasks_app.webhookdelivery" not in page
    assert "query: none" not in page
    assert not re.search(r"\d [ap]\.m\.", page)
    assert "in the log</span>" in page
