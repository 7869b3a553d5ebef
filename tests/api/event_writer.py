"""A process that writes events of one job, each in a transaction of its own that stays open for a moment."""

from __future__ import annotations

import random
import sys
from datetime import UTC, datetime

import psycopg

_INSERT = """
insert into tasks_app_workflowevent (job_id, type, source, payload, correlation, idempotency_key, at)
values (%s, %s, 'test', '{}', '{}', %s, %s)
"""


def main(url: str, job: str, count: str, name: str) -> None:
    chance = random.Random(name)  # noqa: S311 (no secret)
    with psycopg.connect(url, autocommit=True) as connection:
        for number in range(int(count)):
            with connection.transaction():
                kind = f"{name}-{number}"
                connection.execute(_INSERT, [job, kind, f"{kind}:{job}", datetime.now(UTC)])
                connection.execute("select pg_sleep(%s)", [chance.random() / 200])


if __name__ == "__main__":
    main(*sys.argv[1:])
