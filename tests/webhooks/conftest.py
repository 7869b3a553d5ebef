"""The endpoint as it is served: a uvicorn process on a database of the module's own."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import requests
from django.db import connections
from pytest_django.plugin import DjangoDbBlocker

from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller
from tests.adcp.raw_server import RawServer, serve
from tests.database import Database, TestServer, point_django_at
from tests.factories import make_seller
from tests.support import wait_until
from tests.webhooks.signing import hmac, jwks, post, publishing

ROOT = Path(__file__).resolve().parents[2]
_number = count(1)
# However busy the machine is: what happens in a burst has its own tests.
ALWAYS_APPLY = {"FLIGHTDECK_WEBHOOK_APPLIED_SHARE": "1000"}
SECRET = "the-webhook-secret-of-the-tests-1234567890"


@dataclass
class Endpoint:
    """The web process: where it is, and what it wrote."""

    url: str
    log: Path

    def of(self, seller: Seller | str) -> str:
        slug = seller if isinstance(seller, str) else seller.slug
        return f"{self.url}/webhooks/adcp/{slug}/"

    def send(self, seller: Seller, body: Any, **signed: Any) -> requests.Response:
        """POST as a seller that signs with HMAC."""
        return post(self.of(seller), body, hmac(body, SECRET, **signed))


@pytest.fixture(scope="module")
def endpoint(
    database_server: TestServer,
    template_database: Database,
    django_db_setup: Database,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Endpoint]:
    database = database_server.create(template=template_database)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url, log = f"http://127.0.0.1:{port}", tmp_path_factory.mktemp("web") / "uvicorn.log"
    with pytest.MonkeyPatch.context() as patch, django_db_blocker.unblock(), log.open("wb") as out:
        for name, value in {**database.env, "FLIGHTDECK_PUBLIC_URL": url, **ALWAYS_APPLY}.items():
            patch.setenv(name, value)
        point_django_at(database.urls.app)
        with _uvicorn(port, out):
            wait_until(lambda: _answers(url), 30, "the web process answers")
            yield Endpoint(url, log)
        connections.close_all()
    point_django_at(django_db_setup.urls.app)
    database_server.drop(database.name)


@pytest.fixture
def receiver(endpoint: Endpoint, settings: Any) -> Endpoint:
    """The endpoint; what the tests before left is due for nothing, and our requests name its address."""
    settings.PUBLIC_URL = endpoint.url
    Operation.objects.update(send_at=None, next_poll_at=None, deadline_at=None)
    return endpoint


@pytest.fixture
def norrland(receiver: Endpoint) -> Seller:
    """A seller that signs with HMAC."""
    return make_seller(f"Norrland {next(_number)}", webhook_mode="hmac", webhook_secret=SECRET)


@pytest.fixture
def vasa(receiver: Endpoint, keys: RawServer) -> Seller:
    """A seller that signs by RFC 9421 and publishes its key as k1."""
    return make_seller(f"Vasa {next(_number)}", webhook_mode="rfc9421", jwks_url=f"{keys.url}/jwks.json")


@pytest.fixture
def keys() -> Iterator[RawServer]:
    """Where a seller publishes its keys, and no list of revoked ones."""
    with serve(lambda _server: publishing(jwks("k1"))) as server:
        yield server


@contextmanager
def _uvicorn(port: int, out: BinaryIO) -> Iterator[None]:
    command = [sys.executable, "-m", "uvicorn", "config.asgi:application", "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out) as process:
        try:
            yield
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/webhooks/adcp/nobody/", timeout=5).status_code == 405
    except requests.ConnectionError:
        return False
