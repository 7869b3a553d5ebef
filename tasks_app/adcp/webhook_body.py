"""The body of an authenticated webhook: its envelope and the observation in it.

Sources: AdCP L3/webhooks, core/mcp-webhook-payload; A2A 1.0 push notifications (native bodies).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from . import extraction
from .envelopes import parse_time, seen_a2a, seen_result, task_status
from .extraction import Json
from .hygiene import REDACTED, clean, integral
from .types import TASK_STATUSES, Seen

# 3.0 sellers send no operation_id; everything else is required since 3.0.
_REQUIRED = ("idempotency_key", "task_id", "task_type", "status", "timestamp")

_REQUIRED_OLD = ("idempotency_key", "task_id", "status", "timestamp")


class EnvelopeError(ValueError):
    """A body that is no AdCP webhook.

    `code` is missing_envelope_fields, missing_idempotency_key or invalid_envelope_status.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, kw_only=True)
class WebhookEnvelope:
    """The envelope of one delivery.

    `native_a2a` marks an A2A push body: it has no idempotency_key, operation_id or token of its own (the
    token comes in the header X-A2A-Notification-Token), so it authenticates and binds by other means.
    """

    idempotency_key: str | None
    notification_id: str | None
    operation_id: str | None
    task_id: str | None
    task_type: str | None
    protocol: str | None
    status: str
    timestamp: str | None
    token: str | None = field(default=None, repr=False)
    result: dict[str, Any] | None = None
    native_a2a: bool = False


@dataclass(frozen=True, kw_only=True)
class WebhookIdentity:
    """What a body claims to be about, as it was written: to be compared, never to be stored or believed."""

    operation_id: str | None
    task_id: str | None
    token: str | None = field(default=None, repr=False)


def read_identity(body: Json) -> WebhookIdentity:
    """Which operation a parsed body claims to be about; for any body, malformed ones too.

    Our own id stands in the envelope since 3.1, before that in our context, echoed.
    """
    task_id = body.get("task_id")
    if extraction.webhook_format(body) == "a2a":
        seen = seen_a2a(body)
        context, operation_id, task_id = seen.context, None, seen.task_id
    else:
        result = body.get("result")
        echoed = result.get("context") if isinstance(result, dict) else None
        context = echoed if isinstance(echoed, dict) else body.get("context")
        operation_id = _text(body.get("operation_id"))
    ours = _text(context.get("operation_id")) if isinstance(context, dict) else None
    return WebhookIdentity(
        operation_id=operation_id or ours, task_id=_text(task_id), token=_text(body.get("token"))
    )


def from_event(event: Json) -> Json:
    """The body of a seller from before AdCP 3 (document 000: event_id, current_status), in today's names.

    Whatever stands under today's names already is left as it is.
    """
    body = {name: value for name, value in event.items() if name not in ("event_id", "current_status")}
    status = event.get("current_status")
    body.setdefault("idempotency_key", event.get("event_id"))
    body.setdefault("status", status.replace("_", "-") if isinstance(status, str) else status)
    error = body.pop("error", None)
    if "result" not in body and isinstance(error, dict):
        body["result"] = {"errors": [error]}
    return body


def read_webhook(
    body: Json, *, secrets: Sequence[str] = (), old: bool = False, any_status: bool = False
) -> tuple[WebhookEnvelope, Seen]:
    """The envelope of a parsed body, and what it says about the task. An `old` one, made by `from_event`,
    names no task_type. With `any_status` a word that is no task status is read as `unknown`, not refused: it
    is to be found out what the task's status is.

    Raises EnvelopeError for a body that is no webhook of AdCP (answer it with 400, after its signature was
    checked). The token stands in the envelope, to be compared with `token_matches`; it never stands in the
    Seen.
    """
    if extraction.webhook_format(body) == "a2a":
        return _read_native(body, secrets)
    _check_envelope(body, _REQUIRED_OLD if old else _REQUIRED, any_status=any_status)
    token = body.get("token")
    given = token if isinstance(token, str) else None
    known_secrets = [*secrets, *([given] if given else [])]
    cleaned = clean({**body, "token": REDACTED} if "token" in body else body, known_secrets)
    result = cleaned.get("result")
    envelope = WebhookEnvelope(
        idempotency_key=cleaned["idempotency_key"],
        notification_id=_text(cleaned.get("notification_id")),
        operation_id=_text(cleaned.get("operation_id")),
        task_id=cleaned["task_id"],
        task_type=_text(cleaned.get("task_type")),
        protocol=_text(cleaned.get("protocol")),
        status=task_status(cleaned["status"])[0],
        timestamp=cleaned["timestamp"],
        token=given,
        result=integral(result) if isinstance(result, dict) else None,
    )
    return envelope, _seen(cleaned, envelope)


def _check_envelope(body: Json, required: Sequence[str], *, any_status: bool) -> None:
    missing = [name for name in required if not _text(body.get(name))]
    if missing == ["idempotency_key"]:
        raise EnvelopeError("missing_idempotency_key", "the webhook has no idempotency_key")
    if missing:
        raise EnvelopeError("missing_envelope_fields", f"the webhook has no {', '.join(missing)}")
    if body["status"] not in TASK_STATUSES and not any_status:
        raise EnvelopeError("invalid_envelope_status", "the webhook's status is not a task status of AdCP")


def _seen(cleaned: Json, envelope: WebhookEnvelope) -> Seen:
    """The result read as an answer, under the envelope's own status, identity and time."""
    inner = seen_result(envelope.result, envelope.status)
    own_context = cleaned.get("context")
    return replace(
        inner,
        raw_status=cleaned["status"],
        task_id=envelope.task_id,
        message=_text(cleaned.get("message")) or inner.message,
        context=inner.context or (own_context if isinstance(own_context, dict) else None),
        context_id=_text(cleaned.get("context_id")) or inner.context_id,
        at=parse_time(envelope.timestamp),
        raw=cleaned,
    )


def _read_native(body: Json, secrets: Sequence[str]) -> tuple[WebhookEnvelope, Seen]:
    seen = seen_a2a(body, secrets=secrets)
    if seen.a2a_task_id is None:
        raise EnvelopeError("missing_envelope_fields", "the A2A notification names no task")
    envelope = WebhookEnvelope(
        idempotency_key=None,
        notification_id=None,
        operation_id=None,
        task_id=seen.task_id,
        task_type=None,
        protocol=None,
        status=seen.status,
        timestamp=seen.at.isoformat() if seen.at else None,
        result=seen.payload,
        native_a2a=True,
    )
    return envelope, seen


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
