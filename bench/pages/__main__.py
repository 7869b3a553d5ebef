"""How long pages and decisions take among 100,000 deals and 500 open approvals: `make bench-pages`.

An approver asks the web process as it is delivered, one request at a time, and after each request the list
of 25 deals that a stock ModelAdmin shows in the same process. Each ratio compares 95th percentiles of the
time at the server.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Any
from urllib.parse import quote

import psycopg
import requests

from bench import server
from bench.figures import ROUNDS, Figures
from demo.ports import free_port

_REQUESTS = 40  # of each page in a round
_DECISIONS = 20
_APPROVALS = "/admin/tasks_app/approval/"
_HEADER = "X-Bench-Milliseconds"  # bench.pages.stock
_HIDDEN = re.compile(r'<input type="hidden" name="(digest|csrfmiddlewaretoken)" value="([^"]*)"')
_KINDS = ("queue", "today", "search", "campaign", "decide")


class Approver:
    """A browser with a session."""

    def __init__(self, url: str, session: str) -> None:
        self._url = url
        self._http = requests.Session()
        self._http.cookies.set("sessionid", session)

    def get(self, address: str) -> requests.Response:
        """Open a page; a search with one result answers with a redirect. Raises SystemExit otherwise."""
        answer = self._http.get(self._url + address, allow_redirects=False, timeout=120)
        if answer.status_code not in (200, 302) or "/login" in answer.headers.get("Location", ""):
            raise SystemExit(f"{address} answers {answer.status_code}")
        return answer

    def decide(self, approval: str) -> requests.Response:
        """Approve, with the digest that the page shows. Raises SystemExit if it is refused."""
        address = f"{_APPROVALS}{approval}/change/"
        fields = dict(_HIDDEN.findall(self.get(address).text))
        fields |= {"decision": "approve", "comment": "As planned."}
        answer = self._http.post(
            self._url + address, fields, headers={"Referer": self._url}, allow_redirects=False, timeout=120
        )
        if answer.status_code != 302:
            raise SystemExit(f"a decision answers {answer.status_code}")
        return answer


def main() -> int:
    """Fill a database and measure its pages."""
    figures = Figures()
    port = free_port()
    with server.opened("bench", DJANGO_SETTINGS_MODULE="bench.pages.settings") as on:
        print("== filling the database", flush=True)
        there: dict[str, Any] = json.loads(on.run("-m", "bench.pages.fill", str(_DECISIONS * ROUNDS)))
        with psycopg.connect(on.running.urls.owner, autocommit=True) as owner:
            owner.execute("vacuum analyze")
        command = ["/bin/sh", "-c", f"exec {sys.executable} -m config.web --port {port}"]
        url = f"http://127.0.0.1:{port}"
        with server.processes(on, {"web": command}, answers=f"{url}/health/"):
            approver, approvals = Approver(url, there["session"]), iter(there["approvals"])
            for _ in range(ROUNDS):
                _round(approver, there, list(islice(approvals, _DECISIONS)), figures)
    figures.tell(*(f"{kind}_ratio" for kind in _KINDS), *(f"{kind}_ms" for kind in ("stock", *_KINDS)))
    return 0


def _round(approver: Approver, there: dict[str, Any], approvals: list[str], figures: Figures) -> None:
    campaigns = [f"/admin/campaigns/campaign/{campaign}/change/" for campaign in there["campaigns"]]
    searches = [f"/admin/find/?q={quote(reference)}" for reference in there["references"]]
    pages = {
        "queue": [_APPROVALS, f"{_APPROVALS}?view=team"],
        "today": ["/admin/"],
        "search": searches,
        "campaign": campaigns,
    }
    stock: list[float] = []
    for kind, addresses in pages.items():
        for address in addresses:  # warm up
            approver.get(address)
        _measure(approver, kind, approver.get, islice(cycle(addresses), _REQUESTS), stock, figures)
    _measure(approver, "decide", approver.decide, iter(approvals), stock, figures)
    figures.add("stock_ms", _p95(stock))


def _measure(
    approver: Approver,
    kind: str,
    act: Callable[[str], requests.Response],
    addresses: Iterator[str],
    stock: list[float],
    figures: Figures,
) -> None:
    ours, beside = [], []
    for address in addresses:
        ours.append(float(act(address).headers[_HEADER]))
        beside.append(float(approver.get("/stock/orders/deal/").headers[_HEADER]))
    stock += beside
    figures.add(f"{kind}_ms", _p95(ours))
    figures.add(f"{kind}_ratio", _p95(ours) / _p95(beside))


def _p95(milliseconds: list[float]) -> float:
    ranked = sorted(milliseconds)
    return ranked[-(-95 * len(ranked) // 100) - 1]


if __name__ == "__main__":
    sys.exit(main())
