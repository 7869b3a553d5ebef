"""Leases on turns: which run, in which process, works on a turn, and for how long without renewing."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from tasks_app.assistant.models import AssistantTurn
from tasks_app.database_clock import database_in, database_now


@transaction.atomic
def claim_turns(*, limit: int, session_id: uuid.UUID | None = None) -> dict[uuid.UUID, uuid.UUID]:
    """Take the lease of open turns that nobody works on, oldest first; return turn to lease holder.

    With a `session_id` only its turns are taken. Within a session, a turn waits until every earlier one
    has ended.
    """
    earlier = AssistantTurn.objects.filter(
        session=OuterRef("session"), number__lt=OuterRef("number"), ended_at__isnull=True
    )
    free = AssistantTurn.objects.filter(
        Q(lease_until__isnull=True) | Q(lease_until__lt=database_now()),
        ~Exists(earlier),
        ended_at__isnull=True,
    )
    if session_id is not None:
        free = free.filter(session=session_id)
    rows = free.select_for_update(skip_locked=True, no_key=True).order_by("id")[:limit]
    claimed = {pk: uuid.uuid4() for pk in rows.values_list("pk", flat=True)}
    for pk, holder in claimed.items():
        AssistantTurn.objects.filter(pk=pk).update(
            lease_holder=holder, lease_until=database_in(settings.ASSISTANT_LEASE_S)
        )
    return claimed


def renew_leases(holders: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Renew leases; return the holders whose turn is not theirs any more: it was stopped or taken over."""
    if not holders:
        return set()
    held = AssistantTurn.objects.filter(lease_holder__in=holders, ended_at__isnull=True)
    held.update(lease_until=database_in(settings.ASSISTANT_LEASE_S))
    return {*holders} - {*held.values_list("lease_holder", flat=True)}


def release_leases(holders: Collection[uuid.UUID]) -> None:
    """Give leases back, so that another process goes on at once."""
    AssistantTurn.objects.filter(lease_holder__in=holders).update(lease_holder=None, lease_until=None)
