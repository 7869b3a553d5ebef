"""Asking for an operation: everything is durable before the first byte leaves.

Reads are asked for through `reads`, what changes something at a seller through `ordering` and its commands;
nobody else comes here (lint-imports).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Value
from django.db.models.functions import Greatest
from django.urls import reverse

from tasks_app import clock, ids
from tasks_app.adcp.client import version_fields
from tasks_app.alike import alike_digest
from tasks_app.lifecycle.references import next_reference
from tasks_app.lifecycle.transitions import Who, create
from tasks_app.operations import policy
from tasks_app.operations.models import READS, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.services import OperationRefusedError, Subject
from tasks_app.operations.tokens import for_eyes, webhook_token_of
from tasks_app.operations.turns import turn_take
from tasks_app.people.actors import actor_key
from tasks_app.people.models import Team
from tasks_app.people.scope import advertiser_of
from tasks_app.sellers.models import Account, Seller

# Alone: all addresses together bring the admin and the API into the worker that asks.
WEBHOOK_ADDRESSES = "tasks_app.webhooks.urls"


def operation_ensure(
    *,
    purpose: str,
    task_type: str,
    seller: Seller,
    arguments: Mapping[str, Any],
    actor: Who,
    team: Team | None,
    account: Account | None = None,
    subject: Subject | None = None,
    advertiser_id: uuid.UUID | None = None,
    held: bool = False,
) -> Operation:
    """The operation of `purpose`, made on first use with frozen request bytes and a UUIDv4 key.

    Asked again with the same purpose it answers the one there is, so a step that runs twice buys once.
    `held` ones are not sent before `operation_release`. Raises OperationRefusedError.
    """
    existing = Operation.objects.filter(purpose=purpose).select_related("seller", "account").first()
    if existing is not None:
        return existing
    refused = seller_refusal(seller, task_type)
    if refused:
        raise OperationRefusedError(refused)
    return operation_make(
        purpose=purpose,
        task_type=task_type,
        seller=seller,
        arguments=arguments,
        actor=actor,
        team=team,
        account=account,
        subject=subject,
        advertiser_id=advertiser_id,
        held=held,
    )


def operation_make(
    *,
    purpose: str,
    task_type: str,
    seller: Seller,
    arguments: Mapping[str, Any],
    actor: Who,
    team: Team | None,
    account: Account | None,
    subject: Subject | None,
    advertiser_id: uuid.UUID | None,
    held: bool,
) -> Operation:
    """A new operation, whether or not its seller may be sent anything at this moment; where another worker
    made that of the same purpose meanwhile, theirs. Its advertiser is the account's, the one that is named,
    or that of its subject."""
    mutation = task_type not in READS
    operation = _new(purpose, task_type, seller, actor, team, account, subject)
    operation.advertiser_id = _advertiser(account, advertiser_id, subject)
    sent = _wire_arguments(operation, arguments, mutation=mutation)
    operation.request_text = json.dumps(sent, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    operation.request = for_eyes(sent)
    operation.po_alike = (
        alike_digest(operation.request.get("po_number")) if task_type == "create_media_buy" else ""
    )
    operation.send_at = None if held else clock.now()
    turn = turn_take(seller)
    operation.share, operation.priority, operation.turn_at = turn.share, turn.priority, turn.at
    try:
        with transaction.atomic():
            create(operation, actor=actor, reason=f"{task_type} asked for", metadata={"purpose": purpose})
    except IntegrityError:
        # Another worker runs the same step: its operation is the one.
        return Operation.objects.select_related("seller", "account").get(purpose=purpose)
    return operation


def operation_release(*, operation: Operation) -> None:
    """Let a held operation be sent, its deadline counting from now; harmless when it was already."""
    now = clock.now()
    Operation.objects.filter(pk=operation.pk, status=S.REQUESTED, send_at__isnull=True).update(
        send_at=now,
        turn_at=Greatest("turn_at", Value(now)),
        deadline_at=now + policy.deadline(operation.task_type, operation.seller),
    )


def operation_let_go(operation: Operation) -> None:
    """Let what was held on its way go on. The time it was held was not its own: its deadline begins anew."""
    now = clock.now()
    until = now + policy.deadline(operation.task_type, operation.seller)
    Operation.objects.filter(pk=operation.pk, send_at__isnull=True).update(
        send_at=now, deadline_at=Greatest("deadline_at", Value(until))
    )


def seller_refusal(seller: Seller, task_type: str, *, though_off: bool = False) -> str:
    """Why a seller is not asked for such a task; empty when it may be. `though_off`: a person said so."""
    shut = seller.shut(mutates=task_type not in READS, though_off=though_off)
    return shut or seller.lacks(task_type)


def _new(
    purpose: str,
    task_type: str,
    seller: Seller,
    actor: Who,
    team: Team | None,
    account: Account | None,
    subject: Subject | None,
) -> Operation:
    return Operation(
        id=ids.new_id(),
        reference=next_reference("OP"),
        purpose=purpose,
        task_type=task_type,
        seller=seller,
        account=account,
        team=team,
        requested_by=actor_key(actor),
        subject_type=subject.type if subject else "",
        subject_id=subject.id if subject else None,
        deadline_at=clock.now() + policy.deadline(task_type, seller),
    )


def _advertiser(
    account: Account | None, advertiser_id: uuid.UUID | None, subject: Subject | None
) -> uuid.UUID | None:
    if account is not None:
        return account.advertiser_id
    return advertiser_id or (advertiser_of(subject.type, subject.id) if subject else None)


def _wire_arguments(operation: Operation, arguments: Mapping[str, Any], *, mutation: bool) -> dict[str, Any]:
    seller = operation.seller
    sent = {**version_fields(seller.adcp_version or None), **arguments}
    if not mutation:
        return sent
    operation.idempotency_key = str(uuid.uuid4())
    sent["idempotency_key"] = operation.idempotency_key
    if isinstance(sent.get("context"), dict):
        # Echoed by the seller, also where it echoes no operation_id.
        sent["context"] = {**sent["context"], "operation_id": str(operation.pk)}
    if seller.uses_webhooks:
        operation.webhook_token = webhook_token_of(operation.pk)
        sent["push_notification_config"] = _push_config(operation)
    return sent


def _push_config(operation: Operation) -> dict[str, Any]:
    seller = operation.seller
    path = reverse("adcp_webhook", urlconf=WEBHOOK_ADDRESSES, args=[seller.slug])
    config: dict[str, Any] = {
        "url": f"{settings.PUBLIC_URL}{path}",
        "operation_id": str(operation.pk),
        "token": operation.webhook_token,
    }
    if seller.shares_webhook_secret:
        # Its presence asks for HMAC or bearer credentials, its absence for RFC 9421 (AdCP L3/webhooks).
        bearer = seller.webhook_mode == Seller.WebhookMode.BEARER
        scheme = "Bearer" if bearer else "HMAC-SHA256"
        config["authentication"] = {"schemes": [scheme], "credentials": seller.webhook_secret}
    return config
