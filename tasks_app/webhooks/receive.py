"""One delivery: authenticated, read, bound to its key, observed. Refused ones are recorded, nothing else.

Source: AdCP L3/webhooks; document 000 "Webhook Support with Reliability Patterns".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

import structlog
from django.db import IntegrityError, transaction

from tasks_app.adcp import strict_json
from tasks_app.adcp.hygiene import token_matches
from tasks_app.adcp.signatures import SignatureError, errors
from tasks_app.adcp.strict_json import MalformedBody
from tasks_app.adcp.types import Seen
from tasks_app.adcp.webhook_body import EnvelopeError, WebhookEnvelope, read_webhook
from tasks_app.operations.canonical import canonical_digest
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish_or_leave
from tasks_app.operations.services import operation_secrets
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.apply import delivery_apply
from tasks_app.webhooks.authenticate import authenticate
from tasks_app.webhooks.contradictions import key_conflict
from tasks_app.webhooks.models import WebhookDelivery

log = structlog.get_logger(__name__)
MAX_BODY_BYTES = 2**20
_MAX_KEY_CHARS = 255
Verdict = WebhookDelivery.Verdict


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the sender is told: HTTP status, a word for the body, and headers."""

    status: int
    word: str
    headers: dict[str, str] = field(default_factory=dict)


def delivery_receive(
    *, seller: Seller, url: str, headers: Mapping[str, str], content_type: str, body: bytes
) -> Answer:
    """Take one POST. `url` is absolute, as the sender addressed it. 2xx only once it is durable."""
    fingerprint = hashlib.sha256(body).hexdigest()
    if len(body) > MAX_BODY_BYTES:
        return _refuse(seller, fingerprint, "webhook_body_too_large", 413)
    if content_type.partition(";")[0].strip().lower() != "application/json":
        return _refuse(seller, fingerprint, "webhook_content_type", 415)
    try:
        key_id = authenticate(seller=seller, url=url, headers=headers, body=body)
        parsed = strict_json.parse_object(body, max_bytes=MAX_BODY_BYTES)
        envelope, seen = read_webhook(parsed, secrets=_seller_secrets(seller))
    except SignatureError as error:
        if error.code == errors.BODY_MALFORMED:
            return _refuse(seller, fingerprint, error.code, 400)
        return _unauthorized(seller, fingerprint, error.code)
    except MalformedBody as error:
        return _refuse(seller, fingerprint, f"webhook_body_malformed: {error.reason}", 400)
    except EnvelopeError as error:
        return _refuse(seller, fingerprint, f"webhook_body_malformed: {error.code}", 400)
    if len(envelope.idempotency_key or "") > _MAX_KEY_CHARS:
        return _refuse(seller, fingerprint, "webhook_body_malformed: idempotency_key_too_long", 400)
    operation = operation_of(seller, _operation_id(envelope, seen), envelope.task_id)
    if operation is not None:
        if not _token_is_ours(operation, envelope):
            return _unauthorized(seller, fingerprint, "webhook_token_mismatch")
        envelope, seen = read_webhook(parsed, secrets=operation_secrets(operation))
    return _bind(seller, operation, envelope, seen, canonical_digest(parsed), key_id)


def _operation_id(envelope: WebhookEnvelope, seen: Seen) -> str | None:
    """Our own id: in the envelope since 3.1, in our context, echoed, before."""
    echoed = (seen.context or {}).get("operation_id")
    return envelope.operation_id or (echoed if isinstance(echoed, str) else None)


def operation_of(seller: Seller, operation_id: str | None, task_id: str | None) -> Operation | None:
    """The operation a delivery is about: by our own id, where the seller echoes it, else by the task."""
    mine = Operation.objects.filter(seller=seller).select_related("seller")
    if operation_id:
        try:
            found = mine.filter(pk=UUID(operation_id)).first()
        except ValueError:
            found = None
        if found is not None:
            return found
    return mine.filter(task_id=task_id).first() if task_id else None


def _bind(
    seller: Seller,
    operation: Operation | None,
    envelope: WebhookEnvelope,
    seen: Seen,
    fingerprint: str,
    key_id: str,
) -> Answer:
    """Bind the delivery's key and let it have its effect: one commit."""
    delivery = WebhookDelivery(
        seller=seller,
        key=envelope.idempotency_key or "",
        fingerprint=fingerprint,
        key_id=key_id[:120],
        task_id=(envelope.task_id or "")[:255],
        operation_ref=(envelope.operation_id or "")[:255],
        status=seen.status,
        verdict=Verdict.APPLIED if operation else Verdict.EARLY,
        body=seen.raw if isinstance(seen.raw, dict) else None,
    )
    with transaction.atomic():
        if not _is_new(delivery):
            return _seen_before(seller, envelope, delivery, operation)
        if operation is not None:
            delivery_apply(delivery=delivery, operation=operation, envelope=envelope, seen=seen)
    if operation is not None:
        publish_or_leave(operation_id=operation.pk)
    return _told(delivery)


def _is_new(delivery: WebhookDelivery) -> bool:
    """Bind the key to the body; a copy that is being received waits here for the first to be durable."""
    try:
        with transaction.atomic():
            delivery.save(force_insert=True)
    except IntegrityError:
        return False
    return True


def _told(delivery: WebhookDelivery) -> Answer:
    if delivery.verdict == Verdict.CONFLICT:
        log.warning("webhook_conflict", seller=delivery.seller_id, delivery=str(delivery.pk))
        return Answer(status=409, word="conflict")
    return Answer(status=200, word=delivery.verdict)


def _seen_before(
    seller: Seller, envelope: WebhookEnvelope, delivery: WebhookDelivery, operation: Operation | None
) -> Answer:
    """The key was bound before: the same body is acknowledged without effects, another is refused."""
    first = (
        WebhookDelivery.objects.filter(seller=seller, key=envelope.idempotency_key)
        .exclude(verdict__in=(Verdict.DUPLICATE, Verdict.KEY_CONFLICT, Verdict.REFUSED))
        .order_by("id")
        .first()
    )
    same = first is not None and first.fingerprint == delivery.fingerprint
    delivery.verdict = Verdict.DUPLICATE if same else Verdict.KEY_CONFLICT
    delivery.save(force_insert=True)
    if first is not None and not same:
        key_conflict(operation=operation, first=first, second=delivery)
    return Answer(status=200, word="duplicate") if same else Answer(status=409, word="key_conflict")


def _token_is_ours(operation: Operation, envelope: WebhookEnvelope) -> bool:
    """Our token, where the seller echoes one; the signature has proven the sender already."""
    if envelope.token is None:
        return True
    return token_matches(operation.webhook_token or "", envelope.token)


def _seller_secrets(seller: Seller) -> list[str]:
    return [secret for secret in (seller.webhook_secret, seller.token) if secret]


def _unauthorized(seller: Seller, fingerprint: str, code: str) -> Answer:
    log.warning("webhook_refused", seller=seller.slug, code=code)
    answer = _refuse(seller, fingerprint, code, 401)
    answer.headers["WWW-Authenticate"] = f'Signature error="{code}"'
    return answer


def _refuse(seller: Seller, fingerprint: str, reason: str, status: int) -> Answer:
    WebhookDelivery.objects.create(
        seller=seller, fingerprint=fingerprint, verdict=Verdict.REFUSED, reason=reason[:200]
    )
    return Answer(status=status, word=reason)
