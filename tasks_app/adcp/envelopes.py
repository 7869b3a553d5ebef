"""From whatever a transport carried to one `Seen`. Pure functions; none raises for anything a seller sent.

Sources: AdCP core/protocol-envelope ("Transport serialization"), L0/mcp-response-extraction,
L0/a2a-response-extraction, operating/transport-errors. Traps seen with live sellers are named where they are
met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from . import errors, extraction
from .extraction import Json
from .hygiene import clean, integral
from .types import MEDIA_BUY_STATUSES, TASK_STATUSES, TERMINAL_STATUSES, Progress, Seen, WireError

# Fields of the protocol envelope: they are the wire's, not the task's result.
ENVELOPE_FIELDS = frozenset(
    {
        "status",
        "task_id",
        "message",
        "context_id",
        "context",
        "timestamp",
        "replayed",
        "adcp_error",
        "adcp_version",
        "adcp_major_version",
        "push_notification_config",
        "governance_context",
    }
)
# Media-buy statuses that are not task statuses as well: in the place of a task's status they mean
# "completed".
_ONLY_MEDIA_BUY = MEDIA_BUY_STATUSES - TASK_STATUSES
# JSON-RPC errors that are certain to have come before the tool ran.
_RPC_REFUSED = frozenset({-32700, -32600, -32601, -32602})
_MESSAGE_FIELDS = ("message", "reason", "error_message")


def seen_mcp(result: object, *, secrets: Sequence[str] = ()) -> Seen:
    """One MCP tool result (`{content, structuredContent?, isError?}`, as JSON) as a Seen."""
    result = clean(result, secrets)
    raw = result if isinstance(result, dict) else {"result": result}
    text = extraction.mcp_text(result)
    if raw.get("isError"):
        error = errors.read_error(extraction.mcp_error(result))
        data = extraction.mcp_error_data(result) or {}
        return _failed(_from_data(data, raw=raw, text=text, default="failed", fatal=error), text)
    data_or_none = extraction.mcp_data(result)
    if data_or_none is None:
        return _no_data(raw, text)
    return _from_data(data_or_none, raw=raw, text=None, default=_default_status(data_or_none))


def seen_a2a(received: object, *, secrets: Sequence[str] = ()) -> Seen:
    """One A2A Task, message or update (bare or in its envelope, 0.3 or 1.0, as JSON) as a Seen."""
    received = clean(received, secrets)
    raw = received if isinstance(received, dict) else {"result": received}
    task = extraction.a2a_task(received)
    if task is None:
        return _no_data(raw, None)
    text = extraction.a2a_text(task)
    state = extraction.a2a_state(task)
    try:
        data = extraction.a2a_data(received)
    except extraction.WrapperError as wrapped:
        wrapper = WireError(code=errors.WRAPPED_RESULT, message=str(wrapped))
        return _with_a2a_ids(
            Seen(kind="garbled", raw_status=state, error=wrapper, message=text, raw=raw), task
        )
    if data is None and state in (None, "completed"):
        return _with_a2a_ids(_no_data(raw, text, raw_status=state), task)
    # The transport's state decides only where the data is silent: sellers answer submitted, rejected and
    # failed inside a completed transport task.
    error = errors.read_error(extraction.a2a_error(received))
    seen = _from_data(data or {}, raw=raw, text=text, default=state or "unknown", fatal=error)
    if state in ("failed", "rejected") and seen.error is None:
        seen = _failed(seen, text)
    return _with_a2a_ids(seen, task)


def seen_rpc_error(rpc_error: Mapping[str, Any], *, secrets: Sequence[str] = ()) -> Seen:
    """A JSON-RPC error object (`{code, message, data?}`) as a Seen.

    With an AdCP error in `data`, or a code that says "refused before it ran", the seller has answered; any
    other leaves the outcome unknown.
    """
    cleaned = clean(dict(rpc_error), secrets)
    adcp_error = errors.read_error(extraction.rpc_adcp_error(cleaned))
    if adcp_error is not None:
        return Seen(
            kind="answer",
            status="failed",
            error=adcp_error,
            message=adcp_error.message or None,
            retry_after=adcp_error.retry_after,
            raw=cleaned,
        )
    code = cleaned.get("code")
    message = cleaned.get("message")
    message = message if isinstance(message, str) else ""
    error = WireError(code=errors.RPC_ERROR, message=message, details={"rpc_code": code})
    if isinstance(code, int) and code in _RPC_REFUSED:
        refused = replace(error, recovery="terminal")
        return Seen(kind="answer", status="failed", error=refused, message=message or None, raw=cleaned)
    return Seen(kind="garbled", error=error, message=message or None, raw=cleaned)


def seen_data(data: object, *, secrets: Sequence[str] = ()) -> Seen:
    """A bare AdCP response (the JSON a task answers with, without a transport around it) as a Seen."""
    data = clean(data, secrets)
    if not isinstance(data, dict):
        return _no_data({"result": data}, None)
    return _from_data(data, raw=data, text=None, default=_default_status(data))


def seen_result(result: Json | None, status: str) -> Seen:
    """A task's result as a webhook or a poll carries it, under the status that its envelope gives the task.

    `result` was cleaned. What stands in the result's own `status` is at most the media buy's.
    """
    inner = result or {}
    _, _, media_buy_status = status_of(inner, status)
    named = {} if media_buy_status is None else {"media_buy_status": media_buy_status}
    seen = _from_data({**inner, **named, "status": status}, raw={}, text=None, default=status)
    return replace(seen, payload=task_payload(inner) if result is not None else None, raw=None)


def parse_time(value: object) -> datetime | None:
    """An ISO 8601 time with an offset, in UTC; None for anything else, because a local time of unknown zone
    says nothing, and for a moment outside the calendar."""
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.fromisoformat(value)
        return parsed.astimezone(UTC) if parsed.utcoffset() is not None else None
    except (ValueError, OverflowError):
        return None


def task_status(word: object, default: str = "unknown") -> tuple[str, str | None]:
    """The AdCP task status for a seller's word, and the word itself: ("unknown", "requires_approval")."""
    if not isinstance(word, str) or not word:
        return (default if default in TASK_STATUSES else "unknown"), None
    plain = word.removeprefix("TASK_STATE_").lower().replace("_", "-")
    return (plain if plain in TASK_STATUSES else "unknown"), word


