"""What is wrong is told as application/problem+json, in one form, without our insides."""

from __future__ import annotations

import base64
import uuid
from typing import Any
from urllib.parse import quote

import pytest
from rest_framework.test import APIClient

from config.api import problem_handler
from tasks_app.lifecycle.errors import InvalidTransitionError
from tests.api.conftest import Open, client_of
from tests.factories import make_user

ROOMS = ("campaigns", "deals", "operations", "jobs", "approvals")


def test_a_refused_transition_names_the_allowed_ones() -> None:
    refused = InvalidTransitionError(
        "deal", "d-1", "booked", "quoted", "no matching transition rule", ("delivering",)
    )

    answer = problem_handler(refused, {})

    assert (answer.status_code, answer.content_type) == (409, "application/problem+json")
    assert answer.data["status_now"] == "booked"
    assert answer.data["allowed"] == ["delivering"]


def test_what_nobody_foresaw_is_told_without_its_details() -> None:
    answer = problem_handler(RuntimeError("password=hunter2"), {})

    assert (answer.status_code, answer.content_type) == (500, "application/problem+json")
    assert "hunter2" not in str(answer.data)


@pytest.mark.django_db
@pytest.mark.parametrize("room", ROOMS)
class TestEveryRoom:
    def test_demands_a_login(self, room: str) -> None:
        api = APIClient()
        for address in (f"/api/v1/{room}/", f"/api/v1/{room}/{uuid.uuid4()}/"):
            answer = api.get(address)
            assert (answer.status_code, answer["Content-Type"]) == (401, "application/problem+json")
            assert answer["WWW-Authenticate"] == "Token"
        api.credentials(HTTP_AUTHORIZATION="Token fd_wrong")
        assert api.get(f"/api/v1/{room}/").status_code == 401

    def test_demands_a_right(self, room: str, opened: Open) -> None:
        user = make_user("Buyer")
        user.groups.clear()

        assert client_of(user).get(f"/api/v1/{room}/").status_code == 403
        assert client_of(user).get(f"/api/v1/{room}/{uuid.uuid4()}/").status_code == 403

    def test_takes_a_session_too(self, room: str) -> None:
        api = APIClient()
        api.force_login(make_user("Auditor"), backend="tasks_app.people.holders.RoleBackend")

        assert api.get(f"/api/v1/{room}/").status_code == 200

    @pytest.mark.parametrize("name", ["0198f000-0000-7000-8000-000000000000", "X-2026-000001", "0", "---"])
    def test_what_is_not_there_is_404(self, room: str, name: str, opened: Open) -> None:
        answer = opened("Auditor").get(f"/api/v1/{room}/{name}/")

        assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")

    @pytest.mark.parametrize("position", ["p=x", "p=%00", "o=99999999999", "r=1&p=1' or 1=1", "\xff"])
    def test_a_made_up_cursor_is_no_error_of_ours(self, room: str, position: str, opened: Open) -> None:
        cursor = base64.b64encode(position.encode("latin-1")).decode()

        for made_up in (cursor, position):
            answer = opened("Auditor").get(f"/api/v1/{room}/?cursor={quote(made_up)}")
            assert answer.status_code in (200, 404)

    def test_nothing_is_changed_or_removed_by_address(self, room: str, opened: Open) -> None:
        api = opened("Administrator")
        for method in (api.put, api.patch, api.delete):
            assert method(f"/api/v1/{room}/{uuid.uuid4()}/", {}, format="json").status_code == 405


@pytest.mark.django_db
def test_a_session_without_csrf_token_writes_nothing() -> None:
    api = APIClient(enforce_csrf_checks=True)
    api.force_login(make_user("Integration"), backend="tasks_app.people.holders.RoleBackend")

    answer: Any = api.post("/api/v1/operations/", {"task": "x", "seller": "y"}, format="json")

    assert answer.status_code == 403
    assert "CSRF" in answer.json()["title"]
