"""The three sellers, started once for the module that asks for them, and how they end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.people.models import User
from tasks_app.sellers.models import Account, Seller
from tests.ending import end
from tests.factories import make_account, make_advertiser, make_seller, make_user
from tests.operations.making import stand
from tests.sellers.clients import SellerClient
from tests.sellers.receiver import Receiver
from tests.sellers.trusting import SECRET
from tests.support import SELLERS_S, until

_ROOT = Path(__file__).resolve().parents[2]
PACE = 1.2


class Sellers:
    """The supervisor's process and a client per seller."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self._log = (state / "sellers.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "demo.sellers", "serve", "--state", str(state), "--pace", str(PACE)],
            cwd=_ROOT,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        try:
            directory = state / "sellers.json"
            until(lambda: directory.exists() or self.process.poll() is not None, patience=SELLERS_S)
            if not directory.exists():
                raise RuntimeError(self.log)
            self.entries = {entry["slug"]: entry for entry in json.loads(directory.read_text())}
            self.clients = {slug: SellerClient(entry) for slug, entry in self.entries.items()}
        except BaseException:  # given up, or interrupted: nobody else knows of them
            self.stop()
            raise

    @property
    def log(self) -> str:
        return (self.state / "sellers.log").read_text()

    def pids(self) -> dict[str, int]:
        """The processes that serve, by seller."""
        lines = [line.split() for line in self.log.splitlines() if ": ready at " in line]
        return {words[0].rstrip(":"): int(words[-1].strip("()")) for words in lines}

    def stop(self) -> None:
        """SIGTERM to the supervisor, SIGKILL to all where it does not end so."""
        try:
            end(self.process, signal.SIGTERM)
        finally:
            self._log.close()

    def are_over(self) -> None:
        """AssertionError unless they ended as they should: the supervisor by itself, and every seller before
        it, without a word of trouble."""
        assert self.process.returncode == 0, self.log
        assert [pid for pid in self.pids().values() if psutil.pid_exists(pid)] == []
        assert "Traceback" not in self.log, self.log


@pytest.fixture(scope="module")
def sellers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sellers]:
    running = Sellers(tmp_path_factory.mktemp("sellers"))
    try:
        yield running
    finally:
        running.stop()
    running.are_over()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as listening:
        yield listening


@pytest.fixture
def ops() -> User:
    return make_user("Ad Ops", is_staff=True)


@pytest.fixture
def seller() -> Seller:
    """In use: a purchase is under way."""
    seller = make_seller("Vasa", allow_private=False, webhook_mode="hmac", webhook_secret=SECRET, token="t-1")
    stand(S.SUBMITTED, seller=seller)
    return seller


@pytest.fixture
def account(seller: Seller) -> Account:
    account = make_account(make_advertiser(), seller, status="pending_approval")
    Operation.objects.update(account=account)
    return account
