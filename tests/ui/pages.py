"""What tests of pages share: addresses, text as people read it, a person of another team."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from tasks_app.people.models import Membership, Team, User

STAFF = ("Buyer", "Approver", "Ad Ops", "Finance", "Auditor", "Administrator")
ClientOf = Callable[..., Client]
_BACKEND = "tasks_app.people.holders.RoleBackend"


def page_of(obj: Model) -> str:
    """The address of an object's page."""
    return reverse(f"admin:{obj._meta.app_label}_{obj._meta.model_name}_change", args=[obj.pk])


def list_of(model: type[Model]) -> str:
    """The address of a model's list."""
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def read(client: Client, address: str, status: int = 200) -> str:
    """The page as its reader sees it: text, tags gone, runs of blanks as one."""
    answer = client.get(address)
    assert answer.status_code == status, (address, answer.status_code)
    body = answer.content.decode()
    main = body[body.index('<main id="main"') :] if '<main id="main"' in body else body
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", main)))


def drawn(client: Client, address: str, which: int = 0, named: str = "drawn_from") -> dict[str, str]:
    """What a form of the page carries of what it shows; nothing where there is none."""
    answer = client.get(address)
    found = re.findall(rf'name="{named}" value="([^"]*)"', answer.content.decode())
    return {named: html.unescape(found[which])} if found else {}


def send(client: Client, address: str, form: dict[str, Any], which: int = 0, **extra: Any) -> Any:
    """The page is opened, one of its forms filled in and sent."""
    named = "shown" if {"withdraw", "rotate"} & form.keys() else "drawn_from"
    return client.post(address, {**drawn(client, address, which, named), **form}, **extra)


def stranger(role: str = "Administrator") -> Client:
    """Somebody with every right, in a team that owns nothing."""
    user = User.objects.create_user("stranger", password="unused-in-this-test", is_staff=True)
    user.groups.set([Group.objects.get(name=role)])
    user.teams.set([Team.objects.create(name="Another team")])
    client = Client()
    client.force_login(user, backend=_BACKEND)
    return client


def person_form(user: User, **changed: Any) -> dict[str, Any]:
    """Return what the form of a person sends if nothing but `changed` is changed; None leaves a field out."""
    seats = list(Membership.objects.filter(user=user))
    form: dict[str, Any] = {
        "username": user.username,
        "first_name": "",
        "last_name": "",
        "email": "",
        "time_zone": "UTC",
        "groups": [group.pk for group in user.groups.all()],
        "memberships-TOTAL_FORMS": len(seats),
        "memberships-INITIAL_FORMS": len(seats),
    }
    for at, seat in enumerate(seats):
        form |= {
            f"memberships-{at}-id": seat.pk,
            f"memberships-{at}-user": str(user.pk),
            f"memberships-{at}-team": str(seat.team_id),
            f"memberships-{at}-every_advertiser": "on",
        }
    return {name: value for name, value in {**form, **changed}.items() if value is not None}
