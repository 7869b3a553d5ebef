"""Sellers that misbehave, known to us as `add_seller` makes them, and a clock that nobody waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller
from tasks_app.sellers.services import seller_add
from tests.database import Database
from tests.elapsing import elapsing
from tests.fake_seller.driver import FakeSeller
from tests.operations.sweeping import sweep

Known = tuple[FakeSeller, Seller]


@pytest.fixture
def known(committed_db: Database, tmp_path: Path) -> Iterator[Callable[..., Known]]:
    """Starts a seller's process and makes the seller known."""
    with ExitStack() as stack:

        def start(name: str = "Faulty", *, mode: str = "completed", channel: str = "display") -> Known:
            process = stack.enter_context(FakeSeller(tmp_path, mode=mode, channel=channel))
            seller, _ = seller_add(
                name=name, url=process.url, protocol="mcp", token=process.token, allow_private=True
            )
            return process, seller

        yield start


@contextmanager
def misbehaving(shop: FakeSeller, tool: str, kind: str, times: int = 1, **params: Any) -> Iterator[None]:
    """A fault of the next calls of `tool`. Where it hangs, their limit elapses once it has been asked."""
    shop.fault(tool, kind, times, **params)
    asked = elapsing(lambda: len(shop.requests(tool)), times) if kind == "hang" else nullcontext()
    with asked:
        yield


class Passes:
    """Sweeps as time goes by: each is 70 s after the last. `work` is done before each, at the same time."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)
        self.work: Callable[[], object] = lambda: None

    @contextmanager
    def time(self) -> Iterator[None]:
        """The present moment of this clock, within the block."""
        with clock.injected(lambda: datetime.now(UTC) + self.ahead):
            yield

    def __call__(self, times: int = 1) -> None:
        for _ in range(times):
            with self.time():
                self.work()
                sweep()
            self.ahead += timedelta(seconds=70)

    def until_settled(self, operation: Operation, most: int = 8) -> int:
        """How many it took."""
        for number in range(1, most + 1):
            self()
            if Operation.objects.filter(pk=operation.pk, published_at__isnull=False).exists():
                return number
        raise AssertionError(
            f"not settled: {Operation.objects.values('status', 'message').get(pk=operation.pk)}"
        )


@pytest.fixture
def passes() -> Passes:
    return Passes()
