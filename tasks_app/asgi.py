"""What the parts that stand before Django have in common: types, bodies of a bounded size, short answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Any, Any, Any], Awaitable[None]]

BODY_WITHIN_S = 30.0


class TooLargeError(Exception):
    """The body is larger than it may be."""


def headers_of(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """By name in lower case; several of one name joined with a comma."""
    found: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def source_of(scope: Scope) -> str:
    """The sender's address, as the web server saw it."""
    return str((scope.get("client") or ("",))[0])


async def read_body(headers: dict[str, str], receive: Receive, *, most: int) -> bytes | None:
    """The whole body, None when the sender hung up. Raises TooLargeError, TimeoutError."""
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:12]) > most:
        raise TooLargeError
    parts, size = [], 0
    async with asyncio.timeout(BODY_WITHIN_S):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            size += len(part)
            if size > most:
                raise TooLargeError
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)


async def answer(
    send: Send, status: int, body: bytes, headers: dict[str, str], *, close: bool = False
) -> None:
    """One short answer; `close`: and nothing more on this connection."""
    whole = {"Content-Length": str(len(body)), **headers}
    if close:
        whole["Connection"] = "close"
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in whole.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
