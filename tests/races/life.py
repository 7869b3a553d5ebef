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
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tests.commands.running import ROOT


class Life:
    """One such process, begun at once; reaped at the block's end."""

    def __init__(self, action: str, argument: object, *, until: str = "-", env: dict[str, str] | None = None):
        command = [sys.executable, "-m", "tests.races.life", action, until]
        environment = {**os.environ, **(env or {})}
        self._process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE)
        assert self._process.stdin is not None
        with self._process.stdin as pipe:
            pickle.dump(argument, pipe)

    def __enter__(self) -> Life:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def killed(self) -> bool:
        """Whether its end was SIGKILL, at its point; waits for it."""
        return self._process.wait(60) == -signal.SIGKILL

    def done(self) -> bool:
        """Whether it got through alive; waits for it."""
        return self._process.wait(60) == 0


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


async def _die_async(*_: object, **__: object) -> None:
    die()


def _instead(module: ModuleType, name: str, end: Callable[..., Any] = die) -> None:
    """Die where `name` of `module` would be called."""
    setattr(module, name, end)


def _after(module: ModuleType, name: str) -> None:
    """Die when `name` of `module` is through."""
    done = getattr(module, name)

    def last(*given: Any, **named: Any) -> None:
        done(*given, **named)
        die()

    setattr(module, name, last)


def _before_send() -> None:
    """`calling_adcp` is durable, no byte has left."""
    from tasks_app.operations import dispatch

    _instead(dispatch.client, "call", _die_async)


def _before_observe() -> None:
    """The seller's answer is in hand, nothing of it is written."""
    from tasks_app.operations import dispatch

    _instead(dispatch, "_finish")


def _before_observe_poll() -> None:
    from tasks_app.operations import dispatch

    finish = dispatch._finish
    dispatch._finish = lambda call, seen: die() if call.channel == "poll" else finish(call, seen)


def _in_observe() -> None:
    """Observation and transition are written, and not committed."""
    from tasks_app.operations import converge

    _after(converge, "_apply")


def _before_publish() -> None:
    """The end is durable, nobody was told."""
    from tasks_app.operations import publish
    from tasks_app.operations.models import Operation

    publish_now = publish.publish

    def doomed(*, operation_id: Any) -> bool:
        ended = Operation.objects.filter(pk=operation_id, settled_at__isnull=False)
        return die() if ended.exists() else publish_now(operation_id=operation_id)

    publish.publish = doomed


def _in_publish() -> None:
    """Every listener has had its effect, and nothing is committed."""
    from tasks_app.operations import publish

    publish._listeners.append(die)


def _before_wake() -> None:
    """The effects are committed, the waiting step's worker was not woken."""
    from tasks_app.jobs import wake
    from tasks_app.operations.models import Operation

    enqueue = wake._enqueue

    def doomed() -> None:
        die() if Operation.objects.filter(published_at__isnull=False).exists() else enqueue()

    wake._enqueue = doomed


def _before_bound() -> None:
    """The seller's task is known, deliveries that waited for it were not looked for."""
    from tasks_app.operations import converge

    converge._bound.insert(0, die)


POINTS: dict[str, Callable[[], None]] = {
    "before_send": _before_send,
    "before_observe": _before_observe,
    "before_observe_poll": _before_observe_poll,
    "in_observe": _in_observe,
    "before_publish": _before_publish,
    "in_publish": _in_publish,
    "before_wake": _before_wake,
    "before_bound": _before_bound,
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
