"""AdCP over MCP: one tool call a session, streamable HTTP.

Source: AdCP L0/mcp-guide; MCP "Streamable HTTP". Traps of the library `mcp` 2.3 handled here: its
ClientSession fetches every tool's schema (over 1 MB) to validate a result and raises on AdCP's interim
statuses; its errors come as ExceptionGroup and hide HTTP statuses (see `outcome`); it logs bodies it cannot
parse.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, PaginatedRequestParams

from . import errors, http
from .envelopes import seen_mcp
from .meaning import About
from .outcome import seen_failure
from .types import Endpoint, Seen, WireError

# A result that cannot be parsed would otherwise stand in the log with a traceback, secrets and all.
for _name in ("mcp.client.streamable_http", "mcp.client.session", "mcp.shared.jsonrpc_dispatcher"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

_MAX_TOOL_PAGES, _MOST_TOOLS = 50, 10_000

Talk = Callable[[ClientSession], Awaitable[None]]


class _PlainSession(ClientSession):
    """A session that leaves the judging of results to us."""

    async def validate_tool_result(self, name: str, result: CallToolResult) -> None:
        """Not against the tool's output schema: AdCP's interim answers never match it."""


@dataclass(kw_only=True)
class _Heard:
    """What came out of a session before it ended, however it ended."""

    result: dict[str, Any] | None = None
    asked_for_input: bool = False
    tools: list[str] = field(default_factory=list)
    tools_complete: bool = False
    agent_name: str = ""


async def call_tool(
    endpoint: Endpoint,
    tool: str,
    arguments: Mapping[str, Any],
    *,
    secrets: Sequence[str],
    about: About = "call",
    task_type: str = "",
) -> Seen:
    """Call one tool; whatever comes back, or does not, as a Seen: of the task called, or, `about` a poll, of
    the task asked for, of `task_type`. `endpoint.timeout_s` bounds everything."""
    ledger, heard = http.Ledger(credentialed=bool(endpoint.secrets)), _Heard()

    async def talk(session: ClientSession) -> None:
        ledger.sending_task = True
        result = await session.call_tool(tool, dict(arguments), allow_input_required=True, allow_claimed=True)
        if isinstance(result, CallToolResult):
            heard.result = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        else:
            heard.asked_for_input = True

    timed_out, reason = await _converse(endpoint, ledger, heard, talk)
    if heard.result is not None:
        return seen_mcp(heard.result, secrets=secrets, about=about, task_type=task_type)
    if heard.asked_for_input:
        error = WireError(
            code=errors.INPUT_ASKED_ON_MCP, message="the seller asked for input by MCP's own means"
        )
        return Seen(kind="garbled", error=error, message=error.message)
    return seen_failure(ledger, timed_out=timed_out, reason=reason, secrets=secrets)


async def list_tools(endpoint: Endpoint) -> tuple[frozenset[str], str, Seen | None]:
    """The names of all tools, the server's own name, and the failure as a Seen (None when all went well)."""
    ledger, heard = http.Ledger(sending_task=True, credentialed=bool(endpoint.secrets)), _Heard()

    async def talk(session: ClientSession) -> None:
        cursor: str | None = None
        for _ in range(_MAX_TOOL_PAGES):
            page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
            heard.tools += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if not cursor or len(heard.tools) > _MOST_TOOLS:
                break
        heard.tools_complete = True

    timed_out, reason = await _converse(endpoint, ledger, heard, talk)
    failure = None
    if not heard.tools_complete:
        failure = seen_failure(ledger, timed_out=timed_out, reason=reason, secrets=endpoint.secrets)
    return frozenset(heard.tools), heard.agent_name, failure


async def _converse(endpoint: Endpoint, ledger: http.Ledger, heard: _Heard, talk: Talk) -> tuple[bool, str]:
    """Open a session, hold one conversation, close it; (timed out, what failed in words without secrets)."""
    reason = ""
    with anyio.move_on_after(endpoint.timeout_s) as limit:
        try:
            async with _session(endpoint, ledger) as session:
                opened = await session.initialize()
                heard.agent_name = opened.server_info.name
                await talk(session)
        except Exception as error:  # a seller can provoke any of them; what happened stands in the ledger
            reason = _words(error)
    return limit.cancelled_caught, reason


@asynccontextmanager
async def _session(endpoint: Endpoint, ledger: http.Ledger) -> AsyncIterator[ClientSession]:
    policy = http.Policy(
        allow_private=endpoint.allow_private,
        max_bytes=endpoint.max_bytes,
        timeout_s=endpoint.timeout_s,
        # The library opens a second stream for what a server may say unasked: nothing of AdCP comes so.
        closed_methods=frozenset({"GET"}),
    )
    async with (
        http.client(http.httpx2, policy, ledger, headers=endpoint.sent_headers) as http_client,
        streamable_http_client(
            endpoint.url, http_client=http_client, max_sse_event_size=endpoint.max_bytes
        ) as streams,
        _PlainSession(*streams) as session,
    ):
        yield session


def _words(error: BaseException) -> str:
    """The kind of the innermost failure, never its text: that may quote the seller or ourselves."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return f"the session failed ({type(error).__name__})"
