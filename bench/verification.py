"""Verifies the whole trail of deals and says how fast; for `bench.transitions`, in a process of its own."""

from __future__ import annotations

import json
import resource
import sys
import time

from bench.parties import django_ours


def main() -> int:
    django_ours()
    from tasks_app.lifecycle.verify import verify_all

    began = time.perf_counter()
    entries = broken = 0
    for _, verification in verify_all("deal"):
        entries += verification.entries
        broken += not verification.ok
    seconds = time.perf_counter() - began
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
    print(json.dumps({"entries": entries, "seconds": seconds, "rss_mb": rss, "broken": broken}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
