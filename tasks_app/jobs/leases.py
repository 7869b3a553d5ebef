"""A step's lease is renewed while its action runs: by one thread of the process, however many it runs."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import structlog
from django.conf import settings
from django.db import close_old_connections, connection

from tasks_app import stopping
from tasks_app.jobs.claims import renew_lease
from tasks_app.jobs.models import Step

log = structlog.get_logger(__name__)


class _Keeper:
    """Looks three times in a lease, so that a step held for less costs nothing."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._next = 0.0  # when it looks again, monotonic
        self._held: dict[uuid.UUID, Step] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def holding(self, step: Step) -> Iterator[None]:
        with self._turn:
            self._held[step.pk] = step
            if self._next > time.monotonic() + settings.STEP_LEASE_S / 3:
                self._turn.notify()  # it sleeps longer than this lease allows
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="leases", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._turn:
                self._held.pop(step.pk, None)

    def _keep(self) -> None:
        while True:
            with self._turn:
                pause = settings.STEP_LEASE_S / 3
                self._next = time.monotonic() + pause
                self._turn.wait(pause)
                held = list(self._held.values())
            # Asked to stop, it lets them run out: what this process does not end meanwhile is another's.
            if held and not stopping.asked():
                self._renew(held)

    def _renew(self, held: list[Step]) -> None:
        try:
            close_old_connections()
            for step in held:
                renew_lease(step)
        except Exception as error:  # whatever it was, the next look may find it gone
            log.warning("leases_not_renewed", steps=len(held), error=str(error))
        finally:
            connection.close()  # the next look is far away


_keeper = _Keeper()


def lease_kept(step: Step) -> AbstractContextManager[None]:
    """Within the block the step's lease is renewed from another thread, on a connection of that thread's."""
    return _keeper.holding(step)


def _after_fork() -> None:
    global _keeper
    _keeper = _Keeper()  # the parent's thread did not come along


os.register_at_fork(after_in_child=_after_fork)
