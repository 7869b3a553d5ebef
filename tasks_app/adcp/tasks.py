"""Asking a seller about its tasks: which tool to use, and what its replies say.

Sources: AdCP L3/task-lifecycle, protocol/get-task-status, protocol/list-tasks, and their older names. Some
sellers answer in a shape of their own (`response_data`, `associated_objects`, `error_message`); it is read
too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from . import errors
from .envelopes import parse_time, read_progress, seen_result, task_status
from .extraction import Json
from .types import Capabilities, Seen, WireError

# Newest name first.
STATUS_TOOL_NAMES = ("get_task_status", "tasks/get", "tasks_get")
LIST_TOOL_NAMES = ("list_tasks", "tasks/list", "tasks_list")
STATUS_TOOLS = frozenset(STATUS_TOOL_NAMES)
# Ends that come with a result; a canceled task may have none.
_WITH_RESULT = frozenset({"completed", "failed", "rejected"})


@dataclass(frozen=True, kw_only=True)
class TaskItem:
    """One task in a seller's list. `context` is ours, if the seller keeps and shows it."""

    task_id: str
    status: str
    raw_status: str | None
    task_type: str | None
    protocol: str | None
    created_at: datetime | None
    updated_at: datetime | None
    context: dict[str, Any] | None
    raw: dict[str, Any]


def task_status_tool(tools: Capabilities | Iterable[str]) -> str | None:
    """The tool that tells the state of one task, by what the seller declares; None when it has none."""
    return _pick(tools, STATUS_TOOL_NAMES)


def task_list_tool(tools: Capabilities | Iterable[str]) -> str | None:
    """The tool that lists tasks, by what the seller declares; None when it has none."""
    return _pick(tools, LIST_TOOL_NAMES)


def task_status_arguments(task_id: str, account: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The arguments of a status tool: the result is always asked for."""
    arguments: dict[str, Any] = {"task_id": task_id, "include_result": True}
    if account is not None:
        arguments["account"] = dict(account)
    return arguments


def seen_of_status_reply(seen: Seen) -> Seen:
    """The reply of a status tool as an observation of the task it tells of, as a webhook would have brought
    it.

    A failed poll says nothing of the task: then the status is `unknown`, with the error that the poll met; so
    is that of a task whose `error` contradicts its `result`. An end without its result is `partial`.
    """
    if seen.kind != "answer":
        return seen
    payload = seen.payload or {}
    if seen.task_id is None:
        return replace(seen, status="unknown", media_buy_status=None)
    result = _result_of(payload)
    inner = seen_result(result, seen.status)
    summary = errors.read_error(payload.get("error"))
    failed = seen.status in ("failed", "rejected", "canceled")
    if failed and summary and inner.error and summary.code != inner.error.code:
        return _contradicts_itself(seen, summary, inner.error)
    error = inner.error or seen.error or (summary if failed else None)
    return replace(
        seen,
        payload=inner.payload,
        task_type=_text(payload.get("task_type")),
        partial=seen.status in _WITH_RESULT and _artifact(payload) is None,
        media_buy_status=inner.media_buy_status,
        message=seen.message or inner.message or (error.message if error else None),
        error=error,
        errors=inner.errors or seen.errors,
        context=inner.context or seen.context,
        replayed=False,
        progress=read_progress(payload) or inner.progress,
        retry_after=error.retry_after if error else None,
        at=parse_time(payload.get("updated_at")) or parse_time(payload.get("completed_at")) or seen.at,
    )


def task_items(seen: Seen) -> tuple[TaskItem, ...]:
    """The tasks in the reply of a list tool; items without an id are left out."""
    listed = (seen.payload or {}).get("tasks")
    entries = listed if isinstance(listed, list) else []
    found = (task_item(entry) for entry in entries if isinstance(entry, dict))
    return tuple(item for item in found if item is not None)


def next_cursor(seen: Seen) -> str | None:
    """The cursor of the next page of any list reply (`pagination.cursor` while `has_more`); None at the
    end."""
    pagination = (seen.payload or {}).get("pagination")
    if not isinstance(pagination, dict) or pagination.get("has_more") is False:
        return None
    cursor = pagination.get("cursor") or pagination.get("next_cursor")
    return cursor if isinstance(cursor, str) and cursor else None


def _pick(tools: Capabilities | Iterable[str], names: tuple[str, ...]) -> str | None:
    declared = tools.tools if isinstance(tools, Capabilities) else frozenset(tools)
    return next((name for name in names if name in declared), None)


def _contradicts_itself(seen: Seen, summary: WireError, told: WireError) -> Seen:
    """AdCP L3/async-identity-and-convergence: `error` must agree with the error in `result`."""
    why = f"the task's error {summary.code} contradicts its result's {told.code}"
    error = WireError(code=errors.GARBLED, message=why)
    return replace(seen, status="unknown", payload=None, media_buy_status=None, error=error, message=why)


def _result_of(payload: Json) -> Json | None:
    """The task's result, wherever the seller put it."""
    return _artifact(payload) or _associated_buy(payload.get("associated_objects"))


def _artifact(payload: Json) -> Json | None:
    """The result whole, where it is told at all; empty objects say nothing."""
    found = (payload.get(name) for name in ("result", "response_data"))
    return next((result for result in found if isinstance(result, dict) and result), None)


def _associated_buy(objects: object) -> Json | None:
    for entry in objects if isinstance(objects, list) else []:
        if not isinstance(entry, dict):
            continue
        kind = entry.get("type") or entry.get("object_type")
        identity = entry.get("id") or entry.get("object_id")
        if kind == "media_buy" and isinstance(identity, str):
            return {"media_buy_id": identity}
    return None


def task_item(entry: Json) -> TaskItem | None:
    """One entry of a list tool's `tasks`; None without a task_id."""
    task_id = entry.get("task_id")
    if not isinstance(task_id, str) or not task_id:
        return None
    status, raw_status = task_status(entry.get("status"))
    protocol = entry.get("protocol") or entry.get("domain")
    task_type = entry.get("task_type")
    context = entry.get("context")
    return TaskItem(
        task_id=task_id,
        status=status,
        raw_status=raw_status,
        task_type=task_type if isinstance(task_type, str) else None,
        protocol=protocol if isinstance(protocol, str) else None,
        created_at=parse_time(entry.get("created_at")),
        updated_at=parse_time(entry.get("updated_at")),
        context=context if isinstance(context, dict) else None,
        raw=entry,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
