"""Whoever makes themselves a second login, or enters another's, is seen: the person is told, and so are those
who read the security log."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import structlog
from django.contrib.auth.models import Group

from tasks_app.notifications.selectors import notifications_of
from tasks_app.people.models import User
from tasks_app.people.passwords import PasswordLog
from tasks_app.people.rights import rights_recorded
from tasks_app.people.security import Kind, security_record
from tests.factories import make_user

pytestmark = pytest.mark.django_db


def _given(role: str) -> Callable[[User, User], None]:
    def give(by: User, maya: User) -> None:
        with rights_recorded(maya, by=by):
            maya.groups.set([Group.objects.get(name=role)])

    return give


def _password(by: User, maya: User) -> None:
    with structlog.contextvars.bound_contextvars(user_id=str(by.pk)):
        PasswordLog().password_changed("an entirely different staple", maya)


def _factor(by: User, maya: User) -> None:
    security_record(event=Kind.FACTOR_REMOVED, actor=by, about=maya.username)


DONE: dict[str, tuple[Callable[[User, User], None], str]] = {
    "a role that decides": (_given("Approver"), "gave the right to decide to"),
    "a role that does not": (_given("Finance"), ""),
    "a password": (_password, "set the password of"),
    "a second factor": (_factor, "removed the second factor of"),
}


@pytest.fixture
def ada() -> User:
    return make_user("Administrator", name="Ada")


@pytest.mark.parametrize("what", DONE)
def test_what_somebody_does_to_anothers_login_is_told(ada: User, what: str) -> None:
    other, auditor, maya = make_user("Administrator"), make_user("Auditor"), make_user("Buyer", name="Maya")
    stranger = make_user("Approver")
    does, words = DONE[what]
    does(ada, maya)
    for user in (other, auditor, maya):
        told = [
            one.title for one in notifications_of(User.objects.get(pk=user.pk)).filter(kind="login_changed")
        ]
        assert told == ([f"{ada} {words} {maya}"] if words else [])
    for user in (ada, stranger):
        assert not notifications_of(user).filter(kind="login_changed").exists()


@pytest.mark.parametrize("what", ["a password", "a second factor"])
def test_what_somebody_does_to_their_own_is_not(ada: User, what: str) -> None:
    auditor = make_user("Auditor")
    DONE[what][0](ada, ada)
    assert not notifications_of(auditor).filter(kind="login_changed").exists()


def test_who_decides_already_is_given_nothing_new(ada: User) -> None:
    auditor, maya = make_user("Auditor"), make_user("Approver")
    _given("Administrator")(ada, maya)
    assert not notifications_of(auditor).filter(kind="login_changed").exists()
