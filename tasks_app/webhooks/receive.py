"""One delivery: authenticated, read, bound to its key, observed. Refused ones are recorded, nothing else.

In a burst a delivery is bound and answered, and a worker lets it have its effect (`RECEIVED`): AdCP
L3/webhooks "Acknowledge durably". Whatever may have to be answered 409 is judged at once, always. Source:
AdCP L3/webhooks; document 000 "Webhook Support with Reliability Patterns".
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction

from tasks_app import clock
from tasks_app.adcp import strict_json
from tasks_app.adcp.hygiene import clean, token_matches
from tasks_app.adcp.signatures import SignatureError, errors
from tasks_app.adcp.strict_json import MalformedBody
from tasks_app.adcp.types import Seen
from tasks_app.adcp.webhook_body import (
    EnvelopeError,
    WebhookEnvelope,
    WebhookIdentity,
    from_event,
    read_identity,
    read_webhook,
)
from tasks_app.canonical import canonical_digest
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish_or_leave
from tasks_app.operations.services import operation_secrets
from tasks_app.operations.tokens import webhook_token_of
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.answer import A2A_TOKEN, LATER, Answer, Incoming
from tasks_app.webhooks.apply import delivery_apply
from tasks_app.webhooks.authenticate import authenticate
from tasks_app.webhooks.bind import BUSY, delivery_insert, delivery_insert_received, key_take, twin_answer
from tasks_app.webhooks.bursts import applying, may_apply_now
from tasks_app.webhooks.contradictions import conflicts_full
from tasks_app.webhooks.early import received_apply
from tasks_app.webhooks.keys import FetchBusyError
from tasks_app.webhooks.models import WebhookDelivery
from tasks_app.webhooks.rates import look_admit, seller_admit
from tasks_app.webhooks.refusals import delivery_postpone, delivery_refuse
from tasks_app.webhooks.room import AGAIN_S, DAY_FULL, FULL, has_room_of_its_own, room_for, room_today
from tasks_app.webhooks.senders import seller_of, seller_read
from tasks_app.webhooks.unverified import LIMITED, NO_CLAIM, claim_of

log = structlog.get_logger(__name__)
MAX_BODY_BYTES = 2**20
TOO_LARGE = "webhook_body_too_large"
_MAX_KEY_CHARS = 255
_NEEDED = ("status", "task_type", "task_id", "webhook_token", "seller_id")
# Refusals that a seller who was changed a moment ago explains; none of them has used up a nonce.
_MAY_BE_OUTDATED = {errors.MODE_MISMATCH, errors.INVALID, errors.HEADER_MALFORMED, errors.KEY_UNKNOWN}
Verdict = WebhookDelivery.Verdict


class RefusedError(Exception):
    """The delivery is refused: `reason` is told to the sender, with HTTP `status`."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.reason, self.status = reason, status


@dataclass(frozen=True, kw_only=True)
class _Told:
    """What a delivery that is its seller's says, read strictly and not yet believed."""

    parsed: dict[str, Any]
    body: dict[str, Any]  # the same under today's names
    identity: WebhookIdentity
    old: bool


@dataclass(frozen=True, kw_only=True)
class _Read:
    """A delivery as it will be kept, and what it says of which operation (None: of none we know yet)."""

    operation: Operation | None
    envelope: WebhookEnvelope
    seen: Seen
    delivery: WebhookDelivery
    size: int  # bytes, as it came


def delivery_receive(incoming: Incoming) -> Answer:
    """Take one POST. 2xx only once it is durable.

    It is judged by what is in memory, a second old at most. What that refuses is judged again by what is
    stored, so that a new seller or secret refuses nobody wrongly; beyond the allowance for that it is asked
    to come again. Raises FetchNeededError where its seller has to be asked for keys and may not be; where it
    is being asked at this moment, the sender is to come again.
    """
    try:
        return _judged(incoming)
    except FetchBusyError:
        return LATER


def _judged(incoming: Incoming) -> Answer:
    seller, fresh = seller_of(incoming.seller)
    refused = RefusedError("webhook_unknown_seller", 404)
    if seller is not None:
        try:
            return _receive(seller, incoming)
        except RefusedError as error:
            if fresh or error.reason not in _MAY_BE_OUTDATED:
                return _refuse(seller, incoming, error)
            refused = error
    if not look_admit(incoming.source):
        answer = _refuse(seller, incoming, refused)
        return answer if answer.status == 429 else LATER
    current = seller_read(incoming.seller)
    if current is None:
        return _refuse(None, incoming, refused)
    try:
        return _receive(current, incoming)
    except RefusedError as error:
        return _refuse(current, incoming, error, looked=True)


