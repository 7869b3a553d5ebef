"""Commands as pages and through the API: with every decision, to the teams they belong to."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from tasks_app.approvals.models import Approval
from tasks_app.commands.models import Command
from tasks_app.commands.questions import gates_ask_again
from tasks_app.operations.models import Operation
from tasks_app.operations.ordering import order_run
from tasks_app.people.models import User
from tests.boundary.conftest import asked, purchase, stopped
from tests.factories import make_seller, make_team, make_user
from tests.ui.pages import page_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def waiting() -> Command:
    """A purchase that the kill switch stopped, and another team's."""
    seller = make_seller()
    order_run(order=purchase(seller=seller, team=make_team("Another"), purpose="theirs"), actor="system")
    stopped()
    order_run(order=purchase(seller=seller, purpose="ours"), actor="system")
    return Command.objects.get(key="ours")


def staff(role: str) -> User:
    user = make_user(role)
    User.objects.filter(pk=user.pk).update(is_staff=True)
    return User.objects.get(pk=user.pk)


def signed_in(role: str) -> Client:
    client = Client()
    client.force_login(staff(role))
    return client


def api(role: str) -> APIClient:
    client = APIClient()
    client.force_authenticate(make_user(role))
    return client


def test_the_list_and_the_page_of_a_command(waiting: Command) -> None:
    client, theirs = signed_in("Ad Ops"), Command.objects.get(key="theirs")
    listed = client.get(reverse("admin:tasks_app_command_changelist")).content.decode()
    assert "<span>At a gate</span>" in listed
    assert str(theirs.pk) not in listed
    page = client.get(page_of(waiting)).content.decode()
    assert "Kill switch: The kill switch is on for all teams: A drill" in page
    assert client.get(page_of(theirs)).status_code == 302, "not theirs"
    assert signed_in("Buyer").get(page_of(waiting)).status_code == 403


def test_the_question_of_a_gate_says_which_and_why(waiting: Command) -> None:
    page = signed_in("Approver").get(page_of(asked())).content.decode()
    assert "The kill switch is on for all teams: A drill" in page
    assert "Records yours; a second approver is still needed." in page
    assert Operation.objects.get(purpose="ours").reference in page


def test_the_api_shows_every_decision(waiting: Command) -> None:
    client = api("Ad Ops")
    listed = client.get("/api/v1/commands/?waiting=true").json()["results"]
    assert [one["key"] for one in listed] == ["ours"]
    stopped(on=False)
    gates_ask_again()
    shown = client.get(f"/api/v1/commands/{waiting.pk}/").json()
    codes = [one["code"] for one in shown["decisions"]]
    assert codes == ["waits_at_gate", "gate_open_again", "executed"]
    assert shown["decisions"][0]["gates"] == {"kill_switch": "The kill switch is on for all teams: A drill"}
    assert Approval.objects.get().status == "voided"
    theirs = Command.objects.get(key="theirs")
    assert client.get(f"/api/v1/commands/{theirs.pk}/").status_code == 404
    assert api("Buyer").get("/api/v1/commands/").status_code == 403
