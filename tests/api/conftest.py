"""A client per login, with a real token."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from tasks_app.people.models import Team, User
from tasks_app.people.security_models import ApiToken
from tests.api.asks import known
from tests.factories import make_team, make_user

Open = Callable[..., APIClient]


def client_of(user: User) -> APIClient:
    """A client that shows a token of `user`."""
    _, token = ApiToken.objects.create(user=user)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
    return client


@pytest.fixture
def opened() -> Open:
    """`opened("Buyer")`: a client of a new login of that role, in the usual team unless told."""

    def of(role: str, team: Team | None = None) -> APIClient:
        return client_of(make_user(role, team=team))

    return of


@pytest.fixture
def strangers() -> Callable[[], Team]:
    """Another team; nothing of the usual one is theirs."""
    return lambda: make_team("Somebody else")


@pytest.fixture
def api() -> APIClient:
    """The client of an integration, and a seller that it can buy from."""
    known()
    return client_of(make_user("Integration"))
