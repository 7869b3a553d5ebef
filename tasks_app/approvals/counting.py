"""Whose approval counts: that of who could still decide, at the moment in which it is counted.

Who was deactivated, has lost the right, the role or the advertiser, or has set it off since, does not count;
nor does who stood in for somebody who has set it off since.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, Prefetch, prefetch_related_objects

from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.people.holders import roles_of, users_with
from tasks_app.people.models import Membership
from tasks_app.people.roles import ADMINISTRATOR, DECIDE


@dataclass(frozen=True, kw_only=True)
class _Person:
    """Somebody who may decide now; `seats`: their memberships, None for a superuser, who sees everything."""

    key: str
    roles: frozenset[str]
    seats: list[Any] | None


def given(asked: Sequence[Approval]) -> dict[uuid.UUID, int]:
    """How many approvals each question has that count, as `counted`."""
    return {pk: len(found) for pk, found in counted(asked).items()}


def counted(asked: Sequence[Approval]) -> dict[uuid.UUID, list[Decision]]:
    """The approvals of each question that count, in their order; of one that has ended, all that were given.
    Two queries where one of them waits for more than one person and has some, and one for decisions that were
    not read yet."""
    prefetch_related_objects(asked, "decisions")
    approving = {one.pk: _approving(one) for one in asked}
    waiting = [one for one in asked if one.status == ApprovalStatus.OPEN and approving[one.pk]]
    waiting = [one for one in waiting if one.quorum > 1]
    keys = {decision.actor for one in waiting for decision in approving[one.pk]}
    people = _people(keys) if keys else {}
    for one in waiting:
        found = (told for told in approving[one.pk] if told.on_behalf_of not in one.asked_by)
        approving[one.pk] = [told for told in found if _counts(one, people.get(told.actor))]
    return approving


def given_on(approval: Approval) -> int:
    """The same of one question."""
    return given([approval])[approval.pk]


def _approving(approval: Approval) -> list[Decision]:
    return [one for one in approval.decisions.all() if one.verdict == Decision.Verdict.APPROVE]


def _people(keys: Collection[str]) -> dict[str, _Person]:
    """Of actors, by their keys, those who may decide now."""
    ids = [uuid.UUID(key.partition(":")[2]) for key in keys]
    able = users_with(DECIDE).filter(pk__in=ids, is_service=False).order_by("pk")
    named = Membership.advertisers.through.objects.filter(membership=OuterRef("pk"))
    members = Membership.objects.annotate(named=ArraySubquery(named.values("advertiser")))
    rows = able.annotate(names=ArraySubquery(roles_of(OuterRef("pk")))).prefetch_related(
        Prefetch("memberships", queryset=members)
    )
    return {
        key: _Person(
            key=key,
            roles=frozenset({*user.names, *((ADMINISTRATOR,) if user.is_superuser else ())}),
            seats=None if user.is_superuser else list(user.memberships.all()),
        )
        for user in rows
        for key in (f"human:{user.pk}",)
    }


def _counts(approval: Approval, person: _Person | None) -> bool:
    """Whether who approved it could decide on it now."""
    if person is None or person.key in approval.asked_by:
        return False
    fits = not approval.roles or not person.roles.isdisjoint(approval.roles)
    return fits and (
        approval.team_id is None
        or person.seats is None
        or any(_sees(approval, seat) for seat in person.seats if seat.team_id == approval.team_id)
    )


def _sees(approval: Approval, seat: Any) -> bool:
    whole = seat.every_advertiser or approval.advertiser_id is None
    return whole or approval.advertiser_id in seat.named
