"""A pass of the sweep in this thread, and sellers whose every request is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import async_to_sync

from tasks_app.operations.sweep import Swept, sweep_once
from tests.adcp.raw_server import RawServer, Request, Script
from tests.adcp.scripted_seller import mcp_result, rpc, seller

Reply = dict[str, Any] | bytes


def sweep() -> Swept:
    """One pass; its database work is done in the calling thread."""
    swept: Swept = async_to_sync(sweep_once)()
    return swept


def answering(*replies: Reply | Callable[[Request], Reply]) -> Callable[[RawServer], Script]:
    """A seller on MCP that gives these answers to its calls in turn, the last one ever after."""
    left = list(replies)

    def answer(request: Request) -> bytes:
        reply = left.pop(0) if len(left) > 1 else left[0]
        told = reply(request) if callable(reply) else reply
        return told if isinstance(told, bytes) else rpc(request, result=mcp_result(told))

    return seller(answer)


def calls(server: RawServer) -> list[Request]:
    """The tools/call requests that came in."""
    return [request for request in server.requests if request.rpc_method == "tools/call"]


def arguments(request: Request) -> dict[str, Any]:
    found: dict[str, Any] = request.json["params"]["arguments"]
    return found


def shop(**tools: Any) -> Callable[[RawServer], Script]:
    """A seller on MCP: each tool's answer, or the function that makes it; one not named breaks down."""

    def answer(request: Request) -> bytes:
        tool = request.json["params"]["name"]
        told = tools.get(tool, {"adcp_error": {"code": "SERVICE_UNAVAILABLE", "message": "no"}})
        told = told(arguments(request)) if callable(told) else told
        return rpc(request, result=mcp_result(told))

    return seller(answer)


def tools(server: RawServer) -> list[str]:
    """What was called, in order."""
    return [request.json["params"]["name"] for request in calls(server)]
