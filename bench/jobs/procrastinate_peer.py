"""Procrastinate, as its documentation advises for throughput: coroutines, and jobs deferred in one batch.

`start` puts chains in, `work` is a worker. A step defers the next one before it ends.
"""

from __future__ import annotations

import os
import sys

import procrastinate
import psycopg

from bench import child
from bench.jobs.marks import CHAIN, mark

_URL = os.environ["PEER_DATABASE_URL"]
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=_URL))


@app.task(name="step")
async def step(number: int) -> None:
    """Note the time and defer the next step."""
    mark()
    if number + 1 < CHAIN:
        await step.defer_async(number=number + 1)


def start(jobs: int) -> None:
    """Put so many chains in."""
    with app.open():
        first: dict[str, procrastinate.types.JSONValue] = {"number": 0}
        step.batch_defer(*[first] * jobs)


def schema() -> None:
    """Create the tables if they are missing."""
    with psycopg.connect(_URL) as connection:
        row = connection.execute("select to_regclass('procrastinate_jobs')").fetchone()
    if row == (None,):
        with app.open():
            app.schema_manager.apply_schema()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        app.run_worker()
    else:
        schema()
        child.serve({"start": start, "ended": lambda: None})
