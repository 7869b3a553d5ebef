"""Procrastinate: `python -m bench.jobs.peers.procrastinate_peer (schema|worker|put)`.

A step defers the next one before it ends, which is how its tasks are chained. Tasks are coroutines, as its
documentation advises for throughput, and jobs are put in by `batch_defer`. It has no step that waits for
many: who needs one counts down in a row of his own, as here.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

import procrastinate
import psycopg

from bench.jobs import CHAIN, NAP_S, marks, orders

_URL = os.environ["PEER_DATABASE_URL"]
_FANS = """create table bench_fan (
    id bigint generated always as identity primary key, open int not null, ended_at timestamptz)"""
_COUNT_DOWN = """update bench_fan set open = open - 1,
    ended_at = case when open = 1 then clock_timestamp() end where id = %(fan)s"""
_LOOK_AGAIN_S = 0.001
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=_URL))


@app.task(name="step")
async def step(number: int) -> None:
    marks.mark()
    if number + 1 < CHAIN:
        await step.defer_async(number=number + 1)


@app.task(name="nap")
async def nap(fan: int) -> None:
    """One of a fan-out; the last one ends it."""
    marks.mark()
    await asyncio.sleep(NAP_S)
    await app.connector.execute_query_async(_COUNT_DOWN, fan=fan)


def put(jobs: int) -> None:
    with app.open():
        _all(step, jobs, number=0)


def _all(task: Any, times: int, **arguments: int) -> None:
    task.batch_defer(*[arguments] * times)


def fanout(items: int) -> orders.Answer:
    """Milliseconds from the call that puts so many in to the end of the last."""
    with psycopg.connect(_URL, autocommit=True) as own, app.open():
        began = time.time()
        (fan,) = _one(own, "insert into bench_fan (open) values (%s) returning id", items)
        _all(nap, items, fan=fan)
        ended = None
        while ended is None:
            time.sleep(_LOOK_AGAIN_S)
            (ended,) = _one(own, "select extract(epoch from ended_at) from bench_fan where id = %s", fan)
        return {"ms": 1000 * (float(ended) - began)}


def wakeups(times: int) -> orders.Answer:
    """Single jobs: see `marks.wakeups`. Deferred on a connection of our own, as its documentation says for a
    job that belongs to a transaction."""
    ended = "select from procrastinate_jobs where status in ('todo', 'doing') limit 1"
    with psycopg.connect(_URL, autocommit=True) as own, app.open():
        single = step.configure(connection=own)

        def start() -> float:
            with own.transaction():
                single.defer(number=CHAIN - 1)
                return time.time()

        def settled() -> None:
            while own.execute(ended).fetchone() is not None:
                time.sleep(_LOOK_AGAIN_S)

        return marks.wakeups(times, start, settled)


def _one(own: psycopg.Connection, query: str, value: object) -> Any:
    return own.execute(query.encode(), [value]).fetchone()


def schema() -> None:
    with app.open():
        app.schema_manager.apply_schema()
    with psycopg.connect(_URL) as own:
        own.execute(_FANS)


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        app.run_worker(concurrency=int(os.environ.get("BENCH_ASIDE", "1")))
    elif sys.argv[1] == "schema":
        schema()
    else:
        orders.serve({"chain": put, "fanout": fanout, "wakeups": wakeups})
