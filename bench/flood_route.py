"""The web process of `bench.flood`: the product, with one route before it that only answers 404."""

from __future__ import annotations

from typing import Any

from bench.flood_load import NOTHING
from config.asgi import application as _product
from tasks_app.asgi import answer


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Whatever comes under `NOTHING` is answered without a look at it; the rest is the product's."""
    if scope["type"] == "http" and scope["path"] == NOTHING:
        await answer(send, 404, b"", {})
    else:
        await _product(scope, receive, send)
