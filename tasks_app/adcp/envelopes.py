"""The transports: what MCP, A2A and JSON-RPC carried, handed to the one reader (`answers`).

Sources: AdCP core/protocol-envelope ("Transport serialization"), L0/mcp-response-extraction,
L0/a2a-response-extraction, operating/transport-errors. Pure functions; none raises for what a seller sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from . import errors, extraction
from .answers import read_answer
from .extraction import Json
from .hygiene import clean
from .meaning import About
from .plain_words import refusal_in_words, refusal_status
from .told import Carried
from .types import Seen, WireError
from .values import identity_of, parse_time

# JSON-RPC errors that are certain to have come before the tool ran.
_RPC_REFUSED = frozenset({-32700, -32600, -32601, -32602})
# Those that AdCP reserves for what stands before the tool (operating/transport-errors).
_RPC_RESERVED = {-32029: "RATE_LIMITED", -32028: "AUTH_MISSING", -32027: "SERVICE_UNAVAILABLE"}


def seen_mcp(
    result: object, *, secrets: Sequence[str] = (), about: About = "call", task_type: str = ""
) -> Seen:
    """One MCP tool result (`{content, structuredContent?, isError?}`, as JSON) as a Seen."""
    result = clean(result, secrets)
    raw = result if isinstance(result, dict) else {"result": result}
    is_error = bool(raw.get("isError"))
    data = extraction.mcp_object(result) if is_error else extraction.mcp_data(result)
    text = extraction.mcp_text(result)
    if data is None and not is_error:
        return _no_data(raw, text)
    error = errors.read_error(extraction.mcp_error(result))
    # Beside data that tells what is, the text only repeats it.
    words = text if is_error else None
    carried = Carried(data=data or {}, raw=raw, text=words, is_error=is_error, error=error, extracts=is_error)
    return read_answer(carried, about=about, task_type=task_type)


def seen_a2a(
    received: object, *, secrets: Sequence[str] = (), about: About = "call", task_type: str = ""
) -> Seen:
    """One A2A Task, message or update (bare or in its envelope, 0.3 or 1.0, as JSON) as a Seen."""
    received = clean(received, secrets)
    raw = received if isinstance(received, dict) else {"result": received}
    task = extraction.a2a_task(received)
    if task is None:
        return _no_data(raw, None)
    text, state = extraction.a2a_text(task), extraction.a2a_state(task)
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
    carried = Carried(data=data or {}, raw=raw, text=text, state=state, error=error)
    return _with_a2a_ids(read_answer(carried, about=about, task_type=task_type), task)


def seen_data(
    data: object, *, secrets: Sequence[str] = (), about: About = "call", task_type: str = ""
) -> Seen:
    """A bare AdCP response (the JSON a task answers with, without a transport around it) as a Seen."""
    data = clean(data, secrets)
    if not isinstance(data, dict):
        return _no_data({"result": data}, None)
    return read_answer(Carried(data=data, raw=data), about=about, task_type=task_type)


def seen_rpc_error(
    rpc_error: Mapping[str, Any], *, secrets: Sequence[str] = (), told: WireError | None = None
) -> Seen:
    """A JSON-RPC error object (`{code, message, data?}`) as a Seen; `told`: what its HTTP status says.

    With an AdCP error in `data`, or a code that says "refused before it ran", the seller has answered; any
    other leaves the outcome unknown.
    """
    cleaned = clean(dict(rpc_error), secrets)
    code, said = cleaned.get("code"), cleaned.get("message")
    message = said if isinstance(said, str) else ""
    given = errors.read_error(extraction.rpc_adcp_error(cleaned))
    answered = given or _reserved(code, message)
    if answered is None and told is None:
        answered = refusal_in_words(message)
    if answered is not None:
        if answered.retry_after is None and told is not None:  # it may stand in HTTP's head alone
            answered = replace(answered, retry_after=told.retry_after)
        return Seen(
            kind="answer",
            status="failed" if given else refusal_status(answered),
            error=answered,
            message=answered.message or None,
            retry_after=answered.retry_after,
            raw=cleaned,
        )
    error = told or WireError(code=errors.RPC_ERROR, message=message, details={"rpc_code": code})
    if told is None and isinstance(code, int) and code in _RPC_REFUSED:
        refused = replace(error, recovery="terminal")
        return Seen(kind="answer", status="failed", error=refused, message=message or None, raw=cleaned)
    waits = error.retry_after
    return Seen(
        kind="garbled", error=error, message=message or error.message or None, retry_after=waits, raw=cleaned
    )


def _reserved(code: object, message: str) -> WireError | None:
    """The AdCP error that a reserved JSON-RPC code stands for."""
    name = _RPC_RESERVED.get(code) if isinstance(code, int) else None
    if name is None:
        return None
    recovery = errors.recovery_for(name)
    return WireError(code=name, message=message, recovery=recovery, details={"rpc_code": code})


def _no_data(raw: Json, text: str | None, raw_status: str | None = None) -> Seen:
    error = WireError(code=errors.NO_DATA, message="the answer holds no AdCP data")
    return Seen(kind="garbled", raw_status=raw_status, error=error, message=text, raw=raw)


def _with_a2a_ids(seen: Seen, task: Json) -> Seen:
    """Add the transport's own identities; a paused task can be continued only through them."""
    is_update = "taskId" in task
    task_id = identity_of(task.get("taskId") if is_update else task.get("id"))
    context_id = identity_of(task.get("contextId"))
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
