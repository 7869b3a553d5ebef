"""The relay of a worker cluster: one thread publishes, one per subscriber delivers, each with its own lock.

A subscriber that hangs holds up nobody but itself. The locks belong to connections: what a killed relay held
is free at once, and another process, retrying every turn, takes over.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from tasks_app.events.bus import Subscriber, subscribers
from tasks_app.events.delivery import deliver_from, standing_of
from tasks_app.events.held import deliver_held
from tasks_app.events.publishing import AT_ONCE, Numbered, events_number

log = structlog.get_logger(__name__)
_LOCKS = 0x0F11_E7E5  # the class of our advisory locks; the second key is the errand's
_PUBLISHING = "publishing"  # subscribers' errands are named after them
_PAUSE_S = 1.0  # between turns where nothing is new: retries are due, or another relay has ended


class Relay:
    """`with Relay():` publishes and delivers in threads of this process until the block ends, each errand
    unless another process has it. The end waits for handlers that are still running."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._turns: list[_Turns] = []
        self._news = {one: _News() for one in subscribers()}
        errands: dict[str, Callable[[], None]] = {_PUBLISHING: self._publish}
        errands |= {f"to {one.name}": partial(self._deliver, one) for one in self._news}
        self._threads = [
            threading.Thread(target=errand, name=f"events {name}", daemon=True)
            for name, errand in errands.items()
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for news in self._news.values():
            news.ring()
        for thread in self._threads:
            thread.join()

    def at_work_s(self) -> float:
        """How long the longest of the turns that are being taken has lasted, in seconds."""
        now = time.monotonic()
        return max((now - turns.since for turns in list(self._turns) if turns.since is not None), default=0.0)

    def _turns_of(self, errand: str, work: Callable[[], int]) -> _Turns:
        turns = _Turns(errand, work)
        self._turns.append(turns)
        return turns

    def _publish(self) -> None:
        """Where events come all the time, one numbering a tick is for all of them: who numbers each at once
        wakes everybody for each."""
        turns = self._turns_of(_PUBLISHING, self._number)
        try:
            while not self._stop.is_set():
                numbered = turns.take()
                if numbered != AT_ONCE:
                    self._stop.wait(_PAUSE_S if numbered is None else settings.EVENT_TICK_S)
        finally:
            connection.close()

    def _number(self) -> int:
        numbered = events_number()
        for subscriber, news in self._news.items():
            if _wanted(subscriber, numbered):
                news.ring()
        return numbered.events

    def _deliver(self, subscriber: Subscriber) -> None:
        """Who wants nothing of what is new moves past it once in a pause."""
        turns = self._turns_of(f"to {subscriber.name}", partial(self._turn, subscriber))
        news = self._news[subscriber]
        try:
            while not self._stop.is_set():
                seen = news.count
                if not turns.take():
                    news.wait_beyond(seen)
        finally:
            connection.close()

    def _turn(self, subscriber: Subscriber) -> bool:
        """One look says what is due and what is new. Answers whether there is more to do at once."""
        standing = standing_of(subscriber)
        if standing is None:
            return False
        tried = deliver_held(subscriber, stopped=self._stop.is_set) if standing.due else 0
        moved = deliver_from(subscriber, standing, stopped=self._stop.is_set)
        rest = standing.in_hand_to is not None or standing.position + moved < standing.head
        return tried > 0 or rest


def _wanted(subscriber: Subscriber, numbered: Numbered) -> bool:
    return any(subscriber.wants(event_type) for event_type in numbered.types)


class _Turns:
    """One errand's turns, taken only while this thread's connection holds its lock."""

    def __init__(self, errand: str, work: Callable[[], int]) -> None:
        self._errand, self._work = errand, work
        self._key = zlib.crc32(errand.encode()) - 2**31
        self._held_by: Any = None
        self.since: float | None = None  # when the turn began that is being taken (monotonic seconds)

    def take(self) -> int | None:
        """What the work answered; None where another has the errand, or it went wrong."""
        self.since = time.monotonic()
        try:
            return self._work() if self._held() else None
        except (OperationalError, InterfaceError) as error:
            log.warning("event_relay_database_lost", errand=self._errand, error=str(error))
        except Exception:  # the next turn begins afresh, and finds what this one left
            log.exception("event_relay_turn_failed", errand=self._errand)
        finally:
            self.since = None
        connection.close()
        return None

    def _held(self) -> bool:
        connection.ensure_connection()
        if self._held_by is connection.connection:
            return True
        with connection.cursor() as cursor:
            cursor.execute("select pg_try_advisory_lock(%s, %s)", [_LOCKS, self._key])
            if not cursor.fetchone()[0]:
                return False
        self._held_by = connection.connection
        return True


class _News:
    """A bell that is not missed by who was busy when it rang."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self.count = 0

    def ring(self) -> None:
        with self._condition:
            self.count += 1
            self._condition.notify_all()

    def wait_beyond(self, seen: int) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self.count != seen, timeout=_PAUSE_S)
