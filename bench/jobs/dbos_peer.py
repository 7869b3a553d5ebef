"""One DBOS process. It calls its workflows itself, which is faster than DBOS's queues."""

from __future__ import annotations

import os
import sys

from dbos import DBOS

from bench import child
from bench.jobs.marks import CHAIN, mark

DBOS(
    config={
        "name": "bench",
        "system_database_url": os.environ["PEER_DATABASE_URL"],
        "application_version": "1",
        "executor_id": f"worker-{sys.argv[1]}",
        "log_level": "ERROR",
    }
)


@DBOS.step()
def step(number: int) -> int:
    """Note the time."""
    mark()
    return number


@DBOS.workflow()
def chain() -> int:
    """Run the steps of one chain."""
    return sum(step(number) for number in range(CHAIN))


def start(jobs: int) -> None:
    """Run so many chains."""
    for _ in range(jobs):
        chain()


if __name__ == "__main__":
    DBOS.launch()
    child.serve({"start": start, "ended": lambda: None})
