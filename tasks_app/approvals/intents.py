"""A word on several questions that can still be undone: kept as an intent, which the sweep decides later.

Nothing is decided while it can be withdrawn, and nothing can be withdrawn once the first is decided: the
intent's row is locked for both. Each decision and its line in the report are one commit, so a process that is
killed in between loses none and makes none twice.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.approvals.records import DecisionBatch
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.approvals.together import batch_check, item_decide
from tasks_app.database_clock import database_moment, database_now
from tasks_app.desk.items import plural
from tasks_app.lifecycle.transitions import exact
from tasks_app.notifications.services import About, notify
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tasks_app.tracing import caused_by, origin
from tasks_app.troubles.rows import each_row, held_back
from tasks_app.troubles.works import work_on

_WORK = work_on("decided_together", "decision_batch")
UNDO_FOR = timedelta(seconds=10)
_AT_ONCE = 50  # decisions in one pass: the sweep has more to do


def batch_intend(
    *,
    batch_id: uuid.UUID,
    shown: Mapping[uuid.UUID, str],
    user: User,
    verdict: str,
    comment: str = "",
    on_behalf_of: User | None = None,
) -> DecisionBatch:
    """Keep a word on each of `shown` (its id to the digest of what was shown), to be decided after UNDO_FOR
    by the database's clock, since another host decides. The same `batch_id` said again answers what is kept.

    Raises ValueError for no or more than together.MOST questions, a verdict there is not, or an id that is
    another person's.
    """
    batch_check(len(shown), verdict)
    kept = DecisionBatch(
        pk=batch_id,
        user=user,
        verdict=verdict,
        comment=str(exact(comment)).strip(),
        shown=[str(one) for one in shown],
        digests={str(one): str(exact(digest)) for one, digest in shown.items()},
        on_behalf_of=on_behalf_of,
        request=origin(),
        at=clock.now(),
        due_at=database_moment() + UNDO_FOR,
    )
    try:
        with transaction.atomic():
            kept.save(force_insert=True)
    except IntegrityError:
        mine = DecisionBatch.objects.filter(pk=batch_id, user=user).first()
        if mine is None:
            raise ValueError("this word was said by somebody else") from None
        return mine
    return kept


@transaction.atomic
def batch_withdraw(*, batch_id: uuid.UUID, user: User) -> DecisionBatch:
    """Undo one of the person's own before any of it is decided. Raises DecisionRefusedError: there is none,
    or it is too late."""
    found = DecisionBatch.objects.filter(pk=batch_id, user=user, due_at__isnull=False)
    batch = found.select_for_update(of=("self",), no_key=True).first()
    if batch is None:
        raise DecisionRefusedError("not_found", "There is nothing of yours to undo.")
    if batch.withdrawn_at is None:
        if batch.done_at is not None or batch.items.exists():
            raise DecisionRefusedError("not_open", "It is too late to undo: what is decided is final.")
        batch.withdrawn_at = clock.now()
        batch.save(update_fields=["withdrawn_at"])
    return batch


def intents_pending(user: User) -> list[DecisionBatch]:
    """The person's own that are not decided yet, the next one first."""
    return list(_pending().filter(user=user).order_by("due_at", "pk")[:20])


def intents_decide() -> int:
    """A chore of the sweep: decide what is due. Answers how many decisions were tried."""
    due = _pending().filter(due_at__lte=database_now()).exclude(pk__in=held_back(_WORK))
    tried = 0

    def decide(batch_id: uuid.UUID) -> int:
        nonlocal tried
        now = _decide(batch_id, max(1, _AT_ONCE - tried))  # or one that had trouble would pass as handled
        tried += now
        return now

    ids = due.order_by("due_at", "pk").values_list("pk", flat=True)[:_AT_ONCE]
    return each_row(_WORK, ids, decide, commits=True)


def _pending() -> QuerySet[DecisionBatch]:
    return DecisionBatch.objects.filter(due_at__isnull=False, withdrawn_at=None, done_at=None)


def _decide(batch_id: uuid.UUID, limit: int) -> int:
    """At most so many of one, each in its own commit; the last ends it."""
    user = User.objects.get(pk=DecisionBatch.objects.values_list("user", flat=True).get(pk=batch_id))
    for tried in range(limit):
        if not _next(batch_id, user):
            return tried
    return limit


@transaction.atomic
def _next(batch_id: uuid.UUID, user: User) -> bool:
    """Decide on the next one; whether there was one, and nobody else is at it."""
    rows = _pending().filter(pk=batch_id).select_related("on_behalf_of")
    batch = rows.select_for_update(of=("self",), no_key=True, skip_locked=True).first()
    if batch is None:
        return False
    decided = {str(one) for one in batch.items.values_list("approval", flat=True)}
    left = [one for one in batch.shown if one not in decided]
    if not left:
        _end(batch, user)
        return False
    with caused_by(request=batch.request, team=None, user=actor_key(user)):
        item_decide(batch, uuid.UUID(left[0]), batch.digests[left[0]], user, batch.on_behalf_of)
    return True


def _end(batch: DecisionBatch, user: User) -> None:
    """All are decided or refused; who said it is told of what was not, as they may have left the page."""
    batch.done_at = clock.now()
    batch.save(update_fields=["done_at"])
    refused = [item.message for item in batch.items.order_by("id") if item.code]
    if refused:
        notify(
            kind="decided_together",
            title=f"{plural(len(refused), 'question')} of {len(batch.shown)} were not decided",
            body=" ".join(dict.fromkeys(refused)),
            level="warning",
            about=About(type="decision_batch", id=batch.pk),
            person=user,
            key=f"decided_together:{batch.pk}",
        )
