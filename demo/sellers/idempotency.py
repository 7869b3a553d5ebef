"""The `adcp` package's idempotency store, backed by the seller's books.

Source: AdCP L1/security (idempotency): a key replays its first answer for 24 hours, also after a restart.
"""

from __future__ import annotations

import asyncio
import json
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from adcp.server import IdempotencyStore
from adcp.server.idempotency import CachedResponse, IdempotencyBackend

from demo.sellers.books import Books

REPLAY_SECONDS = 86_400


class BooksBackend(IdempotencyBackend):
    """Answers in SQLite; the execution lock per key in the one process that serves them."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._locks: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock] = (
            weakref.WeakValueDictionary()
        )

    async def get(self, scope_key: str, key: str) -> CachedResponse | None:
        row = self._books.reply(scope_key, key, time.time())
        if row is None:
            return None
        return CachedResponse(
            payload_hash=row["fingerprint"],
            response=json.loads(row["response"]),
            expires_at_epoch=row["expires_at"],
        )

    async def put(self, scope_key: str, key: str, entry: CachedResponse) -> None:
        self._books.save_reply(
            scope_key,
            key,
            fingerprint=entry.payload_hash,
            response=json.dumps(entry.response),
            expires_at=entry.expires_at_epoch,
        )

    @asynccontextmanager
    async def hold(self, scope_key: str, key: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault((scope_key, key), asyncio.Lock())
        async with lock:
            yield

    async def delete_expired(self, now_epoch: float | None = None) -> int:
        return self._books.drop_replies(time.time() if now_epoch is None else now_epoch)


def idempotency_store(books: Books) -> IdempotencyStore:
    return IdempotencyStore(BooksBackend(books), ttl_seconds=REPLAY_SECONDS, raise_on_persist_error=True)
