"""Telling those who may decide that something waits for them, and reminding them before its deadline.

Chores of the sweep, not part of asking: what one actor asks of a team at once, about one thing or many, is
one digest. A crash in between tells nobody twice: what was told is marked in the commit that tells.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal

from django.conf import settings
from django.db import transaction
from django.db.models import DurationField, ExpressionWrapper, F, QuerySet, Value
from django.db.models.functions import Least
from django.urls import reverse

from tasks_app import clock
from tasks_app.approvals.kinds import kinds_apart
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.presenters import opened_words
from tasks_app.lifecycle.names import EntityName, namer_register
from tasks_app.notifications.models import Notification
from tasks_app.notifications.moments import moment_token
from tasks_app.notifications.services import About, notify
from tasks_app.people.actors import actor_names
from tasks_app.people.roles import DECIDE
from tasks_app.troubles.rows import held_back, together
from tasks_app.troubles.works import work_on

_QUEUE = "approval_queue"  # as a notification's subject: the id is the team's
_LISTED = 20  # titles in one digest
_QUARTER = 4
_Told = Literal["told_at", "reminded_at"]
_WORKS: dict[_Told, str] = {
    "told_at": work_on("approval_told_at", "approval"),
    "reminded_at": work_on("approval_reminded_at", "approval"),
}


def register() -> None:
    """Called when the application starts."""
    namer_register(_QUEUE, _queues)


@transaction.atomic
def approvals_tell(*, limit: int = 500) -> int:
    """Tell of what was asked since the last time, but of kinds with a page of their own; answers of how many
    questions."""
    new = Approval.objects.filter(status=ApprovalStatus.OPEN, told_at__isnull=True).exclude(
        kind__in=kinds_apart()
    )
    return _tell_each(new, "told_at", limit)


@transaction.atomic
def approvals_remind(*, limit: int = 500) -> int:
    """Remind of what nobody has decided and soon ends, once; answers of how many questions."""
    quarter = ExpressionWrapper((F("due_at") - F("created_at")) / _QUARTER, output_field=DurationField())
    before = Least(Value(settings.APPROVAL_REMIND, output_field=DurationField()), quarter)
    due = Approval.objects.filter(
        status=ApprovalStatus.OPEN, told_at__isnull=False, reminded_at__isnull=True, due_at__gt=clock.now()
    ).filter(due_at__lte=clock.now() + before)
    return _tell_each(due, "reminded_at", limit)


def _tell_each(due: QuerySet[Approval], column: _Told, limit: int) -> int:
    """A digest for each group; of one that cannot be told each by itself."""
    work = _WORKS[column]
    rows = due.exclude(pk__in=held_back(work)).select_for_update(skip_locked=True, no_key=True)
    asked = {approval.pk: approval for approval in rows.order_by("pk")[:limit]}

    def tell(ids: Sequence[uuid.UUID]) -> list[uuid.UUID]:
        _tell([asked[pk] for pk in ids], column)
        return list(ids)

    return sum(len(together(work, [one.pk for one in group], tell)) for group in _groups(asked.values()))


def _groups(approvals: Iterable[Approval]) -> Collection[list[Approval]]:
    """Approvals that the same people may decide on: of one advertiser, with the same roles and requesters."""
    groups: dict[tuple[Any, ...], list[Approval]] = defaultdict(list)
    for one in approvals:
        askers = (one.opened_by, one.requested_by, tuple(one.set_off_by))
        key = (one.team_id, one.advertiser_id, askers, tuple(one.roles))
        groups[key].append(one)
    return groups.values()


def _tell(group: list[Approval], column: _Told) -> None:
    first, many = group[0], len(group)
    again = column == "reminded_at"
    what = first.title if many == 1 else f"{many} questions"
    waits = "waits" if many == 1 else "wait"
    ends = min(approval.due_at for approval in group)
    notify(
        kind="approval_reminder" if again else "approval_waits",
        title=f"{what}: {'still ' if again else ''}{waits} for a decision",
        body=_body(group),
        level=Notification.Level.WARNING if again else Notification.Level.INFO,
        about=_about(group),
        team=first.team,
        advertiser_id=first.advertiser_id,
        right=DECIDE,
        roles=first.roles,
        not_for=first.requested_by,
        nor_for=first.set_off_by,
        key=f"approval_{column}:{first.pk}:{many}:{ends:%Y%m%d%H%M}",
    )
    Approval.objects.filter(pk__in=[approval.pk for approval in group]).update(**{column: clock.now()})


def _about(group: list[Approval]) -> About:
    first = group[0]
    if len(group) == 1 or first.team_id is None:
        return About(type="approval", id=first.pk)
    return About(type=_QUEUE, id=first.team_id)


def _body(group: list[Approval]) -> str:
    asker = opened_words(group[0], actor_names(set(group[0].actors)))
    lines = [f"{a.reference}: {a.title}. By {moment_token(a.due_at)}." for a in group[:_LISTED]]
    if len(group) > _LISTED:
        lines.append(f"And {len(group) - _LISTED} more.")
    return "\n".join([f"Asked by {asker}.", *lines])


def _queues(teams: Collection[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    link = reverse("admin:tasks_app_approval_changelist")
    return {team: EntityName(reference="Approvals", link=link) for team in teams}
