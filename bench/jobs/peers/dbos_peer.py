"""One DBOS worker: `python -m bench.jobs.peers.dbos_peer NUMBER`, told how many workflows to run.

Workflows are called in the process that runs them, the fastest way DBOS has: its queues add their own
polling. What several processes share is a queue, as its documentation has it, asked as often as pays here.
Each step is a checkpoint in PostgreSQL.
"""

from __future__ import annotations

import os
import sys
import time

from dbos import DBOS, Queue

from bench.jobs import CHAIN, NAP_S, marks, orders

_POLL_S = 0.01
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


@DBOS.step()
def nap(number: int) -> int:
    marks.mark()
    time.sleep(NAP_S)
    return number


@DBOS.workflow()
def napping(number: int) -> int:
    return nap(number)


@DBOS.workflow()
def fan(items: int) -> int:
    queue = _queue()
    waiting = [queue.enqueue(napping, number) for number in range(items)]
    return sum(one.get_result(polling_interval_sec=_POLL_S) for one in waiting)


def run(jobs: int) -> None:
    for _ in range(jobs):
        chain()


def _queue() -> Queue:
    """Shared by all processes, one step at a time in each, or as many as the bench wants."""
    aside = int(os.environ.get("BENCH_ASIDE", "1"))
    return DBOS.register_queue("naps", worker_concurrency=aside, polling_interval_sec=_POLL_S)


def share() -> None:
    """From now on take part in fan-outs."""
    _queue()


def fanout(items: int) -> orders.Answer:
    """Milliseconds from the call of a workflow that fans out to its result."""
    began = time.time()
    fan(items)
    return {"ms": 1000 * (time.time() - began)}


if __name__ == "__main__":
    DBOS.launch()
    orders.serve({"chain": run, "share": share, "fanout": fanout})
