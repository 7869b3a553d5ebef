"""Who turns the kill switch, and by which ways."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, transaction
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from tasks_app.commands import adapters
from tasks_app.commands.gates import gates_closed
from tasks_app.commands.kill_switch import GATE, KillSwitchRefusedError, kill_switch_set, stops
from tasks_app.commands.models import Command, KillSwitch
from tasks_app.notifications.models import Notification
from tasks_app.people.models import Team, User
from tests.factories import make_team, make_user

pytestmark = pytest.mark.django_db
URL = "/api/v1/kill-switch/"


def turn(on: bool = True, **fields: Any) -> KillSwitch:
    return kill_switch_set(on=on, reason="A drill", actor=fields.pop("actor", "system"), **fields)


def test_the_latest_turn_of_each_holds() -> None:
    team, other = make_team(), make_team("Another")
    assert (stops().everywhere, dict(stops().teams)) == (None, {})
    turn(team=team)
    assert stops().why(team.pk) == "The kill switch is on for this team: A drill"
    assert stops().why(other.pk) == ""
    turn()
    turn(False, team=team)
    assert stops().why(team.pk) == stops().why(other.pk) == "The kill switch is on for all teams: A drill"
    turn(False)
    assert (stops().everywhere, dict(stops().teams)) == (None, {})


def test_a_turn_is_kept_with_who_and_why_and_told() -> None:
    admin = make_user("Administrator")
    turned = turn(actor=admin)
    assert (turned.actor, turned.reason) == (f"human:{admin.pk}", "A drill")
    note = Notification.objects.get(kind="kill_switch")
    assert (note.level, note.title) == ("alarm", "The kill switch is on: all teams")


@pytest.mark.parametrize("repeated", [False, True])
def test_its_gate_is_closed_to_every_command_of_whom_it_stops(repeated: bool) -> None:
    """Also to the first attempt, and whatever the command would do."""
    team, other = make_team(), make_team("Another")

    def closed() -> dict[str, set[bool]]:
        found: dict[str, set[bool]] = {"own": set(), "other's": set(), "nobody's": set()}
        for kind in (kind for adapter in adapters._adapters.values() for kind in adapter.kinds):
            for whose, team_id in zip(found, (team.pk, other.pk, None), strict=True):
                asked = Command(kind=kind, team_id=team_id, payload={})
                found[whose].add(GATE in gates_closed(asked, repeated=repeated))
        return found

    assert closed() == {"own": {False}, "other's": {False}, "nobody's": {False}}
    turn(team=team)
    assert closed() == {"own": {True}, "other's": {False}, "nobody's": {False}}
    turn()
    assert closed() == {"own": {True}, "other's": {True}, "nobody's": {True}}
    stopped = [f"{GATE} {number}" for number in KillSwitch.objects.values_list("turn", flat=True)]
    passed = Command(kind="order_place", team=team, overrides=stopped)
    assert gates_closed(passed, repeated=repeated) == {}, "people let it pass both"
    for half in ([GATE], *([one] for one in stopped)):
        asked = Command(kind="order_place", team=team, overrides=half)
        assert GATE in gates_closed(asked, repeated=repeated)


@pytest.mark.parametrize("change", ["update", "delete"])
def test_turns_are_append_only(change: str) -> None:
    turn()
    rows = KillSwitch.objects.all()
    with pytest.raises(DatabaseError), transaction.atomic():
        rows.update(on=False) if change == "update" else rows._raw_delete(rows.db)


@pytest.mark.parametrize("role", ["Approver", "Ad Ops", "Buyer", "Integration", "Auditor", "Finance"])
def test_administrators_alone_turn_it(role: str) -> None:
    with pytest.raises(KillSwitchRefusedError, match="no right"):
        turn(actor=make_user(role))
    assert not KillSwitch.objects.exists()


def test_what_cannot_be_turned_says_why() -> None:
    admin, other = make_user("Administrator"), make_team("Another")
    with pytest.raises(KillSwitchRefusedError, match="Say why"):
        kill_switch_set(on=True, reason=" ", actor=admin)
    with pytest.raises(KillSwitchRefusedError, match="no such team"):
        turn(actor=admin, team=other)
    with pytest.raises(KillSwitchRefusedError, match="off already"):
        turn(False)
    turn()
    with pytest.raises(KillSwitchRefusedError, match="on already"):
        turn()


class TestApi:
    """GET and POST /api/v1/kill-switch/."""

    def client(self, role: str) -> APIClient:
        client = APIClient()
        client.force_authenticate(make_user(role))
        return client

    def test_it_is_turned_and_shown(self) -> None:
        client, team = self.client("Administrator"), make_team()
        assert client.get(URL).json() == []
        answer = client.post(URL, {"on": True, "reason": "A drill", "team": str(team.pk)}, format="json")
        assert (answer.status_code, answer.json()["team"], answer.json()["on"]) == (201, str(team.pk), True)
        assert [(one["team"], one["on"]) for one in client.get(URL).json()] == [(str(team.pk), True)]
        off = {"on": False, "reason": "Over", "team": str(team.pk), "seen": answer.json()["turn"]}
        assert client.post(URL, off, format="json").status_code == 201
        assert [one["on"] for one in client.get(URL).json()] == [False]

    def test_who_has_not_read_why_it_is_on_now_does_not_let_it_go(self) -> None:
        client = self.client("Administrator")
        first = client.post(URL, {"on": True, "reason": "A drill"}, format="json").json()["turn"]
        turn(False)
        kill_switch_set(on=True, reason="It buys twice", actor="system")
        for seen in ({"seen": first}, {}, {"seen": None}, {"seen": 2**62}):
            answer = client.post(URL, {"on": False, "reason": "Over", **seen}, format="json")
            assert answer.status_code == 409
            assert "It buys twice" in answer.content.decode()
        assert client.post(URL, {"on": False, "reason": "x", "seen": "two"}, format="json").status_code == 400
        assert stops().everywhere == "It buys twice"

    def test_refusals(self) -> None:
        client, other = self.client("Administrator"), make_team("Another")
        asked = {"on": True, "reason": "A drill"}
        assert self.client("Buyer").post(URL, asked, format="json").status_code == 403
        assert self.client("Buyer").get(URL).status_code == 403
        assert client.post(URL, {"on": True}, format="json").status_code == 400
        assert client.post(URL, {**asked, "team": str(other.pk)}, format="json").status_code == 404
        assert client.post(URL, {**asked, "tem": 1}, format="json").status_code == 400
        assert client.post(URL, asked, format="json").status_code == 201
        again = client.post(URL, asked, format="json")
        assert (again.status_code, again["Content-Type"]) == (409, "application/problem+json")


class TestAdmin:
    """The page: every turn, and the form that turns it."""

    def client(self, role: str) -> Client:
        user = make_user(role)
        User.objects.filter(pk=user.pk).update(is_staff=True)
        client = Client()
        client.force_login(User.objects.get(pk=user.pk))
        return client

    def test_it_is_turned_by_the_form(self) -> None:
        client, page = self.client("Administrator"), reverse("admin:tasks_app_killswitch_changelist")
        form = reverse("admin:tasks_app_killswitch_add")
        assert client.get(form)["Location"] == page, "the list's page is the form"
        answer = client.post(form, {"team": "", "on": "on", "reason": "A drill"})
        assert (answer.status_code, stops().everywhere) == (302, "A drill")
        assert "On: new commands wait" in client.get(page).content.decode()
        again = client.post(form, {"team": "", "on": "on", "reason": "A drill"}, follow=True)
        assert "It is on already." in again.content.decode()
        assert KillSwitch.objects.count() == 1

    def test_who_may_not_turn_it_sees_no_form(self) -> None:
        client = self.client("Ad Ops")
        assert client.get(reverse("admin:tasks_app_killswitch_changelist")).status_code == 200
        assert client.get(reverse("admin:tasks_app_killswitch_add")).status_code == 403

    def test_other_teams_are_not_offered(self) -> None:
        make_team("Another")
        shown = self.client("Administrator").get(reverse("admin:tasks_app_killswitch_changelist"))
        assert "Halden" in shown.content.decode()
        assert "Another" not in shown.content.decode()


class TestCommand:
    """manage.py kill_switch."""

    def run(self, *arguments: str) -> Any:
        out = StringIO()
        call_command("kill_switch", *arguments, "--json", stdout=out)
        return json.loads(out.getvalue())

    def test_on_off_and_status(self) -> None:
        Team.objects.get_or_create(name="Halden & Marsh")
        on = self.run("on", "--reason", "A drill")
        assert (on["all_teams"]["reason"], on["teams"]) == ("A drill", {})
        self.run("on", "--reason", "Theirs", "--team", "Halden & Marsh")
        told = self.run("status")
        assert (told["all_teams"], told["teams"]["Halden & Marsh"]["reason"]) == (on["all_teams"], "Theirs")
        off = ["off", "--reason", "Over", "--seen", str(on["all_teams"]["turn"])]
        assert self.run(*off)["all_teams"] is None
        assert KillSwitch.objects.filter(team=None).latest("id").actor == "system"

    def test_a_newer_stop_is_not_let_go(self) -> None:
        first = self.run("on", "--reason", "A drill")["all_teams"]["turn"]
        turn(False)
        kill_switch_set(on=True, reason="It buys twice", actor="system")
        for seen in (["--seen", str(first)], []):
            with pytest.raises(CommandError, match="It buys twice"):
                call_command("kill_switch", "off", "--reason", "Over", *seen)
        assert stops().everywhere == "It buys twice"

    def test_it_can_be_refused(self) -> None:
        with pytest.raises(CommandError, match="Say why"):
            call_command("kill_switch", "on")
        with pytest.raises(CommandError, match="no team"):
            call_command("kill_switch", "on", "--reason", "x", "--team", "Nobody")
        with pytest.raises(CommandError, match="no right"):
            call_command("kill_switch", "on", "--reason", "x", "--as", make_user("Buyer").username)
