"""What a person may do and see, as it is recorded when it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction

from tasks_app.people.access import access_end
from tasks_app.people.models import Membership, Team, User
from tasks_app.people.second_factor import ENROL, factor_state
from tasks_app.people.security import Kind, security_record
from tasks_app.people.sessions import sessions_drop

ALL = "all"
_listeners: list[Callable[[User], None]] = []


def on_rights_changed(listener: Callable[[User], None]) -> None:
    """Called when the application starts: `listener(user)` runs in the transaction in which what somebody may
    do or see has changed."""
    if listener not in _listeners:
        _listeners.append(listener)


def rights_of(user: User) -> dict[str, Any]:
    """{"login": the name that they sign in by, "mail": their address, "roles": [...],
    "teams": {name: "all" or advertisers' names}, "active", "staff", "service", "superuser"}, as it
    stands in the database."""
    now = User.objects.get(pk=user.pk)
    seats = Membership.objects.filter(user=user).select_related("team").prefetch_related("advertisers")
    return {
        "login": now.username,
        "mail": now.email,
        "roles": sorted(now.groups.values_list("name", flat=True)),
        "teams": {
            seat.team.name: ALL
            if seat.every_advertiser
            else sorted(advertiser.name for advertiser in seat.advertisers.all())
            for seat in seats
        },
        "active": now.is_active,
        "staff": now.is_staff,
        "service": now.is_service,
        "superuser": now.is_superuser,
    }


@contextmanager
def rights_recorded(user: User, *, by: User | str, address: str | None = None) -> Iterator[None]:
    """What is done in this block to the rights of `user`, who may be new, is recorded, in one transaction."""
    with transaction.atomic():
        before = rights_of(user) if User.objects.filter(pk=user.pk).exists() else {}
        yield
        rights_changed(user=user, before=before, by=by, address=address)


def rights_changed(*, user: User, before: dict[str, Any], by: User | str, address: str | None) -> bool:
    """Record what has changed since `before`, who did it, from what to what; False where nothing has. In the
    transaction that changes it: PostgreSQL refuses a change without its record at commit.

    Who is switched off has no session, token or calendar address any more, also once they are switched on
    again. Who must now have a second factor and has none is signed out, and sets one up at the next sign-in.
    """
    after = rights_of(user)
    changes = {name: [before.get(name), value] for name, value in after.items() if before.get(name) != value}
    if not before:
        changes.pop("login")  # whom it is about
        changes.pop("mail")
    if not changes:
        return False
    security_record(
        event=Kind.RIGHTS_CHANGED, actor=by, about=user.username, detail={"changes": changes}, address=address
    )
    if before.get("active") and not after["active"]:
        access_end(user=user, by=by, address=address)
    elif not after["active"] or ("roles" in changes and factor_state(user) == ENROL):
        sessions_drop(user=user)
    for listener in _listeners:
        listener(user)
    return True


def join_first_team(*, user: User, team: Team, address: str | None) -> None:
    """Make the user, who has added this team, a member of it if they have no team yet."""
    if user.memberships.exists():
        return
    with rights_recorded(user, by=user, address=address):
        Membership.objects.create(user=user, team=team)
