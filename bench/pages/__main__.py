"""Pages and decisions on a database that was worked in for years: `make bench-pages`; ROUNDS=1 for a look.

On a private embedded PostgreSQL (fsync and synchronous_commit on) with 1,000,000 deals, 5,000,000 audit
entries and 50,000 open approvals, filled once and kept. People who are logged in ask the web process as it is
delivered (uvicorn), one request at a time, and after each the list of 25 deals that a stock ModelAdmin makes
in the same process (`stock.py`). A ratio is the 95th percentile of what ours took at the server, from the
request as Django has it to the whole answer, to that of the stock lists between them:

- `queue_ratio`: the approvals queue, one's own and the team's, of somebody who sees all of it and of somebody
  whose team has little in it; `dashboard_ratio`: today, for both;
- `search_ratio`: what somebody quotes (our reference, a seller's media buy), looked for;
- `campaign_ratio`: a campaign's page with ten deals, waiting, booking or over;
- `decide_ratio`: approving on the approval's page;
- `max_queries`: the most queries that one of these took.

The same in milliseconds (`queue_ms`, …) and the stock list's own are trends. Prints a table of min / median /
max over the rounds, the ratios with their limits, and one JSON line.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time

from bench import ratios
from bench.pages import asking, stage
from bench.pages.asking import Taken
from config.processes import ProcessError, interruptible

ROUNDS = 3
KINDS = ("queue", "dashboard", "search", "campaign", "decide")


def main() -> int:
    rounds = int(os.environ.get("ROUNDS") or ROUNDS)
    figures: dict[str, list[float]] = {}
    began = time.monotonic()
    try:
        with interruptible(), stage.opened(rounds) as on:
            print(f"== {on.words}; {os.cpu_count()} cores, Python {sys.version.split()[0]}", flush=True)
            for number in range(rounds):
                _round(on, number, figures)
            counts = on.counts
    except KeyboardInterrupt:
        return 130
    except ProcessError as error:
        print(f"bench: {error}; see var/{stage.NAME}.log", file=sys.stderr)
        return 1
    _table(figures)
    print(f"{time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}")
    medians = {name: statistics.median(values) for name, values in figures.items()}
    told = {f"{kind}_ratio": round(medians[f"{kind}_ratio"], 2) for kind in KINDS}
    print(ratios.table(told))
    trends = {f"{kind}_ms": round(medians[f"{kind}_ms"], 1) for kind in ("stock", *KINDS)}
    most = max(int(max(figures[f"{kind}_queries"])) for kind in KINDS)
    print(json.dumps({**told, **trends, "max_queries": most, **counts}))
    return 0


def _round(on: stage.Stage, number: int, figures: dict[str, list[float]]) -> None:
    found = asking.looked(on)
    found["decide"] = asking.decided(on, asking.share(on, number))
    beside = Taken(milliseconds=[ms for taken in found.values() for ms in taken.stock])
    figures.setdefault("stock_ms", []).append(beside.p95)
    for kind in KINDS:
        taken = found[kind]
        figures.setdefault(f"{kind}_ratio", []).append(taken.ratio)
        figures.setdefault(f"{kind}_ms", []).append(taken.p95)
        figures.setdefault(f"{kind}_median_ms", []).append(statistics.median(taken.milliseconds))
        figures.setdefault(f"{kind}_queries", []).append(taken.queries)
        print(
            f"   round {number + 1}: {kind:<10}p95 {taken.p95:>8,.1f} ms, {taken.ratio:>6.2f} of stock’s,"
            f" {taken.queries:>3} queries;"
            f" slowest {max(taken.milliseconds):,.0f} ms: {taken.slowest}",
            flush=True,
        )


def _table(figures: dict[str, list[float]]) -> None:
    print(f"\n{'':<22}{'min':>10}{'median':>10}{'max':>10}")
    for name, values in figures.items():
        told = "".join(f"{value:>10,.2f}" for value in (min(values), statistics.median(values), max(values)))
        print(f"{name:<22}{told}")


if __name__ == "__main__":
    sys.exit(main())
