"""The demo shows a second factor with one person, and signs the others in with what it prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from demo import run, stage
from tasks_app.people.models import User
from tasks_app.people.second_factor import factor_wanted
from tests.database import Database


@pytest.mark.django_db
def test_the_person_of_one_role_and_nobody_else_sets_one_up(
    django_db_setup: Database, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The browser's test of setting one up (`tests/ui/strict_desk`) is of the same role."""
    monkeypatch.setattr(run, "HOME", tmp_path)
    told = run._environment(django_db_setup.urls)["FLIGHTDECK_SECOND_FACTOR_ROLES"]
    assert told == run.SECOND_FACTOR_ROLE
    settings.SECOND_FACTOR_ROLES = frozenset(told.split(","))

    logins = stage.people_prepare(tmp_path / "logins.json")

    people = {role: User.objects.get(username=name) for role, (name, _) in logins.items()}
    assert [role for role, user in people.items() if factor_wanted(user)] == [run.SECOND_FACTOR_ROLE]
