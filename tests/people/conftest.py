"""People who sign in as people do: with a password, and a code of their app."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyotp
import pytest
from django.test import Client

from tasks_app import clock
from tasks_app.people.models import User
from tasks_app.people.second_factor import factor_begin, factor_confirm
from tasks_app.people.security_models import SecondFactor
from tests.factories import make_user

PASSWORD = "correct horse battery staple"
LOGIN, ACCOUNT = "/admin/login/", "/admin/account/"
FACTOR, FACTOR_NEW = "/admin/account/second-factor/", "/admin/account/second-factor/new/"


@pytest.fixture(autouse=True)
def _quick_passwords(settings: Any) -> None:
    """Hashing one takes half a second, which is its purpose."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def person() -> Callable[[str], User]:
    """Somebody with a role, who may use the admin and has a password."""

    def made(role: str) -> User:
        user = make_user(role)
        user.is_staff = True
        user.set_password(PASSWORD)
        user.save()
        return user

    return made


@pytest.fixture
def sign_in() -> Callable[..., Client]:
    """A browser in which somebody has typed their name and password."""

    def signed(user: User, password: str = PASSWORD, agent: str = "Firefox on a desk") -> Client:
        client = Client(headers={"user-agent": agent})
        client.post(LOGIN, {"username": user.username, "password": password})
        return client

    return signed


def code_of(user: User, *, steps: int = 0) -> str:
    """What the person's app shows now, or so many half minutes later."""
    secret = SecondFactor.objects.get(user=user).secret
    return pyotp.TOTP(secret).at(int(clock.now().timestamp()) + 30 * steps)


def set_up(user: User) -> list[str]:
    """The person has an app; answers the recovery codes. Its codes of now and before are used up."""
    factor_begin(user=user, session_key=None)
    return factor_confirm(user=user, code=code_of(user), session_key=None, address=None)