def read_progress(data: Mapping[str, Any]) -> Progress | None:
    """What a working answer says of how far it is, at the top or under `progress`."""
    nested = data.get("progress")
    source = nested if isinstance(nested, Mapping) else data
    percentage, step = _number(source.get("percentage")), _text(source.get("current_step"))
    number, total = _whole(source.get("step_number")), _whole(source.get("total_steps"))
    if percentage is None and step is None and number is None and total is None:
        return None
    return Progress(percentage=percentage, current_step=step, step_number=number, total_steps=total)


def first_text(data: Mapping[str, Any], fields: Sequence[str]) -> str | None:
    """The first non-empty text among `fields` of `data`."""
    return next((value for value in map(data.get, fields) if isinstance(value, str) and value), None)


def task_payload(data: Json) -> Json:
    """The task's own result: `data` without the envelope, whole numbers as integers."""
    body: Json = integral({key: value for key, value in data.items() if key not in ENVELOPE_FIELDS})
    nested = body.get("payload")
    if body.keys() == {"payload"} and isinstance(nested, dict):
        # The envelope as the specification draws it; on the wire the result stands beside the status.
        return nested
    return body


def status_of(data: Mapping[str, Any], default: str) -> tuple[str, str | None, str | None]:
    """(task status, the seller's word, media-buy status) of one AdCP response.

    A 3.0 seller may put the media buy's status where the task's belongs, and the words overlap: `canceled`
    beside a media_buy_id, with no media_buy_status, is the buy's (its cancelling has completed).
    """
    word = _text(data.get("status"))
    media_buy_status = _text(data.get("media_buy_status"))
    of_the_buy = word in _ONLY_MEDIA_BUY or (word == "canceled" and "adcp_version" not in data)
    if of_the_buy and media_buy_status is None and isinstance(data.get("media_buy_id"), str):
        return "completed", word, word
    status, raw_status = task_status(word, default)
    return status, raw_status, media_buy_status


def _from_data(
    data: Json, *, raw: Json, text: str | None, default: str, fatal: WireError | None = None
) -> Seen:
    status, raw_status, media_buy_status = status_of(data, default)
    if fatal is not None and status not in TERMINAL_STATUSES - {"completed"}:
        status = "failed"
    listed = errors.read_errors(data.get("errors"))
    error = fatal
    if error is None and status in ("failed", "rejected", "canceled"):
        error = errors.read_error(data.get("adcp_error")) or next(iter(listed), None)
    context = data.get("context")
    return Seen(
        kind="answer",
        status=status,
        raw_status=raw_status,
        task_id=_identity(data.get("task_id")),
        message=first_text(data, _MESSAGE_FIELDS) or (error.message if error else None) or text,
        payload=task_payload(data),
        media_buy_status=media_buy_status,
        error=error,
        errors=listed,
        context=integral(context) if isinstance(context, dict) else None,
        context_id=_identity(data.get("context_id")),
        replayed=data.get("replayed") is True,
        adcp_version=_text(data.get("adcp_version")),
        progress=read_progress(data),
        retry_after=error.retry_after if error else errors.clamp_retry_after(data.get("retry_after")),
        at=parse_time(data.get("timestamp")) or parse_time(data.get("updated_at")),
        raw=raw,
    )


def _default_status(data: Mapping[str, Any]) -> str:
    """The status of an answer that names none: 3.0 results do not, and its errors are a bare `errors[]`."""
    if data.get("errors") and not (data.keys() - ENVELOPE_FIELDS - {"errors", "ext", "sandbox"}):
        return "failed"
    return "completed"


def _failed(seen: Seen, text: str | None) -> Seen:
    """A failure the seller explained in no AdCP error, only in words."""
    if seen.error is not None:
        return seen
    return replace(seen, error=WireError(code=errors.TOOL_ERROR, message=text or ""))


def _no_data(raw: Json, text: str | None, raw_status: str | None = None) -> Seen:
    error = WireError(code=errors.NO_DATA, message="the answer holds no AdCP data")
    return Seen(kind="garbled", raw_status=raw_status, error=error, message=text, raw=raw)


def _with_a2a_ids(seen: Seen, task: Json) -> Seen:
    """Add the transport's own identities; a paused task can be continued only through them."""
    is_update = "taskId" in task
    task_id = _identity(task.get("taskId") if is_update else task.get("id"))
    context_id = _identity(task.get("contextId"))
    continuation = None
    # Only a transport task that is itself paused can be continued: one that completed has ended, whatever the
    # AdCP status in its artifact (L0/a2a-profile-extension).
    paused = seen.status in ("input-required", "auth-required") and extraction.a2a_state(task) == seen.status
    if paused and task_id and context_id:
        continuation = {"task_id": task_id, "context_id": context_id}
    status = task.get("status")
    stamped = parse_time(status.get("timestamp")) if isinstance(status, dict) else None
    return replace(
        seen,
        a2a_task_id=task_id,
        a2a_context_id=context_id,
        continuation=continuation,
        at=seen.at or stamped,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _identity(value: object) -> str | None:
    """An identifier as text; some sellers number their tasks."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, str | int) and value != "" else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number.is_integer() else None
