"""Pages and decisions on a database that was worked in for years: `make bench-pages`; ROUNDS=1 for a look.

On a private embedded PostgreSQL (fsync and synchronous_commit on) with 1,000,000 deals, 5,000,000 audit
entries and 50,000 open approvals, made once and used by all rounds. People who are logged in ask the web
process as it is delivered (uvicorn), one request at a time; what is told is the 95th percentile of what each
took at the server, from the request as Django has it to the whole answer:

- `queue_ms`: the approvals queue, one's own and the team's, of somebody who sees all of it and of somebody
  whose team has little in it; `dashboard_ms`: today, for both;
- `search_ms`: what somebody quotes (our reference, a seller's media buy), looked for;
- `campaign_ms`: a campaign's page with ten deals, waiting, booking or over;
- `decide_ms`: approving on the approval's page;
- `max_queries`: the most queries that one of these took.

Prints a table of min / median / max over the rounds and one JSON line.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time

from bench.pages import asking, stage
from config.processes import ProcessError, interruptible

ROUNDS = 3
WANTED_MS, WANTED_QUERIES = 300, 25
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
    medians = {f"{kind}_ms": round(statistics.median(figures[f"{kind}_ms"]), 1) for kind in KINDS}
    most = max(int(max(figures[f"{kind}_queries"])) for kind in KINDS)
    print(json.dumps({**medians, "max_queries": most, **counts}))
    return 0


def _round(on: stage.Stage, number: int, figures: dict[str, list[float]]) -> None:
    found = asking.looked(on)
    found["decide"] = asking.decided(on, asking.share(on, number))
    for kind in KINDS:
        taken = found[kind]
        figures.setdefault(f"{kind}_ms", []).append(taken.p95)
        figures.setdefault(f"{kind}_median_ms", []).append(statistics.median(taken.milliseconds))
        figures.setdefault(f"{kind}_queries", []).append(taken.queries)
        print(
            f"   round {number + 1}: {kind:<10} p95 {taken.p95:>8,.1f} ms, {taken.queries:>3} queries;"
            f" slowest {max(taken.milliseconds):,.0f} ms: {taken.slowest}",
            flush=True,
        )


def _table(figures: dict[str, list[float]]) -> None:
    print(f"\n{'':<22}{'min':>10}{'median':>10}{'max':>10}   wanted")
    for name, values in figures.items():
        wanted = WANTED_QUERIES if name.endswith("_queries") else WANTED_MS
        told = "".join(f"{value:>10,.1f}" for value in (min(values), statistics.median(values), max(values)))
        print(f"{name:<22}{told}   {'' if 'median' in name else f'at most {wanted}'}")


if __name__ == "__main__":
    sys.exit(main())
