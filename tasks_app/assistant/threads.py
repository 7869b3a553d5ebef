"""Four threads with database connections of their own, for everything that turns read and write."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import close_old_connections

P = ParamSpec("P")
R = TypeVar("R")
THREADS = 4
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="assistant")
# Leases are renewed in time even while slow tools keep the four threads busy.
_lease_pool = ThreadPoolExecutor(1, thread_name_prefix="assistant-leases")


async def in_lease_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a function that claims, renews or releases leases in a thread of its own."""
    return await _run(_lease_pool, function, *args, **kwargs)


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a function that uses the database in one of the threads; return what it returns.

    Not `sync_to_async`: it runs one function at a time, in one thread.
    """
    return await _run(_pool, function, *args, **kwargs)


async def _run(pool: ThreadPoolExecutor, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    context = contextvars.copy_context()

    def run() -> R:
        close_old_connections()
        return context.run(function, *args, **kwargs)

    return await asyncio.get_running_loop().run_in_executor(pool, run)
