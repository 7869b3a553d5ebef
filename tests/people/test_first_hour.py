"""An empty installation: its first administrator, its house, its first team."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.core.exceptions import ValidationError
from django.core.signing import dumps
from django.db import connection
from django.test import Client
from django.urls import reverse

from tasks_app import clock
from tasks_app.people.first_administrator import (
    LoginExistsError,
    is_token_valid,
    make_first_administrator,
    make_one_time_address,
)
from tasks_app.people.house import house, house_after_migrate
from tasks_app.people.models import House, Membership, User
from tasks_app.people.security_models import SecurityEvent
from tasks_app.sellers.services import seller_add
from tests.commands.running import call
from tests.database import Database
from tests.factories import make_advertiser, make_seller, make_team
from tests.support import joined

ADD_HOUSE, ADD_TEAM = "/admin/tasks_app/house/add/", "/admin/tasks_app/team/add/"
ADA = {
    "first_name": "Ada",
    "last_name": "Okafor",
    "email": "Ada@example.com",
    "time_zone": "Europe/Berlin",
    "password": "an entirely different staple of words",
    "again": "an entirely different staple of words",
}
HALDEN = {"name": "Halden", "domain": "Halden.example", "currency": "EUR", "time_zone": "Europe/Berlin"}


def path_of(address: str) -> str:
    return address[address.index("/admin/") :]


@pytest.fixture
def ada(db: None) -> Client:
    """The first administrator of an empty installation, logged in."""
    House.objects.all().delete()
    client = Client()
    assert client.post(path_of(make_one_time_address()), ADA).status_code == 302
    return client


@pytest.mark.django_db
def test_the_address_makes_one_administrator_who_is_logged_in() -> None:
    page = path_of(make_one_time_address())
    assert call("first_administrator").out.strip().endswith("/")
    client = Client()
    assert client.post(page, ADA)["Location"] == "/admin/"
    ada = User.objects.get()
    assert (ada.username, ada.is_staff, ada.is_superuser) == ("ada@example.com", True, False)
    assert [group.name for group in ada.groups.all()] == ["Administrator"]
    assert ada.check_password(ADA["password"])
    assert SecurityEvent.objects.filter(event="rights_changed", about=ada.username).exists()
    assert client.get("/admin/").status_code == 200
    assert "was used already" in Client().post(page, {**ADA, "email": "b@example.com"}).content.decode()
    assert call("first_administrator").code == 2
    assert User.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"email": "no address", "again": "another one"}, "The two passwords differ."),
        ({"password": "ada", "again": "ada"}, "too short"),
        ({"first_name": "", "time_zone": "Nowhere/Land"}, "required"),
    ],
)
def test_a_wrong_entry_makes_no_login(changed: dict[str, str], said: str) -> None:
    shown = Client().post(path_of(make_one_time_address()), {**ADA, **changed}).content.decode()
    assert said in shown
    assert ADA["last_name"] in shown, "what was typed stays"
    assert ADA["password"] not in shown
    assert not User.objects.exists()


@pytest.mark.django_db
def test_a_forged_or_old_address_makes_no_login() -> None:
    token = path_of(make_one_time_address()).split("/")[-2]
    assert is_token_valid(token)
    for wrong in ("x", token + "x", dumps("", salt="something else")):
        page = reverse("first_administrator", args=[wrong])
        assert "has expired" in Client().post(page, ADA).content.decode()
    assert not User.objects.exists()
    with time_machine.travel(clock.now() + timedelta(hours=25)):
        assert not is_token_valid(token)


def test_of_two_at_once_one_becomes_administrator(committed_db: Database) -> None:
    refused: list[str] = []
    begin = threading.Barrier(2)

    def make(mail: str) -> None:
        begin.wait()
        try:
            make_first_administrator(user=User(email=mail), password=ADA["password"], address=None)
        except LoginExistsError:
            refused.append(mail)
        finally:
            connection.close()

    threads = [threading.Thread(target=make, args=[f"{name}@example.com"]) for name in ("ada", "ben")]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert (User.objects.count(), len(refused)) == (1, 1)


def test_no_seller_is_added_before_the_house_has_its_name(ada: Client) -> None:
    with pytest.raises(ValidationError, match="Name the house first"):
        seller_add(name="Quill", url="http://127.0.0.1:9/mcp", protocol="mcp", allow_private=True)
    assert ada.post(ADD_HOUSE, HALDEN).status_code == 302
    assert (house().name, house().domain) == ("Halden", "halden.example")
    assert SecurityEvent.objects.get(event="house_changed").about == "Halden"


def test_the_house_is_named_once_and_its_domain_stays_once_sellers_know_it(ada: Client) -> None:
    for domain in ("https://halden.example/", "halden", "a" * 250 + ".example"):
        assert "rrorlist" in ada.post(ADD_HOUSE, {**HALDEN, "domain": domain}).content.decode()
    assert "rrorlist" in ada.post(ADD_HOUSE, {**HALDEN, "currency": "XXX"}).content.decode()
    assert not House.objects.exists()
    ada.post(ADD_HOUSE, HALDEN)
    late = ada.post(ADD_HOUSE, {**HALDEN, "name": "Another"}).content.decode()
    assert "Somebody has named the house" in late
    assert "Another" in late
    house_after_migrate()
    assert house().name == "Halden"
    assert ada.get("/admin/tasks_app/house/", follow=True).context["adminform"].form["domain"].value()
    make_seller()
    assert "domain" not in ada.get("/admin/tasks_app/house/", follow=True).context["adminform"].form.fields


def test_the_environment_names_the_house_of_the_first_migrate(ada: Client, settings: Any) -> None:
    settings.HOUSE_NAME, settings.HOUSE_DOMAIN = "Marsh", "marsh.example"
    house_after_migrate()
    settings.HOUSE_NAME = "Another"
    house_after_migrate()
    assert [str(one) for one in House.objects.all()] == ["Marsh"]
    assert house().domain == "marsh.example"


def test_an_administrator_joins_their_first_team(ada: Client) -> None:
    for name in ("Coast", "River"):
        assert ada.post(ADD_TEAM + "?next=today", {"name": name})["Location"] == "/admin/"
    assert [seat.team.name for seat in Membership.objects.all()] == ["Coast"]
    assert SecurityEvent.objects.filter(event="rights_changed").count() == 2


def test_today_leads_through_the_first_steps(ada: Client) -> None:
    def missing() -> list[str]:
        return [step.text for step in ada.get("/admin/").context["first_steps"] if step.link]

    assert missing() == ["Name the house", "Add a team"]
    ada.post(ADD_HOUSE, HALDEN)
    make_team()
    assert missing() == ["Add an advertiser", "Invite an approver", "Add a seller"]
    make_advertiser()
    make_seller()
    assert missing() == ["Invite an approver", "Make Norrland Digital ready to buy", "Submit the first brief"]
