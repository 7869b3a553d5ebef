"""`make bench`: every bench, whether each ratio is within its bound, and docs/measurements.md.

`python -m bench [bookings transitions jobs operations pages]`. Ends with 1 if a ratio is out of bounds or a
bench failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from datetime import UTC, datetime

from bench import figures
from config.supervisor import BASE_DIR

_BENCHES = ("bookings", "transitions", "jobs", "operations", "pages")
_PAGE = BASE_DIR / "docs" / "measurements.md"
_HEAD = """# Measurements

`make bench` wrote this table on {date}, at commit `{commit}`, on {cores} cores. Machines differ threefold
from day to day, so only ratios have bounds: both sides are measured in one run. Other figures describe this
machine. `bench/` has the code; the docstring of each bench says how it measures.

| Figure | Measured | Bound | |
|---|---|---|---|
"""


def main() -> int:
    """Run the benches that were asked for."""
    parser = argparse.ArgumentParser(description="Benches, and whether their ratios are within bounds.")
    parser.add_argument("only", nargs="*", help="these alone; docs/measurements.md stays as it is then")
    wanted = parser.parse_args().only or _BENCHES
    if unknown := set(wanted) - set(_BENCHES):
        parser.error(f"no bench is called {', '.join(sorted(unknown))}; there are {', '.join(_BENCHES)}")
    results: dict[str, float] = {}
    failed = []
    for name in wanted:
        print(f"\n=== {name}", flush=True)
        found = _run_bench(name)
        results |= found
        failed += [] if found else [name]
    print(f"\n{figures.table(results)}")
    if not failed and wanted == _BENCHES:
        _PAGE.write_text(_page(results), encoding="utf-8")
    for name in failed:
        print(f"{name} failed")
    return 1 if failed or figures.broken(results) else 0


def _run_bench(name: str) -> dict[str, float]:
    """Run a bench and return its last line; nothing if it failed."""
    env = {**os.environ, "BRIEFS": os.environ.get("BRIEFS") or "10"}
    command = [sys.executable, "-m", f"bench.{name}"]
    last = ""
    with subprocess.Popen(command, cwd=BASE_DIR, env=env, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            last = line
    found: dict[str, float] = json.loads(last) if process.returncode == 0 else {}
    return found


def _page(results: dict[str, float]) -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=BASE_DIR, check=True, capture_output=True, text=True
    ).stdout.strip()
    lines = [
        f"| `{name}` | {value:,.2f} | {figures.BOUNDS.get(name, '')} |"
        f" {figures.BOUNDS[name].what if name in figures.BOUNDS else ''} |"
        for name, value in results.items()
    ]
    head = _HEAD.format(date=f"{datetime.now(UTC):%Y-%m-%d}", commit=commit, cores=os.cpu_count())
    return head + "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
