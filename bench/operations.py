"""`make bench-operations`: webhooks taken and operations polled, each beside its reference; one line of JSON.

Source of the conventions: bench.transitions. Each half also runs alone; ROUNDS=1 for a look.
"""

from __future__ import annotations

import json
import os
import sys

from bench.operations_polls import polls
from bench.operations_webhooks import webhooks


def main() -> int:
    """Both halves, one after the other: they want the whole machine."""
    rounds = int(os.environ.get("ROUNDS") or 3)
    print(json.dumps({**webhooks(rounds=rounds), **polls(rounds=rounds)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
