"""Who could decide on open questions: the people whom a page names, by the rules that hold when they try."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, prefetch_related_objects

from tasks_app.approvals.delegation import delegations_now
from tasks_app.approvals.models import Approval
from tasks_app.people.holders import roles_of, with_role
from tasks_app.people.models import Membership, User
from tasks_app.people.roles import DECIDE


def deciders(asked: Sequence[Approval]) -> dict[uuid.UUID, list[User]]:
    """Each question's id to the members of its team (of any, where it is the house's) who can decide on it:
    with the right, one of its roles and its advertiser, who neither asked nor have decided, themselves or by
    another, nor stand in for who asked. One query, one more for the house's, and one for decisions that were
    not read yet."""
    if not asked:
        return {}
    prefetch_related_objects(asked, "decisions")
    seats = _seats({one.team_id for one in asked if one.team_id is not None})
    if any(one.team_id is None for one in asked):
        seats = [*seats, *_anybody()]
    return {one.pk: [seat.user for seat in seats if _decides(seat, one)] for one in asked}


def _seats(teams: Collection[uuid.UUID]) -> list[Any]:
    """Memberships of active people who hold the right, with `named`: the advertisers named in it, `roles` of
    the person, and `principals`: those whom they stand in for."""
    people = User.objects.filter(with_role(DECIDE), is_active=True, is_service=False)
    named = Membership.advertisers.through.objects.filter(membership=OuterRef("pk"))
    stood_for = delegations_now().filter(delegate=OuterRef("user"))
    return list(
        Membership.objects.filter(team__in=teams, user__in=people.values("pk"))
        .select_related("user")
        .annotate(
            named=ArraySubquery(named.values("advertiser")),
            roles=ArraySubquery(roles_of(OuterRef("user"))),
            principals=ArraySubquery(stood_for.order_by().values("delegator")),
        )
        .order_by("user")
    )


def _anybody() -> list[Any]:
    """Those who decide on what is no team's, as seats of none."""
    able = User.objects.filter(with_role(DECIDE), is_active=True, is_service=False)
    stood_for = delegations_now().filter(delegate=OuterRef("pk"))
    people = (
        User.objects.filter(pk__in=able.values("pk"))
        .annotate(
            names=ArraySubquery(roles_of(OuterRef("pk"))),
            principals=ArraySubquery(stood_for.order_by().values("delegator")),
        )
        .order_by("pk")
    )
    return [
        SimpleNamespace(
            user=one, user_id=one.pk, team_id=None, roles=one.names, principals=one.principals,
            every_advertiser=True, named=[],
        )
        for one in people
    ]  # fmt: skip


def _decides(seat: Any, asked: Approval) -> bool:
    if seat.team_id != asked.team_id:
        return False
    sees = seat.every_advertiser or asked.advertiser_id is None or asked.advertiser_id in seat.named
    fits = not asked.roles or not set(asked.roles).isdisjoint(seat.roles)
    return sees and fits and not _barred(seat, asked)


def _barred(seat: Any, asked: Approval) -> bool:
    """Whether they asked, stand in for who asked, or have had their decision."""
    key = f"human:{seat.user_id}"
    askers = {key, *(f"human:{principal}" for principal in seat.principals)}
    return not askers.isdisjoint(asked.asked_by) or any(
        key in (one.actor, one.on_behalf_of) for one in asked.decisions.all()
    )
