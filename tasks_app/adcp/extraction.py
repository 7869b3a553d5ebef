"""Where AdCP data and errors stand inside what the transports carry.

Sources: AdCP L0/mcp-response-extraction, L0/a2a-response-extraction, operating/transport-errors. Everything
here is pure, takes parsed JSON of any shape and never raises, except WrapperError where the specification
asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .errors import is_valid_error
from .strict_json import MalformedBody, parse_object

MAX_TEXT_CHARS = 2**20

A2A_FINAL = frozenset({"completed", "failed", "canceled", "rejected"})
A2A_INTERIM = frozenset({"working", "submitted", "input-required", "auth-required"})
_A2A_ENVELOPES = frozenset({"task", "message", "statusUpdate", "artifactUpdate"})

Json = dict[str, Any]


class WrapperError(ValueError):
    """A2A data wrapped by the seller's framework in `{response: {...}}`: refused, never unwrapped."""


def mcp_object(result: object) -> Json | None:
    """Whatever object an MCP tool result carries, an error's too; None where there is only text."""
    if not isinstance(result, dict):
        return None
    structured = result.get("structuredContent")
    if isinstance(structured, dict):
        return structured
    found = list(_json_texts(result))
    return next((one for one in found if not _is_error_only(one)), next(iter(found), None))


def mcp_data(result: object) -> Json | None:
    """The AdCP response in an MCP tool result, or None (an error result, or plain text)."""
    found = mcp_object(result)
    failed = not isinstance(result, dict) or result.get("isError")
    return None if failed or found is None or _is_error_only(found) else found


def mcp_error(response: object) -> Json | None:
    """The AdCP error in an MCP tool result with `isError`, or in a JSON-RPC error; None when there is
    none."""
    if not isinstance(response, dict):
        return None
    rpc_error = response.get("error")
    if isinstance(rpc_error, dict):
        return rpc_adcp_error(rpc_error)
    if not response.get("isError"):
        return None
    structured = response.get("structuredContent")
    if isinstance(structured, dict) and "adcp_error" in structured:
        return _valid(structured["adcp_error"])
    return next(
        (_valid(found["adcp_error"]) for found in _json_texts(response) if "adcp_error" in found), None
    )


def rpc_adcp_error(rpc_error: Json) -> Json | None:
    """The AdCP error in `data` of a JSON-RPC error object."""
    data = rpc_error.get("data")
    return _valid(data.get("adcp_error")) if isinstance(data, dict) else None


def mcp_text(result: object) -> str | None:
    """The plain text of an MCP result, for people; None when there is none."""
    return _joined_text(result.get("content")) if isinstance(result, dict) else None


def a2a_task(received: object) -> Json | None:
    """The Task, status update or message inside at most one A2A 1.0 envelope; None when it is malformed."""
    if not isinstance(received, dict):
        return None
    if len(received) != 1:
        return received
    key, inner = next(iter(received.items()))
    if key not in _A2A_ENVELOPES or not isinstance(inner, dict):
        return received
    # An envelope in an envelope is a smuggling attempt. A status update's own `message` stands under
    # `status`.
    return None if _A2A_ENVELOPES & inner.keys() else inner


def a2a_state(task: Json) -> str | None:
    """The transport's state of a Task, in the 0.3 spelling ("input-required"); None when it has none."""
    status = task.get("status")
    state = status.get("state") if isinstance(status, dict) else None
    if not isinstance(state, str):
        return None
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-")


def a2a_data(received: object) -> Json | None:
    """The AdCP response in an A2A Task or update, or None; raises WrapperError."""
    task = a2a_task(received)
    state = a2a_state(task) if task is not None else None
    if task is None or state is None:
        return None
    if state in A2A_FINAL:
        found = list(_data_parts(_first_artifact_parts(task)))
        if found:
            if _is_wrapper(found[-1]):
                raise WrapperError("the data part holds only {response: {...}}")
            return found[-1]
    if state in A2A_FINAL | A2A_INTERIM:
        return next(_data_parts(_status_parts(task)), None)
    return None


def a2a_error(received: object) -> Json | None:
    """The AdCP error in a failed or rejected A2A Task: artifacts first, then the status message."""
    task = a2a_task(received)
    if task is None or a2a_state(task) not in ("failed", "rejected"):
        return None
    for parts in (*_all_artifact_parts(task), _status_parts(task)):
        for data in _data_parts(parts):
            if "adcp_error" in data:
                return _valid(data["adcp_error"])
    return None


def a2a_text(task: Json) -> str | None:
    """The plain text of a Task or message, for people; None when there is none."""
    return (
        _joined_text(_first_artifact_parts(task))
        or _joined_text(_status_parts(task))
        or _joined_text(task.get("parts"))
    )


def webhook_format(body: Json) -> str:
    """`a2a` for a native A2A push body, else `mcp`: the AdCP webhook envelope."""
    if _A2A_ENVELOPES & body.keys() and len(body) == 1 and isinstance(next(iter(body.values())), dict):
        return "a2a"
    return "a2a" if isinstance(body.get("status"), dict) else "mcp"


def webhook_data(body: Json) -> Json | None:
    """The task's data in a webhook body of either format; raises WrapperError."""
    if webhook_format(body) == "a2a":
        return a2a_data(body)
    result = body.get("result")
    return result if isinstance(result, dict) else None


def _valid(candidate: object) -> Json | None:
    return candidate if isinstance(candidate, dict) and is_valid_error(candidate) else None


def _is_error_only(data: Json) -> bool:
    return data.keys() == {"adcp_error"}


def _is_wrapper(data: Json) -> bool:
    return data.keys() == {"response"} and isinstance(data["response"], dict)


def _json_texts(result: Json) -> Iterator[Json]:
    content = result.get("content")
    for item in content if isinstance(content, list) else []:
        text = item.get("text") if isinstance(item, dict) and item.get("type") == "text" else None
        if not isinstance(text, str) or len(text) > MAX_TEXT_CHARS:
            continue
        try:
            yield parse_object(text)
        except MalformedBody:
            continue


def _joined_text(parts: object) -> str | None:
    if not isinstance(parts, list):
        return None
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return "\n".join(texts) or None


def _data_parts(parts: object) -> Iterator[Json]:
    for part in parts if isinstance(parts, list) else []:
        data = part.get("data") if isinstance(part, dict) else None
        if isinstance(data, dict):
            yield data


def _all_artifact_parts(task: Json) -> Iterator[object]:
    artifacts = task.get("artifacts")
    for artifact in artifacts if isinstance(artifacts, list) else []:
        if isinstance(artifact, dict):
            yield artifact.get("parts")


def _first_artifact_parts(task: Json) -> object:
    return next(_all_artifact_parts(task), None)


def _status_parts(task: Json) -> object:
    status = task.get("status")
    message = status.get("message") if isinstance(status, dict) else None
    return message.get("parts") if isinstance(message, dict) else None
