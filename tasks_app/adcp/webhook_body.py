"""The body of an authenticated webhook: its envelope and the observation in it.

Sources: AdCP L3/webhooks, core/mcp-webhook-payload; A2A 1.0 push notifications (native bodies).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from . import extraction
from .answers import is_partial, read_answer
from .envelopes import seen_a2a
from .extraction import Json
from .hygiene import REDACTED, clean, integral
from .told import Carried
from .types import TASK_STATUSES, Seen
from .values import identity_of, text_of

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
    if extraction.webhook_format(body) == "a2a":
        seen = seen_a2a(body)
        context, operation_id, task_id = seen.context, None, seen.task_id
    else:
        result = body.get("result")
        echoed = result.get("context") if isinstance(result, dict) else None
        context = echoed if isinstance(echoed, dict) else body.get("context")
        operation_id, task_id = identity_of(body.get("operation_id")), identity_of(body.get("task_id"))
    ours = text_of(context.get("operation_id")) if isinstance(context, dict) else None
    return WebhookIdentity(
        operation_id=operation_id or ours, task_id=task_id, token=text_of(body.get("token"))
    )


def from_event(event: Json) -> Json:
    """The body of a seller from before AdCP 3 (document 000: event_id, current_status), in today's names.

    Whatever else it says, and what stands under today's names already, is left as it is.
    """
    body = {name: value for name, value in event.items() if name not in ("event_id", "current_status")}
    status = event.get("current_status")
    body.setdefault("idempotency_key", event.get("event_id"))
    body.setdefault("status", status.replace("_", "-") if isinstance(status, str) else status)
    return body


def read_webhook(
    body: Json,
    *,
    task_type: str = "",
    secrets: Sequence[str] = (),
    old: bool = False,
    any_status: bool = False,
) -> tuple[WebhookEnvelope, Seen]:
    """The envelope of a parsed body, and what it says about the task, whose type is ours to know: an `old`
    body, made by `from_event`, and a native A2A one name none. With `any_status` a word that is no task
    status is read as `unknown`, not refused: it is to be found out what the task's status is.

    Raises EnvelopeError for a body that is no webhook of AdCP (answer it with 400, after its signature was
    checked). The token stands in the envelope, to be compared with `token_matches`; it never stands in the
    Seen.
    """
    if extraction.webhook_format(body) == "a2a":
        return _read_native(body, secrets, task_type)
    _check_envelope(body, _REQUIRED_OLD if old else _REQUIRED, any_status=any_status)
    token = body.get("token")
    given = token if isinstance(token, str) else None
    shown = {**body, "token": REDACTED} if "token" in body else body
    cleaned = clean(shown, secrets, echoed=[given] if given else [])
    result = cleaned.get("result")
    envelope = WebhookEnvelope(
        idempotency_key=cleaned["idempotency_key"],
        notification_id=identity_of(cleaned.get("notification_id")),
        operation_id=identity_of(cleaned.get("operation_id")),
        task_id=identity_of(cleaned["task_id"]),
        task_type=text_of(cleaned.get("task_type")),
        protocol=text_of(cleaned.get("protocol")),
        timestamp=cleaned["timestamp"],
        token=given,
        result=integral(result) if isinstance(result, dict) else None,
    )
    carried = Carried(data=cleaned, raw=cleaned)
    return envelope, read_answer(carried, about="webhook", task_type=task_type)


def _check_envelope(body: Json, required: Sequence[str], *, any_status: bool) -> None:
    missing = [name for name in required if not _is_told(name, body.get(name))]
    if missing == ["idempotency_key"]:
        raise EnvelopeError("missing_idempotency_key", "the webhook has no idempotency_key")
    if missing:
        raise EnvelopeError("missing_envelope_fields", f"the webhook has no {', '.join(missing)}")
    if body["status"] not in TASK_STATUSES and not any_status:
        raise EnvelopeError("invalid_envelope_status", "the webhook's status is not a task status of AdCP")


def _is_told(name: str, value: object) -> bool:
    """Some sellers number their tasks; everything else is text."""
    return bool(identity_of(value) if name == "task_id" else text_of(value))


def _read_native(body: Json, secrets: Sequence[str], task_type: str) -> tuple[WebhookEnvelope, Seen]:
    """A native push holds what the reply would: it is read as the reply."""
    seen = seen_a2a(body, secrets=secrets, task_type=task_type)
    if seen.a2a_task_id is None:
        raise EnvelopeError("missing_envelope_fields", "the A2A notification names no task")
    envelope = WebhookEnvelope(
        idempotency_key=None,
        notification_id=None,
        operation_id=None,
        task_id=seen.task_id,
        task_type=None,
        protocol=None,
        timestamp=seen.at.isoformat() if seen.at else None,
        result=seen.payload,
        native_a2a=True,
    )
    return envelope, replace(seen, partial=is_partial(seen.status, seen.payload, seen.error))
