"""Standing in for who is away. It lends a place, never a right, and never adds up: a human decides once.

The person, or whoever administers people, makes one; it ends by its date or early. No chains: who stands in
for somebody does not pass that on.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Literal

from django.db import transaction
from django.db.models import Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Concat

from tasks_app import clock
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.records import Delegation
from tasks_app.notifications.moments import moment_token
from tasks_app.notifications.services import notify
from tasks_app.people.actors import actor_ensure, actor_key
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE
from tasks_app.people.scope import visible

ADMINISTERS = "tasks_app.change_user"
LONGEST = FARTHEST = timedelta(days=366)
Why = tuple[Literal["own_request", "already_decided", "no_delegation"], str]


class DelegationRefusedError(Exception):
    """Nothing was made or ended; the text says why."""


@transaction.atomic
def delegation_create(
    *, user: User, delegator: User, delegate: User, starts_at: datetime, ends_at: datetime, reason: str = ""
) -> Delegation:
    """Let `delegate` decide in `delegator`'s place within [starts_at, ends_at). Both are told.

    Raises DelegationRefusedError: it is another's affair, one of them may not decide, they share no team, the
    dates make no time to come, or the same pair has one in that time.
    """
    _may_write(user, delegator)
    # Both rows in one order: two that are made at once for one pair follow one another.
    ids = [delegator.pk, delegate.pk]
    list(User.objects.filter(pk__in=ids).order_by("pk").select_for_update(no_key=True).values_list("pk"))
    _check_people(delegator, delegate)
    _check_dates(starts_at, ends_at)
    if _overlapping(delegator, delegate, starts_at, ends_at).exists():
        raise DelegationRefusedError(f"{delegate} stands in for {delegator} in that time already.")
    made = Delegation.objects.create(
        delegator=delegator,
        delegate=delegate,
        starts_at=starts_at,
        ends_at=ends_at,
        reason=" ".join(reason.split())[:200],
        made_by=actor_ensure(user=user).key,
        made_at=clock.now(),
    )
    _tell(made, "made", f"{delegate} decides for {delegator}", by=user)
    return made


@transaction.atomic
def delegation_end(*, delegation_id: uuid.UUID, user: User) -> Delegation:
    """End it now, or call it off before it began. Raises DelegationRefusedError."""
    held = delegations_of(user).select_for_update(of=("self",), no_key=True).filter(pk=delegation_id).first()
    if held is None:
        raise DelegationRefusedError("There is no such delegation of yours.")
    if user.pk != held.delegate_id:  # who stands in may always decline
        _may_write(user, held.delegator)
    if held.ended_at is not None or held.ends_at <= clock.now():
        raise DelegationRefusedError("It has ended already.")
    held.ended_at, held.ended_by = clock.now(), actor_ensure(user=user).key
    held.save(update_fields=["ended_at", "ended_by"])
    _tell(held, "ended", f"{held.delegate} no longer decides for {held.delegator}", by=user)
    return held


def delegations_of(viewer: User) -> QuerySet[Delegation]:
    """Those the viewer gave or holds; all of them for whoever administers people."""
    rows = Delegation.objects.select_related("delegator", "delegate")
    if viewer.has_perm(ADMINISTERS):
        return rows
    return rows.filter(Q(delegator=viewer) | Q(delegate=viewer))


def delegations_in_force(*, delegate: User) -> QuerySet[Delegation]:
    """By which `delegate` stands in for others at this moment."""
    return delegations_now().filter(delegate=delegate).select_related("delegator")


def delegations_now() -> QuerySet[Delegation]:
    """All that are in force at this moment."""
    now = clock.now()
    return Delegation.objects.filter(starts_at__lte=now, ends_at__gt=now, ended_at__isnull=True)


def delegator_keys(delegate: User) -> QuerySet[Delegation, str]:
    """The actor's keys of those whom `delegate` stands in for at this moment: for a query's IN."""
    key = _key_of("delegator_id")
    return delegations_in_force(delegate=delegate).order_by().values_list(key, flat=True)


def principals_of(
    approval: Approval, held: Collection[Delegation], decisions: Collection[Decision]
) -> list[User]:
    """For whom a delegate who holds `held` (in force) and may decide on this one may do so, besides
    themselves."""
    return [one.delegator for one in held if not why_not_for(approval, one.delegator, decisions)]


def own_words(approval: Approval, key: str) -> str:
    """Why who asked for it, or set it off again, does not decide."""
    did = "asked for this" if approval.requested_by == key else "set this off"
    return f"You {did} yourself: somebody else decides."


def why_not(
    approval: Approval,
    user: User,
    decisions: Collection[Decision],
    held: Collection[Delegation] | None = None,
) -> Why | None:
    """What delegations forbid `user` on this one: to decide for who asked, or after who stood in for them.
    `held`: those they hold in force, read where not given."""
    key = actor_key(user)
    stood_in = next((one for one in decisions if one.on_behalf_of == key), None)
    if stood_in is not None:
        return "already_decided", f"{stood_in.actor_name} has decided on this in your place already."
    for one in delegations_in_force(delegate=user) if held is None else held:
        if actor_key(one.delegator) in approval.asked_by:
            said = f"{one.delegator} asked for this, and you stand in for them: somebody else decides."
            return "own_request", said
    return None


def why_not_in_place_of(
    approval: Approval, user: User, principal: User, decisions: Collection[Decision]
) -> Why | None:
    """Why `user` does not decide on this one in the place of `principal`."""
    if not delegations_in_force(delegate=user).filter(delegator=principal).exists():
        return "no_delegation", f"{principal} has not asked you to stand in for them."
    return why_not_for(approval, principal, decisions)


def why_not_for(approval: Approval, principal: User, decisions: Collection[Decision]) -> Why | None:
    """Why nobody decides on this one in the place of `principal`: they could not themselves."""
    key = actor_key(principal)
    if key in approval.asked_by:
        return "own_request", f"{principal} asked for this: nobody decides on it in their place."
    if any(key in (one.actor, one.on_behalf_of) for one in decisions):
        return "already_decided", f"{principal} has had their decision on this already."
    if not _may_decide(principal):
        return "no_delegation", f"{principal} may not decide on approvals themselves."
    if not visible(Approval.objects.filter(pk=approval.pk), principal).exists():
        return "no_delegation", f"It is none of {principal}'s approvals."
    return None


def _key_of(column: str) -> Concat:
    """The actor's key of the person in a column: machines delegate nothing."""
    return Concat(Value("human:"), Cast(column, TextField()), output_field=TextField())


