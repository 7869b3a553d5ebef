"""`make bench-operations`: webhooks taken, operations polled, pages and webhooks among strangers, bodies made
to be dear and logins that end, each beside its reference; ratios with their limits, and one line of JSON.

Source of the conventions: bench.transitions. Each part also runs alone; ROUNDS=1 for a look.
"""

from __future__ import annotations

import json
import os
import sys

from bench import ratios
from bench.bounds import bounds
from bench.flood import flood
from bench.operations_polls import polls
from bench.operations_webhooks import webhooks


def main() -> int:
    """All parts, one after the other: they want the whole machine."""
    rounds = int(os.environ.get("ROUNDS") or 3)
    told: dict[str, float] = {}
    for part in (webhooks, polls, flood, bounds):
        told |= part(rounds=rounds)
    print(ratios.table(told))
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
