"""Plain clients for the demonstration's sellers: `mcp` and `a2a-sdk` used directly, no code of Flightdeck."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import httpx
import httpx2
from a2a import types as a2a_types
from a2a.client import ClientConfig, create_client
from google.protobuf.json_format import MessageToDict, ParseDict
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client

from tests.support import PATIENCE_S

PIN = {"adcp_version": "3.2", "adcp_major_version": 3}


class _Session(ClientSession):
    """Without the download of tools/list that checks results against a schema which has no `working`."""

    async def validate_tool_result(self, *args: Any, **kwargs: Any) -> None:
        return None


class SellerClient:
    """Calls one seller's tasks, over the protocol its entry in sellers.json names."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.entry = entry
        self.token = Path(entry["token_file"]).read_text().strip()

    def call(self, task: str, **arguments: Any) -> dict[str, Any]:
        """The answer's structured content; an AdCP error has `adcp_error`."""
        call = self._mcp if self.entry["protocol"] == "mcp" else self._a2a
        return asyncio.run(call(task, {**PIN, **arguments}))

    async def _mcp(self, task: str, arguments: dict[str, Any]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
            streamable_http_client(self.entry["url"], http_client=http, terminate_on_close=False) as streams,
            _Session(streams[0], streams[1]) as session,
        ):
            await session.initialize()
            result = await session.call_tool(task, arguments)
        if result.structured_content is None:
            raise AssertionError(f"{task} answered without structured content")
        return result.structured_content

    async def _a2a(self, task: str, arguments: dict[str, Any]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with httpx.AsyncClient(headers=headers, timeout=PATIENCE_S) as http:
            client = await create_client(
                self.entry["url"], client_config=ClientConfig(httpx_client=http, streaming=False)
            )
            part = a2a_types.Part()
            ParseDict({"skill": task, "input": arguments}, part.data)
            message = a2a_types.Message(
                message_id=str(uuid.uuid4()), role=a2a_types.Role.ROLE_USER, parts=[part]
            )
            answers = [a async for a in client.send_message(a2a_types.SendMessageRequest(message=message))]
        return _data_of(answers[-1].task)


def _data_of(task: Any) -> dict[str, Any]:
    parts = [*task.status.message.parts, *(p for artifact in task.artifacts for p in artifact.parts)]
    data = [MessageToDict(part.data) for part in parts if part.WhichOneof("content") == "data"]
    return data[-1]