def _receive(seller: Seller, incoming: Incoming) -> Answer:
    key_id = _prove(seller, incoming)
    postponed = _postponed(seller, incoming)
    if postponed is not None:
        return postponed
    told = _parse(seller, incoming)
    burst = not may_apply_now()
    if burst and _leave_to_worker(seller, incoming, told, key_id):
        return Answer(status=200, word=Verdict.RECEIVED)
    operation = operation_of(seller, told.identity.operation_id, told.identity.task_id)
    if operation is not None:
        _check_tokens(operation, [told.identity.token, incoming.headers.get(A2A_TOKEN)])
    secrets = operation_secrets(operation) if operation else seller.known_secrets
    read = _read(seller, incoming, told, key_id, operation=operation, secrets=secrets)
    with structlog.contextvars.bound_contextvars(request_id=str(read.delivery.pk)):
        return _take(read, seller, burst=burst)


def _prove(seller: Seller, incoming: Incoming) -> str:
    """Who sent it. Raises RefusedError."""
    if len(incoming.body) > MAX_BODY_BYTES:
        raise RefusedError(TOO_LARGE, 413)
    kind = incoming.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusedError("webhook_content_type", 415)
    try:
        return authenticate(
            seller=seller,
            url=incoming.url,
            headers=incoming.headers,
            body=incoming.body,
            may_fetch=incoming.may_fetch,
        )
    except SignatureError as error:
        raise RefusedError(error.code, 400 if error.code == errors.BODY_MALFORMED else 401) from error


def _postponed(seller: Seller, incoming: Incoming) -> Answer | None:
    """Count a delivery that is its seller's; what the seller is told where it is beyond an allowance."""
    wait, word = seller_admit(seller), LIMITED
    if wait is None:
        wait, word = room_today(seller, size=len(incoming.body)), DAY_FULL
    if wait is None:
        return None
    fingerprint = hashlib.sha256(incoming.body).hexdigest()
    return delivery_postpone(
        seller=seller, source=incoming.source, wait=wait, fingerprint=fingerprint, word=word
    )


def _parse(seller: Seller, incoming: Incoming) -> _Told:
    """Raises RefusedError."""
    old = seller.webhook_mode == Seller.WebhookMode.HMAC_BODY
    try:
        parsed = strict_json.parse_object(incoming.body, max_bytes=MAX_BODY_BYTES)
    except MalformedBody as error:
        raise RefusedError(f"{errors.BODY_MALFORMED}: {error.reason}", 400) from error
    body = from_event(parsed) if old else parsed
    return _Told(parsed=parsed, body=body, identity=read_identity(body), old=old)


def _read(
    seller: Seller,
    incoming: Incoming,
    told: _Told,
    key_id: str,
    *,
    operation: Operation | None,
    secrets: list[str],
) -> _Read:
    """What it says, the secrets that the sender may repeat hidden. Raises RefusedError."""
    try:
        envelope, seen = read_webhook(
            told.body,
            task_type=operation.type_asked if operation else "",
            secrets=secrets,
            old=told.old,
            any_status=True,
        )
    except EnvelopeError as error:
        raise RefusedError(f"{errors.BODY_MALFORMED}: {error.code}", 400) from error
    if len(envelope.idempotency_key or "") > _MAX_KEY_CHARS:
        raise RefusedError(f"{errors.BODY_MALFORMED}: idempotency_key_too_long", 400)
    now = clock.now()
    delivery = WebhookDelivery(
        seller=seller,
        operation_id=operation.pk if operation else None,
        at=now,
        source=incoming.source[:45],
        key=envelope.idempotency_key or "",
        bound_until=now + seller.delivery_horizon,
        fingerprint=canonical_digest(told.parsed),
        key_id=key_id[:120],
        task_id=(envelope.task_id or "")[:255],
        operation_ref=(envelope.operation_id or "")[:255],
        status=seen.status,
        body=seen.raw if isinstance(seen.raw, dict) else None,
    )
    size = len(incoming.body)
    return _Read(operation=operation, envelope=envelope, seen=seen, delivery=delivery, size=size)


