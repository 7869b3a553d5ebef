"""Asking a seller about its tasks: which tool to use, and what its replies say.

Sources: AdCP L3/task-lifecycle, protocol/get-task-status, protocol/list-tasks, and their older names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .answers import read_answer
from .errors import MOST_ERRORS, UNCODED, told_error
from .extraction import Json
from .told import Carried
from .types import Capabilities, Seen, WireError
from .values import parse_time, text_of

# Newest name first.
STATUS_TOOL_NAMES = ("get_task_status", "get_task", "tasks/get", "tasks_get")
LIST_TOOL_NAMES = ("list_tasks", "tasks/list", "tasks_list")
STATUS_TOOLS = frozenset(STATUS_TOOL_NAMES)
CAPABILITIES_TOOL = "get_adcp_capabilities"
# Every task of AdCP's that we ask sellers for.
TASK_NAMES = frozenset(
    {
        CAPABILITIES_TOOL,
        *("get_products", "list_creative_formats", "list_accounts", "sync_accounts"),
        *("create_media_buy", "update_media_buy", "get_media_buys", "get_media_buy_delivery"),
        *STATUS_TOOL_NAMES,
        *LIST_TOOL_NAMES,
    }
)
# A tool of a seller's own tells by its name what it does: how one that reads begins or ends, and what else it
# would do besides, anywhere in it or as a word.
_READS = (
    *("get", "read", "show", "look", "check", "poll", "fetch", "query", "tell", "describe", "view", "find"),
    *("inspect", "retrieve", "track", "watch"),
)
_IS_READ = ("status", "state", "info", "progress", "details", "/get", "_get", ".get")
_DOES = re.compile(
    "activate|approve|cancel|complet|create|delet|discard|finish|reject|remov|resolv|revok|submit|terminat|updat"
)
_DOES_AS_WORD = frozenset(
    {
        *("abort", "accept", "add", "answer", "book", "build", "buy", "change", "close", "confirm", "end"),
        *("force", "kill", "mark", "patch", "pause", "post", "provide", "push", "put", "reset", "respond"),
        *("resume", "retry", "run", "save", "send", "set", "start", "stop", "sync", "write"),
    }
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


@dataclass(frozen=True, kw_only=True)
class TaskItem:
    """One task in a seller's list, and what that tells of it. `context` is ours, if the seller keeps it;
    `account` whose task the seller says that it is."""

    task_id: str
    seen: Seen
    protocol: str | None
    created_at: datetime | None

    @property
    def status(self) -> str:
        return self.seen.status

    @property
    def raw_status(self) -> str | None:
        return self.seen.raw_status

    @property
    def task_type(self) -> str | None:
        return self.seen.task_type

    @property
    def account(self) -> dict[str, Any] | None:
        return self.seen.account

    @property
    def context(self) -> dict[str, Any] | None:
        return self.seen.context


def task_status_tool(tools: Capabilities | Iterable[str]) -> str | None:
    """The tool that tells the state of one task, by what the seller declares; None when it has none.

    A seller that has declared nothing yet is asked by the present name: its error then says so.
    """
    return _pick(tools, STATUS_TOOL_NAMES) or (None if _told(tools) else STATUS_TOOL_NAMES[0])


def is_status_tool(name: str) -> bool:
    """Whether a tool's name says that it tells of one task, and nothing besides: one of AdCP's, or a seller's
    own, which begins as one that reads, or ends in what is read ("look_at_task", "task_state")."""
    if name in TASK_NAMES:
        return name in STATUS_TOOLS
    words, plain = {word.lower() for word in _WORD.findall(name)}, name.lower()
    reads = plain.startswith(_READS) or plain.endswith(_IS_READ)
    return reads and not _DOES.search(plain) and not words & _DOES_AS_WORD


def task_list_tool(tools: Capabilities | Iterable[str]) -> str | None:
    """The tool that lists tasks, by what the seller declares; None when it has none."""
    return _pick(tools, LIST_TOOL_NAMES)


def tool_offered(tools: Capabilities | Iterable[str], tool: str) -> bool:
    """Whether a seller may be asked with `tool`: it lists it, or what it has is not known.

    It is not where nothing is listed, or nothing that bears a name of AdCP's (skills of an A2A card may have
    titles of their own). What a seller can do may always be asked.
    """
    return tool in _declared(tools) or tool == CAPABILITIES_TOOL or not _told(tools)


def task_status_arguments(task_id: str, account: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The arguments of a status tool: the result is always asked for."""
    arguments: dict[str, Any] = {"task_id": task_id, "include_result": True}
    if account is not None:
        arguments["account"] = dict(account)
    return arguments


class NoCursorError(ValueError):
    """A list says that there is more, and not how to get it."""


def listed_of(status: str, body: Mapping[str, Any] | None, member: str) -> list[Any] | None:
    """What an answer lists under this name; None where it is no list. A call that has not ended, or ended
    badly, says nothing of what there is, whatever its answer carries."""
    listed = (body or {}).get(member) if status == "completed" else None
    return listed if isinstance(listed, list) else None


def told_beside(
    body: Mapping[str, Any] | None,
    read: Sequence[WireError] = (),
    *,
    counts: Callable[[WireError], bool] = lambda _error: True,
) -> WireError | None:
    """The first error that `counts` beside what an answer lists, in whatever shape: a part of it may be
    lacking. Of more than are read the first is answered, whichever it is. `read`: those of the answer that
    were read already."""
    told = (body or {}).get("errors")
    listed = told if isinstance(told, list) else [told]
    each = [error for error in map(told_error, listed[:MOST_ERRORS]) if error is not None]
    found = next(filter(counts, [*each, *read]), None)
    if found is not None or len(listed) <= MOST_ERRORS:
        return found
    return each[0] if each else WireError(code=UNCODED, message=f"{len(listed):,} errors")


def next_cursor(seen: Seen) -> str | None:
    """The cursor of the next page of any list reply; None at the end. Raises NoCursorError."""
    return cursor_of(seen.payload)


def cursor_of(listed: Mapping[str, Any] | None) -> str | None:
    """The cursor that a list names for its next page (`pagination.cursor` while `has_more`); None at the end.
    Raises NoCursorError."""
    pagination = (listed or {}).get("pagination")
    if not isinstance(pagination, dict) or pagination.get("has_more") is False:
        return None
    cursor = pagination.get("cursor") or pagination.get("next_cursor")
    if isinstance(cursor, str) and cursor:
        return cursor
    if pagination.get("has_more") or cursor:
        raise NoCursorError("the list says that there is more, and not where it goes on")
    return None


def _pick(tools: Capabilities | Iterable[str], names: tuple[str, ...]) -> str | None:
    declared = _declared(tools)
    return next((name for name in names if name in declared), None)


def _declared(tools: Capabilities | Iterable[str]) -> frozenset[str]:
    return tools.tools if isinstance(tools, Capabilities) else frozenset(tools)


def _told(tools: Capabilities | Iterable[str]) -> bool:
    """Whether what a seller declares says what it has, in AdCP's names."""
    return bool(_declared(tools) & TASK_NAMES)


def task_item(entry: Json, *, task_type: str = "") -> TaskItem | None:
    """One entry of a list tool's `tasks`; None without a task_id. `task_type`: of the task, where we know."""
    seen = read_answer(Carried(data=entry, raw=entry), about="item", task_type=task_type)
    if seen.task_id is None:
        return None
    return TaskItem(
        task_id=seen.task_id,
        seen=seen,
        protocol=text_of(entry.get("protocol") or entry.get("domain")),
        created_at=parse_time(entry.get("created_at")),
    )
