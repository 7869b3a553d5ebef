"""An agency with a few days of work behind it, and one browser session for each role."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from tests.ui.seed import Agency, seed


@pytest.fixture
def agency(db: None) -> Agency:
    return seed()


@pytest.fixture
def client_of(agency: Agency) -> Callable[[str], Client]:
    """Logs the role's person in."""

    def logged_in(role: str, **options: bool) -> Client:
        client = Client(**options)  # type: ignore[arg-type]
        client.force_login(agency.people[role], backend="django.contrib.auth.backends.ModelBackend")
        return client

    return logged_in
