"""django-q2's Redis broker, on the lanes a worker serves; imported only where FLIGHTDECK_QUEUE names a Redis.

What a killed worker had in hand is gone with it: rows hold the work, and whoever looks for what is due wakes
again. A Redis that is away delays wake-ups; it fails nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import redis
import structlog
from django_q.brokers.redis_broker import Redis
from django_q.conf import Conf

from tasks_app.jobs.serving import Serving
from tasks_app.lanes import queues_of

log = structlog.get_logger(__name__)
_LOOK_AGAIN_S = 1.0  # the pusher looks at its stop event as often
_AWAY_S = 0.5
_ANSWERS_WITHIN_S = 5.0  # longer than it may wait for a task


class RedisBroker(Redis):
    """Tasks are entries of one list for each lane."""

    def __init__(self, list_key: str | None = None) -> None:
        super().__init__(list_key=list_key)
        self._serving: Serving | None = None
        self._keys: list[str] = [self.list_key]
        self.lanes: tuple[str, ...] = ()
        self._taken = 0

    def serve(self, lanes: Sequence[str]) -> None:
        """Take from these lanes, in this order of preference, and say so."""
        self._keys = [f"django_q:{queue}:q" for queue in queues_of(lanes)]
        self.lanes, self._serving = tuple(lanes), Serving(lanes)

    def enqueue(self, task: str) -> int:
        """Put a task in, at once. Answers how many wait; 0 where Redis is away."""
        try:
            return int(super().enqueue(task))
        except redis.RedisError as error:
            log.warning("queue_redis_away", error=str(error))
            return 0

    def enqueue_up_to(self, task: str, wanted: int, *, enough: int) -> int:
        """The same so many times, unless `enough` wait in its lane; answers how often."""
        room = max(0, min(wanted, enough - self.queue_size()))
        for _ in range(room):
            self.enqueue(task)
        return room

    def queue_size(self) -> int:
        """How many wait; 0 where Redis is away."""
        try:
            return int(super().queue_size())
        except redis.RedisError as error:
            log.warning("queue_redis_away", error=str(error))
            return 0

    def dequeue(self) -> list[tuple[None, bytes]] | None:
        """The next task; None after a second without one, and where Redis is away."""
        if self._serving is not None:
            self._serving.look()
        try:
            found: Any = self.connection.blpop(self._in_turn(), _LOOK_AGAIN_S)
        except redis.RedisError as error:
            log.warning("queue_redis_away", error=str(error))
            time.sleep(_AWAY_S)
            return None
        if found is None:
            return None
        self._taken += 1
        return [(None, found[1])]

    def _in_turn(self) -> list[str]:
        """The lanes by preference; every other time another of them is asked first, so that none starves."""
        first = (self._taken + 1) // 2 % len(self._keys) if self._taken % 2 else 0
        return [*self._keys[first:], *self._keys[:first]]

    def ping(self) -> bool:
        """Whether Redis answers."""
        try:
            return bool(self.connection.ping())
        except redis.RedisError:
            return False

    @staticmethod
    def get_connection(list_key: str | None = None) -> Any:
        """One that waits for no answer without end."""
        limits = {"socket_timeout": _ANSWERS_WITHIN_S, "socket_connect_timeout": _ANSWERS_WITHIN_S}
        return redis.from_url(Conf.REDIS, **limits)
