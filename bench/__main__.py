"""`make bench`: every bench that has ratios, one after the other, and whether each ratio holds its limit.

`python -m bench [transitions operations jobs pages]`; ROUNDS as for each of them. Each wants the whole
machine. Ends with 1 where a ratio does not hold, or a bench that was asked for did not come to its end.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from bench import ratios
from config.supervisor import BASE_DIR

BENCHES = ("transitions", "operations", "jobs", "pages")


def main() -> int:
    parser = argparse.ArgumentParser(description="Benches, and whether their ratios hold.")
    parser.add_argument("only", nargs="*", help="these alone")
    wanted = parser.parse_args().only or BENCHES
    if unknown := set(wanted) - set(BENCHES):
        parser.error(f"no bench is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    told: dict[str, float] = {}
    failed = []
    for name in wanted:
        print(f"\n=== {name}", flush=True)
        found = _told(name)
        told |= found
        failed += [] if found else [name]
    print(f"\n{ratios.table(told)}")
    for name in failed:
        print(f"{name}: ended without its figures")
    return 1 if failed or ratios.broken(told) else 0


def _told(name: str) -> dict[str, float]:
    """What a bench's last line tells, the rest passed on as it comes; nothing where it failed."""
    command = [sys.executable, "-m", f"bench.{name}"]
    last = ""
    with subprocess.Popen(command, cwd=BASE_DIR, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            last = line
    if process.returncode != 0:
        return {}
    found: dict[str, float] = json.loads(last)
    return found


if __name__ == "__main__":
    sys.exit(main())
