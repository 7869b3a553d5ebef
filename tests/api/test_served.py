"""The API as it is served: uvicorn, its threads and its pool of connections."""

from __future__ import annotations

import json
import os
import socket
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from knox.models import AuthToken

from config.processes import ProcessGroup
from tests.api.asks import faulty, read
from tests.database import Database
from tests.factories import make_user
from tests.faulty_seller import FaultySeller
from tests.support import PATIENCE_S, until

_AT_ONCE = 12  # more than the pool has connections


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_reads_wait_for_slow_sellers_without_holding_up_the_site(
    committed_db: Database, processes: ProcessGroup, tmp_path: Path
) -> None:
    token = AuthToken.objects.create(user=make_user("Integration"))[1]
    port = free_port()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}{path}",
            data=json.dumps(body).encode() if body else None,
            headers={"Authorization": f"Token {token}", "Content-Type": "application/json"},
        )
        with opener.open(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)

    def is_up() -> bool:
        try:
            return call("/api/v1/deals/")[0] == 200
        except (urllib.error.URLError, ConnectionError):
            return False

    with FaultySeller(tmp_path) as seller:
        row = faulty(seller)
        row.slots = 50
        row.save()
        seller.fault("get_products", "hang", times=_AT_ONCE, seconds=2)
        command = [sys.executable, "-m", "config.web", "--port", str(port)]
        processes.start("web", command, env={**os.environ})
        until(is_up, "the site answers")

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            out = [threads.submit(call, "/api/v1/operations/", read()) for _ in range(_AT_ONCE)]

            def told() -> list[tuple[int, dict[str, Any]]]:
                return [one.result() for one in out if one.done()]

            until(lambda: len(seller.requests("get_products")) == _AT_ONCE or told(), "all are out")
            assert call("/api/v1/deals/")[0] == 200
            assert told() == []
            answers = [one.result() for one in out]

    assert {(status, told["status"]) for status, told in answers} == {(200, "completed")}
