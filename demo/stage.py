"""Setting the stage: the agency's people and advertisers, one login per role, the sellers added.

Run inside the product's environment (Django set up, the application's database role).
"""

from __future__ import annotations

import json
import os
import secrets
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Group
from django.db import transaction

from campaigns.parsing import brief_parse
from demo.story import STORY
from tasks_app import clock
from tasks_app.approvals.policy_models import ExchangeRate
from tasks_app.approvals.rates import rate_add
from tasks_app.people.actors import SYSTEM, actor_ensure
from tasks_app.people.models import Advertiser, Team, User
from tasks_app.people.rights import rights_recorded
from tasks_app.people.roles import ROLES
from tasks_app.sellers.models import Seller
from tasks_app.sellers.services import seller_add

TEAM = "Halden & Marsh"
PEOPLE = {
    "Buyer": ("tomas", "Tomás", "Ferreira"),
    "Approver": ("maya", "Maya", "Lindgren"),
    "Ad Ops": ("jonas", "Jonas", "Weber"),
    "Finance": ("ines", "Ines", "Moreau"),
    "Auditor": ("ruth", "Ruth", "Adeyemi"),
    "Integration": ("desk-sync", "Desk", "Sync"),
    "Administrator": ("admin", "Ada", "Okafor"),
}
_ZONE = "America/New_York"


@transaction.atomic
def people_prepare(logins_file: Path) -> dict[str, tuple[str, str]]:
    """Team, advertisers and one login per role, made once; answers role to (username, password).

    The passwords are random, made on the first run and kept in `logins_file` (0600).
    """
    team, _ = Team.objects.get_or_create(name=TEAM)
    for tale in STORY:
        Advertiser.objects.get_or_create(
            team=team, name=tale.advertiser, defaults={"brand_domain": _domain(tale.path)}
        )
    passwords = _passwords(logins_file)
    for role, (username, first, last) in PEOPLE.items():
        _login(team, role, username, first, last, passwords[role])
    _rate_ensure(User.objects.get(username=PEOPLE["Administrator"][0]))
    return {role: (PEOPLE[role][0], passwords[role]) for role in ROLES}


def _rate_ensure(administrator: User) -> None:
    """One rate for the brief in euros: without one its deals are caught as if they were over the limit."""
    if not ExchangeRate.objects.filter(currency="EUR").exists():
        rate_add(
            currency="EUR",
            day=clock.now().date(),
            usd=Decimal("1.083"),
            source="Set by the demo",
            actor=administrator,
        )


def sellers_prepare(sellers_file: Path) -> list[Seller]:
    """Add every seller that runs; each is asked what it can do. Raises DiscoveryError."""
    added = []
    for entry in json.loads(sellers_file.read_text()):
        seller, _ = seller_add(
            name=entry["name"],
            url=entry["url"],
            protocol=entry["protocol"],
            token=Path(entry["token_file"]).read_text().strip(),
            webhooks=entry["webhooks"],
            jwks_url=entry.get("jwks_url") or "",
            allow_private=True,
            slots=4,
        )
        added.append(seller)
    return added


def _login(team: Team, role: str, username: str, first: str, last: str, password: str) -> None:
    user = User.objects.filter(username=username).first() or User(
        username=username,
        first_name=first,
        last_name=last,
        email=f"{username}@haldenmarsh.example",
        time_zone=_ZONE,
        is_staff=role != "Integration",
        is_service=role == "Integration",
    )
    with rights_recorded(user, by=SYSTEM):
        if not user.check_password(password):
            user.set_password(password)
            user.save()
        user.groups.set([Group.objects.get(name=role)])
        user.teams.set([team])
    actor_ensure(user=user)


def _passwords(path: Path) -> dict[str, str]:
    if path.exists():
        kept: dict[str, str] = json.loads(path.read_text())
        return kept
    made = {role: f"{role.lower().replace(' ', '-')}-{secrets.token_hex(4)}" for role in ROLES}
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        json.dump(made, file)
    return made


def _domain(path: Path) -> str:
    raw: dict[str, Any] = brief_parse(path.read_bytes(), name=path.name)
    return str(raw["brand_domain"])