def _may_decide(user: User) -> bool:
    return user.is_active and not user.is_service and user.has_perm(DECIDE)


def _may_write(user: User, delegator: User) -> None:
    if not user.is_active or user.is_service:
        raise DelegationRefusedError("People delegate, not machines.")
    if user.pk != delegator.pk and not user.has_perm(ADMINISTERS):
        raise DelegationRefusedError("That is for them to say, or for an administrator.")


def _check_people(delegator: User, delegate: User) -> None:
    if delegator.pk == delegate.pk:
        raise DelegationRefusedError("Nobody stands in for themselves.")
    for person in (delegator, delegate):
        if not _may_decide(person):
            raise DelegationRefusedError(f"{person} may not decide on approvals.")
    if delegate.is_superuser or delegator.is_superuser:  # of all teams
        return
    if not delegate.teams.filter(pk__in=delegator.teams.all()).exists():
        raise DelegationRefusedError(f"{delegate} is in none of {delegator}'s teams.")


def _check_dates(starts_at: datetime, ends_at: datetime) -> None:
    if ends_at <= starts_at:
        raise DelegationRefusedError("It ends before it begins.")
    if ends_at <= clock.now():
        raise DelegationRefusedError("That time is over.")
    if starts_at > clock.now() + FARTHEST:
        raise DelegationRefusedError("It starts within a year: one for later is made later.")
    if ends_at - starts_at > LONGEST:
        raise DelegationRefusedError(f"At most {LONGEST.days} days at a time.")


def _overlapping(
    delegator: User, delegate: User, starts_at: datetime, ends_at: datetime
) -> QuerySet[Delegation]:
    return Delegation.objects.filter(
        delegator=delegator,
        delegate=delegate,
        ended_at__isnull=True,
        starts_at__lt=ends_at,
        ends_at__gt=starts_at,
    )


def _tell(held: Delegation, what: str, title: str, *, by: User) -> None:
    """Tell the two people, but not the one who did it."""
    lasts = f"From {moment_token(held.starts_at)} to {moment_token(held.ends_at)}"
    reason = held.reason if what == "made" else ""
    for person in {held.delegate, held.delegator} - {by}:
        notify(
            kind=f"delegation_{what}",
            title=title,
            body=". ".join(part for part in (lasts, reason) if part),
            person=person,
            key=f"delegation:{held.pk}:{what}:{person.pk}",
        )
