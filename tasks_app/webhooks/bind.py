"""Binding a delivery's key to its body, once for all processes: the row is the binding.

Source: AdCP L3/async-identity-and-convergence "Webhook delivery-key binding".
"""

from __future__ import annotations

import hashlib
from typing import Any

from django.db import connection
from django.db.models import F, Q
from psycopg.types.json import Jsonb

from tasks_app import clock
from tasks_app.database_clock import database_now
from tasks_app.lifecycle.prepared import prepared_row
from tasks_app.operations.models import PENDING, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.webhooks.answer import Answer
from tasks_app.webhooks.contradictions import key_conflict
from tasks_app.webhooks.models import WebhookDelivery
from tasks_app.webhooks.room import room_beside

Verdict = WebhookDelivery.Verdict
_OPEN = (S.CALLING_ADCP, *PENDING)
KEY_CHARS = 8  # of a key that is no longer bound
BUSY = Answer(status=503, word="in_progress", headers={"Retry-After": "1"})

_COLUMNS = (
    "id, seller_id, operation_id, at, source, key, bound_until, fingerprint, verdict, reason, task_id,"
    " operation_ref, status, key_id, body"
)
# Bound by the clock that lets its key go, whatever the host's says.
_BOUND_UNTIL = "coalesce(%s::timestamptz, statement_timestamp()) + %s::interval"
_VALUES = f"%s, %s, %s, %s, %s, %s, {_BOUND_UNTIL}, %s, %s, %s, %s, %s, %s, %s, %s"
# Nothing is inserted while a twin is in progress (the lock ends with its transaction), or where the key is
# bound.
_INSERT = f"""
insert into tasks_app_webhookdelivery ({_COLUMNS})
select {_VALUES} where %s or pg_try_advisory_xact_lock(%s)
on conflict do nothing returning true
"""
# Nor where it could not be news of an open operation that fits what is known of it, or where a delivery
# received before waits for the same operation.
_RECEIVE = f"""
insert into tasks_app_webhookdelivery ({_COLUMNS})
select {_VALUES}
from tasks_app_operation operation
where (%s or pg_try_advisory_xact_lock(%s)) and operation.id = %s and operation.seller_id = %s
    and operation.status = any(%s) and operation.task_id in ('', %s) and operation.task_type = %s
on conflict do nothing returning true
"""  # noqa: S608 (our own column names)


def key_lock(delivery: WebhookDelivery) -> int:
    """The advisory lock of a key."""
    name = f"webhook:{delivery.seller_id}:{delivery.key}".encode()
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big", signed=True)


def delivery_insert(delivery: WebhookDelivery) -> bool:
    """Insert the row and so bind its key; False when nothing was inserted (see above)."""
    return _insert(_INSERT, delivery, [])


def delivery_insert_received(delivery: WebhookDelivery, *, task_type: str) -> bool:
    """Insert the row for a worker to apply; False when it has to be judged at once (see above)."""
    delivery.verdict = Verdict.RECEIVED
    told = [delivery.operation_id, delivery.seller_id, list(_OPEN), delivery.task_id, task_type]
    return _insert(_RECEIVE, delivery, told)


def _insert(statement: str, delivery: WebhookDelivery, more: list[Any]) -> bool:
    row = prepared_row(
        statement,
        [
            delivery.pk,
            delivery.seller_id,
            delivery.operation_id,
            delivery.at,
            delivery.source,
            delivery.key,
            clock.frozen(),
            None if delivery.bound_until is None else delivery.bound_until - delivery.at,
            delivery.fingerprint,
            delivery.verdict,
            delivery.reason,
            delivery.task_id,
            delivery.operation_ref,
            delivery.status,
            delivery.key_id,
            Jsonb(delivery.body) if delivery.body is not None else None,
            not delivery.key,
            key_lock(delivery),
            *more,
        ],
    )
    delivery._state.adding = row is None
    return row is not None


def key_take(delivery: WebhookDelivery) -> bool:
    """Take the key for the rest of the transaction; False while a twin is in progress."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_try_advisory_xact_lock(%s)", [key_lock(delivery)])
        return bool(cursor.fetchone()[0])


def twin_answer(delivery: WebhookDelivery, operation: Operation | None) -> Answer | None:
    """What a delivery whose key is bound is told: the same body is acknowledged without effects, another is
    refused; the first of these is kept for people, the rest are counted. None when the binding has run out:
    it is released, and the delivery is a first one.

    The caller holds the key (`key_take`).
    """
    first = (
        WebhookDelivery.objects.filter(seller=delivery.seller_id, key=delivery.key, bound_until__isnull=False)
        .annotate(is_past=Q(bound_until__lte=database_now()))  # by the clock that lets its key go
        .first()
    )
    if first is None or first.is_past:
        if first is not None:
            _key_release(first)
        return None
    delivery.bound_until = None
    delivery.key = delivery.key[:KEY_CHARS]
    if first.fingerprint != delivery.fingerprint:
        delivery.verdict = Verdict.KEY_CONFLICT
        _contradict(first, delivery, operation)
        return Answer(status=409, word="key_conflict")
    delivery.verdict, delivery.body = Verdict.DUPLICATE, None
    delivery.save(force_insert=True)
    return Answer(status=200, word="duplicate")


def _key_release(first: WebhookDelivery) -> None:
    """Its time is over: the key is free. Its words go, but where people may still look, or they wait to be
    applied."""
    kept = {} if first.verdict in (Verdict.CONFLICT, Verdict.RECEIVED) else {"body": None}
    WebhookDelivery.objects.filter(pk=first.pk).update(bound_until=None, key=first.key[:KEY_CHARS], **kept)


def _contradict(first: WebhookDelivery, second: WebhookDelivery, operation: Operation | None) -> None:
    """Count it, and ask people; the first that differs is kept, with its body where the seller has room."""
    # The operation is locked before its delivery: the order of who applies what was received.
    key_conflict(operation=operation, first=first, second=second)
    if not first.others:
        with room_beside(second) as room:
            if not room:
                second.body = None
            second.save(force_insert=True)
    WebhookDelivery.objects.filter(pk=first.pk).update(others=F("others") + 1)
