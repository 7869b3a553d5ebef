"""Procrastinate: `python -m bench.jobs.peers.procrastinate_peer (schema|worker|put)`.

A step defers the next one before it ends, which is how its tasks are chained. Tasks are coroutines, as its
documentation advises for throughput, and jobs are put in by `batch_defer`.
"""

from __future__ import annotations

import os
import sys

import procrastinate

from bench.jobs import CHAIN, marks, orders

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["PEER_DATABASE_URL"]))


@app.task(name="step")
async def step(number: int) -> None:
    marks.mark()
    if number + 1 < CHAIN:
        await step.defer_async(number=number + 1)


def put(jobs: int) -> None:
    with app.open():
        step.batch_defer(*({"number": 0} for _ in range(jobs)))


def schema() -> None:
    with app.open():
        app.schema_manager.apply_schema()


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        app.run_worker(concurrency=1)
    elif sys.argv[1] == "schema":
        schema()
    else:
        orders.serve({"chain": put})
