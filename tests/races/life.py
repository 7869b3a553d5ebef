"""A process that does one thing of the application and is killed, with SIGKILL, at a named point of it.

`python -m tests.races.life ACTION POINT`, the action's argument pickled on standard input. POINT "-": it is
killed by nobody.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from tests.commands.running import ROOT
from tests.support import transactions_over


class Life:
    """One such process, begun at once; reaped at the block's end."""

    def __init__(self, action: str, argument: object, *, until: str = "-", env: dict[str, str] | None = None):
        command = [sys.executable, "-m", "tests.races.life", action, until]
        environment = {**os.environ, **(env or {})}
        given = pickle.dumps(argument)
        self._process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE)
        assert self._process.stdin is not None
        try:
            with self._process.stdin as pipe:
                pipe.write(given)
        except BaseException:  # no block's end kills what did not begin
            self.kill()
            raise

    def __enter__(self) -> Life:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def killed(self) -> bool:
        """Whether its end was SIGKILL, at its point; waits for it, and until the database knows of it."""
        ended = self._process.wait(180)
        transactions_over()
        return ended == -signal.SIGKILL

    def done(self) -> bool:
        """Whether it got through alive; waits for it."""
        return self._process.wait(180) == 0


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    from tasks_app.operations.publish import on_settled
    from tests.races.racer import count_effect

    on_settled(count_effect)
    action, point = sys.argv[1:3]
    if point != "-":
        POINTS[point]()
    ACTIONS[action](pickle.load(sys.stdin.buffer))  # noqa: S301 (our own test wrote it)


def die(*_: object, **__: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _before_send() -> None:
    """`calling_adcp` is durable, no byte has left."""
    from tasks_app.adcp import client

    async def doomed(*_: Any, **__: Any) -> None:
        die()

    client.call = doomed


def _before_observe(tools: Collection[str] = ("create_media_buy",)) -> None:
    """The seller's answer is in hand, nothing of it is written."""
    from tasks_app.adcp import client

    call = client.call

    async def doomed(endpoint: Any, tool: str, *given: Any, **named: Any) -> Any:
        seen = await call(endpoint, tool, *given, **named)
        return die() if tool in tools else seen

    client.call = doomed


def _in_observe() -> None:
    """Observation and transition are written, and not committed."""
    _at_commit(_OBSERVED, before=die)


def _observed() -> None:
    """What was seen is durable, and nothing has followed from it."""
    _at_commit(_OBSERVED, after=die)


def _before_publish() -> None:
    """The end is durable, nobody was told."""
    import psycopg

    def judge() -> None:
        # On a connection of its own: Django's is still within its block.
        with psycopg.connect(os.environ["DATABASE_URL"]) as watcher:
            ended = "select from tasks_app_operation where settled_at is not null"
            if watcher.execute(ended).rowcount:
                die()

    _at_commit(_OBSERVED, after=judge)


def _in_publish() -> None:
    """Every listener has had its effect, and nothing is committed."""
    from tasks_app.operations.publish import on_settled

    on_settled(die, tells=True)


def _before_wake() -> None:
    """The effects are committed, the waiting step's worker was not woken."""
    _at_commit(_PUBLISHED, after=die)


_OBSERVED = 'INSERT INTO "tasks_app_observation"'
_PUBLISHED = 'UPDATE "tasks_app_operation" SET "published_at"'


def _nothing() -> None: ...


def _at_commit(
    statement: str, *, before: Callable[[], Any] = _nothing, after: Callable[[], Any] = _nothing
) -> None:
    """Do this before, or after, each commit of a transaction that made such a statement. What Django does
    once a commit is durable (`on_commit`) comes later than `after`."""
    from django.db.backends.signals import connection_created

    def watch(connection: Any, **_: Any) -> None:
        made: list[str] = []
        commit = connection._commit

        def note(execute: Callable[..., Any], sql: str, *given: Any) -> Any:
            made.extend([sql] * sql.startswith(statement))
            return execute(sql, *given)

        def watched() -> None:
            ours = bool(made)
            made.clear()
            if ours:
                before()
            commit()
            if ours:
                after()

        connection.execute_wrappers.append(note)
        connection._commit = watched

    connection_created.connect(watch, weak=False)


POINTS: dict[str, Callable[[], None]] = {
    "before_send": _before_send,
    "before_observe": _before_observe,
    "before_observe_poll": partial(_before_observe, ("get_task_status",)),
    "in_observe": _in_observe,
    "observed": _observed,
    "before_publish": _before_publish,
    "in_publish": _in_publish,
    "before_wake": _before_wake,
}


def publish(operation_id: Any) -> None:
    from tasks_app.operations.publish import publish as publish_now

    publish_now(operation_id=operation_id)


def act(one: Any) -> None:
    from tests.races.racer import do

    do(one)


def work(job_id: Any) -> None:
    """What a worker does, until this job has ended."""
    from tasks_app.jobs.models import JOB_ENDED, Job
    from tasks_app.jobs.worker import drain
    from tasks_app.operations.sweep import sweep_once

    pause = threading.Event()
    while Job.objects.get(pk=job_id).status not in JOB_ENDED:
        drain()
        asyncio.run(sweep_once())
        pause.wait(0.05)


ACTIONS: dict[str, Callable[[Any], None]] = {
    "publish": publish,
    "receive": act,
    "observe": act,
    "work": work,
}

if __name__ == "__main__":
    main()
