"""One DBOS worker: `python -m bench.jobs.peers.dbos_peer NUMBER`, told how many workflows to run.

Workflows are called in the process that runs them, the fastest way DBOS has: its queues add their own
polling. Each step is a checkpoint in PostgreSQL.
"""

from __future__ import annotations

import os
import sys

from dbos import DBOS

from bench.jobs import CHAIN, marks, orders

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
    marks.mark()
    return number


@DBOS.workflow()
def chain() -> int:
    return sum(step(number) for number in range(CHAIN))


def run(jobs: int) -> None:
    for _ in range(jobs):
        chain()


if __name__ == "__main__":
    DBOS.launch()
    orders.serve({"chain": run})
