"""Telling people: who sees it, once per key, and who has read it."""

from __future__ import annotations

import pytest

from tasks_app.notifications.selectors import notifications_of, notifications_unread
from tasks_app.notifications.services import notifications_mark_read, notify
from tasks_app.people.models import Team, User
from tasks_app.people.roles import STEER_OPERATION
from tests.factories import make_user

pytestmark = pytest.mark.django_db


def titles(viewer: User) -> list[str]:
    return [note.title for note in notifications_of(viewer)]


def test_a_team_sees_its_own_and_operators_what_is_for_their_right() -> None:
    buyer, other, operator = make_user("Buyer"), make_user("Buyer"), make_user("Ad Ops")
    mine, theirs = Team.objects.create(name="North"), Team.objects.create(name="South")
    buyer.teams.set([mine])
    other.teams.set([theirs])
    notify(kind="test", title="for North", team=mine)
    notify(kind="test", title="for operators", right=STEER_OPERATION)
    assert titles(buyer) == ["for North"]
    assert titles(other) == []
    assert titles(operator) == ["for operators"]


def test_for_nobody_is_an_error() -> None:
    with pytest.raises(ValueError, match="for a team"):
        notify(kind="test", title="to nobody")


def test_a_key_is_told_once() -> None:
    operator = make_user("Ad Ops")
    for _ in range(3):
        notify(kind="test", title="once", right=STEER_OPERATION, key="test:1")
        notify(kind="test", title="each time", right=STEER_OPERATION)
    assert sorted(titles(operator)) == ["each time"] * 3 + ["once"]


def test_what_one_has_read_is_unread_for_the_other() -> None:
    first, second = make_user("Ad Ops"), make_user("Ad Ops")
    notify(kind="test", title="a", right=STEER_OPERATION)
    notify(kind="test", title="b", right=STEER_OPERATION)
    one = notifications_of(first).get(title="a")
    assert notifications_mark_read(user=first, ids=[one.pk]) == 1
    assert [n.title for n in notifications_unread(notifications_of(first), first)] == ["b"]
    assert notifications_mark_read(user=first) == 1
    assert notifications_unread(notifications_of(second), second).count() == 2
