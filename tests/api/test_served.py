"""The API as it is served: uvicorn, its threads and its pool of connections."""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from config.processes import ProcessGroup
from demo.ports import free_port
from tasks_app.people.security_models import ApiToken
from tests.api.asks import faulty, read
from tests.database import Database
from tests.factories import make_user
from tests.fake_seller.driver import FakeSeller
from tests.support import PATIENCE_S, until

_FEW = {"FLIGHTDECK_WEBHOOK_THREADS": "1"}  # the pool has 11 connections more than that
_AT_ONCE = 16


def test_reads_wait_for_slow_sellers_without_holding_up_the_site(
    committed_db: Database, processes: ProcessGroup, tmp_path: Path
) -> None:
    token = ApiToken.objects.create(user=make_user("Integration"))[1]
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

    with FakeSeller(tmp_path) as seller:
        row = faulty(seller)
        row.slots = 50
        row.save()
        seller.fault("get_products", "hang", times=0)
        command = [sys.executable, "-m", "config.web", "--port", str(port)]
        processes.start("web", command, env={**os.environ, **_FEW})
        until(is_up, "the site answers")

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            out = [threads.submit(call, "/api/v1/operations/", read()) for _ in range(_AT_ONCE)]

            def told() -> list[tuple[int, dict[str, Any]]]:
                return [one.result() for one in out if one.done()]

            try:
                until(lambda: len(seller.requests("get_products")) == _AT_ONCE or told(), "all are out")
                assert call("/api/v1/deals/")[0] == 200
                assert told() == []
            finally:
                seller.release()
            answers = [one.result() for one in out]

    assert {(status, told["status"]) for status, told in answers} == {(200, "completed")}
