"""Rivals: callables that begin at the same moment, each in a thread with a database connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connections

from tests.support import PATIENCE_S


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What each call answered, or the exception it raised, in the order given."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        try:
            connections["default"].ensure_connection()
            barrier.wait(timeout=PATIENCE_S)
            return call()
        except Exception as error:  # the rival's answer, for the test to look at
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))
