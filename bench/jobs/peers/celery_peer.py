"""Celery on Redis: the app of `celery worker`; `python -m bench.jobs.peers.celery_peer` puts chains in.

Set up for many short tasks as its optimizing guide says: results ignored, a long prefetch. Redis keeps
everything in memory; nothing is durable.
"""

from __future__ import annotations

import os

from celery import Celery, chain

from bench.jobs import CHAIN, marks, orders

app = Celery("bench", broker=os.environ["PEER_BROKER_URL"])
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=128,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="step")
def step(number: int) -> None:
    marks.mark()


def put(jobs: int) -> None:
    """All at once: nobody consumes meanwhile."""
    app.control.cancel_consumer("celery", reply=True)
    for _ in range(jobs):
        chain(step.si(number) for number in range(CHAIN)).apply_async()
    app.control.add_consumer("celery", reply=True)


if __name__ == "__main__":
    orders.serve({"chain": put})
