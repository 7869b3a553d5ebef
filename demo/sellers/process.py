"""One seller's process: its books, its desk's clock, its web server."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import uvicorn

from demo.sellers import keys
from demo.sellers.agent import SellerAgent
from demo.sellers.books import Books
from demo.sellers.catalogue import House
from demo.sellers.desk import Desk
from demo.sellers.idempotency import idempotency_store
from demo.sellers.post import Post
from demo.sellers.web import application

_TICK_SECONDS = 0.1
_WATCH_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1


class _Server(uvicorn.Server):
    """uvicorn that tells when it listens."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()


def die_with_parent(parent: int) -> None:
    """Ask the kernel (Linux) to end this process with its parent; elsewhere `_watch_parent` does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(0)


def run(
    house: House, folder: Path, *, port: int, pace: float, parent: int, on_ready: Callable[[], None]
) -> None:
    """Serve until SIGTERM or the parent's end. `pace` in seconds; see `catalogue.py`."""
    die_with_parent(parent)
    logging.basicConfig(level=logging.WARNING, format=f"{house.slug}: %(levelname)s %(name)s %(message)s")
    books = Books(folder / "books.sqlite3")
    kid = f"{house.slug}-webhooks-1"
    pem, jwk = keys.signing_key(folder, kid=kid) if house.webhooks == "rfc9421" else (None, None)
    post = Post(house, books, signing_key=pem, key_id=kid)
    desk = Desk(house, books, post, pace=pace)
    agent = SellerAgent(
        house, books, desk, post, idempotency_store(books), origin=f"http://{keys.HOST}:{port}"
    )
    app = application(house, agent, token=keys.token(folder), port=port, jwk=jwk)
    config = uvicorn.Config(
        app,
        host=keys.HOST,
        port=port,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=2,
    )
    try:
        asyncio.run(_serve(_Server(config, on_ready), desk, post, parent))
    finally:
        books.close()


async def _serve(server: _Server, desk: Desk, post: Post, parent: int) -> None:
    """The web server, with the desk's clock, the post and the watch on the parent beside it."""
    beside = [
        asyncio.create_task(_take_steps(desk)),
        asyncio.create_task(_deliver_post(post)),
        asyncio.create_task(_watch_parent(server, parent)),
    ]
    try:
        await server.serve()
    finally:
        for task in beside:
            task.cancel()


async def _take_steps(desk: Desk) -> None:
    while True:
        try:
            worked = desk.take_step()
        except Exception:  # whatever it was, the desk has put the step off: the others' go on
            traceback.print_exc()
            worked = True
        if not worked:
            await asyncio.sleep(_TICK_SECONDS)


async def _deliver_post(post: Post) -> None:
    while True:
        if not await post.deliver_due():
            await asyncio.sleep(_TICK_SECONDS)


async def _watch_parent(server: _Server, parent: int) -> None:
    while os.getppid() == parent:
        await asyncio.sleep(_WATCH_SECONDS)
    server.should_exit = True


def warm_up() -> None:
    """Load in the parent what the first request of each child would load: schemas and validators."""
    from adcp.server.mcp_tools import get_tools_for_handler
    from adcp.validation.schema_validator import validate_request, validate_response

    get_tools_for_handler(SellerAgent)
    for tool in (
        "get_adcp_capabilities",
        "get_products",
        "create_media_buy",
        "get_task_status",
        "get_media_buys",
    ):
        validate_request(tool, {})
        validate_response(tool, {})
