"""The people of the seeded agency, and the limits that they set themselves."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import cache

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group

from demo.stage import PEOPLE
from tasks_app import clock
from tasks_app.approvals.policy_applying import policies_latest
from tasks_app.approvals.policy_services import draft_of, policy_change
from tasks_app.approvals.rates import rate_add
from tasks_app.people.actors import actor_ensure
from tasks_app.people.models import Team, User
from tasks_app.people.roles import ROLES
from tests.ui.seed_parts import ZONE

PASSWORD = "a-password-for-tests-only"


@cache
def _hashed() -> str:
    return make_password(PASSWORD)


def hired() -> dict[str, User]:
    """People by role, all of one team."""
    team = Team.objects.create(name="Halden & Marsh")
    made = {}
    for role, (username, first, last) in PEOPLE.items():
        user = User.objects.create(
            username=username,
            email=f"{username}@haldenmarsh.example",
            password=_hashed(),
            first_name=first,
            last_name=last,
            time_zone=ZONE,
            is_staff=role != "Integration",
            is_service=role == "Integration",
        )
        user.groups.set([Group.objects.get(name=role)])
        user.teams.set([team])
        actor_ensure(user=user)
        made[role] = user
    assert set(made) == set(ROLES)
    return made


def limits_set(administrator: User) -> None:
    """The agency's own limits: two approvers from a million dollars on."""
    for row in policies_latest().exclude(rule="always"):
        limit = {"limit": Decimal(1_000_000), "name": row.name.replace("100,000", "1,000,000")}
        policy_change(
            key=row.key,
            version=row.version,
            draft=replace(draft_of(row), **limit),
            actor=administrator,
            reason="What our buyers book every week",
        )
    today = clock.now().date()
    rate_add(currency="EUR", day=today, usd=Decimal("1.083"), source="ECB", actor=administrator)
