"""How long web and workers take to start, and what they hold in memory: `make bench-footprint`.

Each is started three times on the embedded PostgreSQL. Memory is resident (RSS) for the web process, and
proportional (PSS, shared pages counted once) for the worker cluster, after it has run for a while. Prints a
table of min / median / max and one JSON line.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import requests

from bench import memory
from config import postgres
from config.processes import ProcessGroup
from config.supervisor import BASE_DIR, child_environment, migrate, procfile
from demo.ports import free_port

ROUNDS = 3
_SETTLED_S = 5.0
_CLUSTER = 6  # processes: sentinel, pusher, monitor, three workers
_LIMIT_S = 60


def main() -> int:
    figures: dict[str, list[float]] = {}
    with postgres.opened(BASE_DIR, {}) as urls:
        env = {**child_environment(urls), "FLIGHTDECK_LOG_LEVEL": "WARNING"}
        migrate(env)
        for _ in range(ROUNDS):
            for name, value in {**web(env), **worker(env)}.items():
                figures.setdefault(name, []).append(value)
    for name, values in figures.items():
        print(f"{name:<16} {min(values):8.2f} {statistics.median(values):8.2f} {max(values):8.2f}")
    print(json.dumps({name: round(statistics.median(values), 2) for name, values in figures.items()}))
    return 0


def web(env: dict[str, str]) -> dict[str, float]:
    """Seconds to the first 200, and the web process's resident megabytes after its first pages."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with Path(os.devnull).open("w") as nowhere, ProcessGroup(output=nowhere) as group:
        began = time.monotonic()
        pid = group.start("web", procfile()["web"], env={**env, "PORT": str(port)}, cwd=BASE_DIR)
        _until(group, lambda: _ok(f"{url}/health/"))
        took = time.monotonic() - began
        for _ in range(20):
            requests.get(f"{url}/admin/login/", timeout=10)
            requests.get(f"{url}/api/schema/", timeout=30)
        return {"web_start_s": took, "web_rss_mb": memory.tree_mb(pid, memory.resident)}


def worker(env: dict[str, str]) -> dict[str, float]:
    """Seconds until every process of the cluster is up, and their proportional megabytes together."""
    with Path(os.devnull).open("w") as nowhere, ProcessGroup(output=nowhere) as group:
        began = time.monotonic()
        pid = group.start("worker", procfile()["worker"], env=env, cwd=BASE_DIR)
        _until(group, lambda: len(memory.processes(pid)) >= _CLUSTER)
        took = time.monotonic() - began
        group.wait(timeout_s=_SETTLED_S)
        return {"worker_start_s": took, "worker_pss_mb": memory.tree_mb(pid, memory.proportional)}


def _until(group: ProcessGroup, condition: Callable[[], bool]) -> None:
    if not group.wait(condition, timeout_s=_LIMIT_S):
        raise SystemExit("it did not start in time")


def _ok(url: str) -> bool:
    try:
        return requests.get(url, timeout=2).ok
    except requests.RequestException:
        return False


if __name__ == "__main__":
    sys.exit(main())
