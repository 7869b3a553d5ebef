"""/api/v1/notifications/: what the viewer is told, and what they have read."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About, notify
from tasks_app.people.models import Team
from tasks_app.people.roles import STEER_OPERATION
from tests.api.conftest import Open
from tests.factories import make_team

pytestmark = pytest.mark.django_db
ROOM = "/api/v1/notifications/"


def titles(api: APIClient, **asked: object) -> list[str]:
    answer = api.get(ROOM, asked)
    assert answer.status_code == 200, answer.content
    return [row["title"] for row in answer.json()["results"]]


def key_of(title: str) -> str:
    return str(Notification.objects.get(title=title).pk)


def test_each_sees_their_teams_and_what_is_for_their_rights(
    opened: Open, strangers: Callable[[], Team]
) -> None:
    notify(kind="test", title="ours", team=make_team())
    notify(kind="test", title="theirs", team=strangers())
    notify(kind="test", title="operators'", right=STEER_OPERATION)
    assert titles(opened("Integration")) == ["ours"]
    assert titles(opened("Ad Ops")) == ["operators'", "ours"]
    stranger = opened("Buyer", strangers())
    assert titles(stranger) == ["theirs"]
    assert stranger.get(f"{ROOM}{key_of('ours')}/").status_code == 404


def test_filters_and_fields(opened: Open) -> None:
    subject = uuid.uuid4()
    notify(kind="a", title="first", team=make_team(), about=About(type="deal", id=subject))
    notify(kind="b", title="second", team=make_team(), level="alarm", body="why")
    api = opened("Buyer")
    assert titles(api, level="alarm") == ["second"]
    assert titles(api, kind="a") == ["first"]
    assert titles(api, subject_id=str(subject)) == ["first"]
    assert api.get(ROOM, {"level": "loud"}).status_code == 400
    shown = api.get(f"{ROOM}{key_of('second')}/").json()
    assert {shown["level"], shown["kind"], shown["body"]} == {"alarm", "b", "why"}
    assert shown["read"] is False


def test_reading_is_each_viewers_own(opened: Open) -> None:
    for title in ("one", "two", "three"):
        notify(kind="test", title=title, team=make_team())
    first, second = opened("Buyer"), opened("Finance")
    answer = first.post(f"{ROOM}read/", {"ids": [key_of("one")]}, format="json")
    assert answer.json() == {"marked": 1}
    assert titles(first, unread="true") == ["three", "two"]
    assert first.get(f"{ROOM}{key_of('one')}/").json()["read"] is True
    assert first.post(f"{ROOM}read/", {"all": True}, format="json").json() == {"marked": 2}
    assert first.post(f"{ROOM}read/", {"all": True}, format="json").json() == {"marked": 0}
    assert titles(second, unread="true") == ["three", "two", "one"]


def test_others_cannot_be_marked(opened: Open, strangers: Callable[[], Team]) -> None:
    notify(kind="test", title="theirs", team=strangers())
    answer = opened("Buyer").post(f"{ROOM}read/", {"ids": [key_of("theirs")]}, format="json")
    assert answer.json() == {"marked": 0}
    assert titles(opened("Buyer", strangers()), unread="true") == ["theirs"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"all": False},
        {"ids": []},
        {"ids": ["nonsense"]},
        {"ids": [str(uuid.UUID(int=7))], "all": True},
        {"some": 1},
    ],
)
def test_a_body_that_is_none_is_refused(opened: Open, body: dict[str, object]) -> None:
    notify(kind="test", title="kept", team=make_team())
    api = opened("Buyer")
    assert api.post(f"{ROOM}read/", body, format="json").status_code == 400
    assert titles(api, unread="true") == ["kept"]


def test_without_a_login_nothing_is_told() -> None:
    assert APIClient().get(ROOM).status_code == 401
    assert APIClient().post(f"{ROOM}read/", {"all": True}, format="json").status_code == 401
