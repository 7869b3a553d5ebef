"""A row is named by its id, or by its reference where rows have one; what is neither is not found."""

from __future__ import annotations

import pytest

from tests.api.conftest import Open

pytestmark = pytest.mark.django_db
NO_ID = "-" * 36


@pytest.mark.parametrize(
    "room", ["approvals", "campaigns", "commands", "deals", "events", "jobs", "operations", "schedules"]
)
def test_what_is_no_id_is_not_found(opened: Open, room: str) -> None:
    assert opened("Administrator").get(f"/api/v1/{room}/{NO_ID}/").status_code == 404