def _leave_to_worker(seller: Seller, incoming: Incoming, told: _Told, key_id: str) -> bool:
    """Bind a delivery whose token says by itself which operation it is about, in one round trip; False where
    that is not so, or where it has to be judged at once. Raises RefusedError."""
    try:
        operation_id = UUID(told.identity.operation_id or "")
    except ValueError:
        return False
    token = webhook_token_of(operation_id)
    given = [told.identity.token, incoming.headers.get(A2A_TOKEN, token)]
    if not all(token_matches(token, one) for one in given):
        return False
    read = _read(seller, incoming, told, key_id, operation=None, secrets=[token, *seller.known_secrets])
    read.delivery.operation_id = operation_id
    return delivery_insert_received(read.delivery, task_type=read.envelope.task_type or "")


def operation_of(seller: Seller, operation_id: str | None, task_id: str | None) -> Operation | None:
    """The operation a delivery is about: by our own id, where the seller echoes it, else by the task."""
    mine = Operation.objects.filter(seller=seller).only(*_NEEDED)
    found = None
    if operation_id:
        with suppress(ValueError):
            found = mine.filter(pk=UUID(operation_id)).first()
    if found is None and task_id:
        found = mine.filter(task_id=clean(task_id)).first()
    if found is not None:
        found.seller = seller
    return found


def _check_tokens(operation: Operation, given: list[str | None]) -> None:
    """Our token, where the seller echoes one; the signature has proven the sender already."""
    for token in given:
        if token is not None and not token_matches(operation.webhook_token or "", token):
            raise RefusedError("webhook_token_mismatch", 401)


def _take(read: _Read, seller: Seller, *, burst: bool) -> Answer:
    """Bind it; let it have its effect now, unless it came in a burst and cannot contradict anything."""
    delivery, operation = read.delivery, read.operation
    if operation is None:
        early = _keep_early(read, seller)
        if early is not None:
            return early
    elif burst and delivery_insert_received(
        delivery, task_type=read.envelope.task_type or operation.task_type
    ):
        return Answer(status=200, word=delivery.verdict)
    with applying():
        if operation is not None:
            received_apply(operation)  # what came before it
        answer = _settle(read)
        if operation is not None and delivery.verdict in (Verdict.APPLIED, Verdict.CONFLICT):
            publish_or_leave(operation_id=operation.pk)
    return answer


def _keep_early(read: _Read, seller: Seller) -> Answer | None:
    """Keep it a while, within the seller's allowance, until its task is known; None where it is a twin."""
    delivery = read.delivery
    delivery.verdict = Verdict.EARLY
    with room_for(delivery, seller=seller, size=read.size) as room:
        if not room:
            return delivery_postpone(
                seller=seller,
                source=delivery.source,
                wait=AGAIN_S,
                fingerprint=delivery.fingerprint,
                word=FULL,
            )
        return Answer(status=200, word=delivery.verdict) if delivery_insert(delivery) else None


@transaction.atomic
def _settle(read: _Read) -> Answer:
    """Bind the delivery's key and let it have its effect: one commit."""
    delivery, operation = read.delivery, read.operation
    delivery.verdict = Verdict.APPLIED if operation else Verdict.EARLY
    if delivery.key and not key_take(delivery):
        return BUSY
    if not _insert(read):
        answer = twin_answer(delivery, operation)
        if answer is not None:
            return answer
        _insert(read)
    if operation is not None:
        delivery_apply(delivery=delivery, operation=operation, seen=read.seen)
    if delivery.verdict == Verdict.CONFLICT:
        if operation is not None and delivery.body is None:
            conflicts_full(operation)
        log.warning("webhook_conflict", seller=str(delivery.seller_id), delivery=str(delivery.pk))
        return Answer(status=409, word="conflict")
    return Answer(status=200, word=delivery.verdict)


def _insert(read: _Read) -> bool:
    """Insert it and so bind its key; without its body where so much that contradicts its operation is kept
    that no more is. False when nothing was inserted."""
    delivery, body = read.delivery, read.delivery.body
    if read.operation is not None and not has_room_of_its_own(read.operation, size=read.size):
        delivery.body = None
    inserted = delivery_insert(delivery)
    if not inserted:
        delivery.body = body
    return inserted


def _refuse(
    seller: Seller | None, incoming: Incoming, error: RefusedError, *, looked: bool = False
) -> Answer:
    """`looked`: it was judged by what is stored, within the allowance for that."""
    claim, unproven = NO_CLAIM, error.__cause__
    if seller is not None and isinstance(unproven, SignatureError) and error.status == 401:
        claim = claim_of(seller, incoming, unproven, looked=looked)
    return delivery_refuse(
        seller=seller,
        source=incoming.source,
        reason=error.reason,
        status=error.status,
        fingerprint=hashlib.sha256(incoming.body).hexdigest(),
        claim=claim,
    )
