"""Equality of what sellers say, whichever channel brought it.

Source: AdCP L3/async-identity-and-convergence, "Terminal identity and equivalence".
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tasks_app.adcp.errors import read_error
from tasks_app.adcp.hygiene import integral
from tasks_app.adcp.types import ENDED_BADLY, Seen
from tasks_app.canonical import canonical_digest


def observation_digest(seen: Seen, *, task_type: str, sent_context: Any) -> str:
    """Equality of observations: that of {task_type, status, value}, whichever channel brought them.

    `sent_context` is the `context` of our request. A seller may echo it in one channel and not in another:
    ours, unchanged, is the envelope's; any other is part of what was told.
    """
    value = _value(seen, sent_context)
    return canonical_digest({"task_type": task_type, "status": seen.status, "value": value})


def _value(seen: Seen, sent_context: Any) -> dict[str, Any] | None:
    """The task's own result, without what the channel adds; None where there is none (a canceled task)."""
    body = dict(seen.payload or {})
    if seen.media_buy_status is not None:
        body.setdefault("media_buy_status", seen.media_buy_status)
    if seen.context is not None and integral(seen.context) != integral(sent_context):
        body["context"] = seen.context
    if seen.status in ENDED_BADLY:
        listed, single = body.pop("errors", None), body.pop("error", None)
        body["errors"] = _errors(listed, single, seen)
        if not body["errors"]:
            del body["errors"]
    return body or None


def _errors(listed: Any, single: Any, seen: Seen) -> list[Any]:
    """Every error in the one core shape, whether it was told as a list, alone, or in the envelope."""
    if isinstance(listed, list) and listed:
        return [_core(error) for error in listed]
    if isinstance(single, dict):
        return [_core(single)]
    return [asdict(seen.error)] if seen.error is not None else []


def _core(error: Any) -> Any:
    read = read_error(error)
    return {**error, **asdict(read)} if read is not None else error
