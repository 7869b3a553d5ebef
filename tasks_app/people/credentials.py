"""Which requests come with a session or a token that is somebody's, told without Django's chain: it decides
whose allowance they take of, never what they may do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from django.db.models import Q
from django.http import parse_cookie
from knox.crypto import hash_token

from tasks_app import clock
from tasks_app.people.security_models import ApiToken, LoginSession
from tasks_app.people.sessions import key_digest

log = structlog.get_logger(__name__)
_KEPT_S = 60.0
_MOST_KEPT = 20_000
_PAUSE_S = 0.02
_MOST_CHARS = 200
_SESSION, _TOKEN = "session:", "token:"


def credentials_of(headers: dict[str, str]) -> list[str]:
    """What stands in the database for the credentials that a request brings, by kind."""
    found = []
    key = parse_cookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME, "")
    if 0 < len(key) <= _MOST_CHARS:
        found.append(_SESSION + key_digest(key))
    words = headers.get("authorization", "").split()
    if len(words) == 2 and words[0].lower() == "token" and len(words[1]) <= _MOST_CHARS:
        found.append(_TOKEN + hash_token(words[1]))
    return found


def credentials_known(names: Collection[str]) -> set[str]:
    """Those of `names` (see `credentials_of`) that are a person's or an agent's now."""
    now = clock.now()
    sessions = LoginSession.objects.filter(
        pk__in=_of(_SESSION, names), expire_date__gt=now, user__isnull=False
    )
    lasting = Q(expiry__isnull=True) | Q(expiry__gt=now)
    tokens = ApiToken.objects.filter(lasting, pk__in=_of(_TOKEN, names))
    return {_SESSION + pk for pk in sessions.values_list("pk", flat=True)} | {
        _TOKEN + pk for pk in tokens.values_list("pk", flat=True)
    }


def _of(kind: str, names: Collection[str]) -> list[str]:
    return [name.removeprefix(kind) for name in names if name.startswith(kind)]


class Credentials:
    """Looks them up for one web process: all that wait by one query each kind, in a thread of its own, and
    remembers those that were somebody's for a minute."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._asked: dict[str, asyncio.Future[bool]] = {}
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="credentials")

    async def any_known(self, headers: dict[str, str]) -> bool:
        """Whether one that the request brings is somebody's; False too where the database cannot say."""
        names = credentials_of(headers)
        if not names:
            return False
        now = time.monotonic()
        if any(self._until.get(name, 0.0) > now for name in names):
            return True
        loop = asyncio.get_running_loop()
        waits = [self._asked.setdefault(name, loop.create_future()) for name in names]
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._look())
        return any([await asyncio.shield(one) for one in waits])

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while self._asked:
            asked, self._asked = self._asked, {}
            found: set[str] = set()
            try:
                found = await loop.run_in_executor(self._thread, _known, list(asked))
            finally:
                for name, future in asked.items():
                    future.set_result(name in found)
            if len(self._until) >= _MOST_KEPT:
                self._until.clear()
            self._until.update(dict.fromkeys(found, time.monotonic() + _KEPT_S))
            await asyncio.sleep(_PAUSE_S)  # what comes meanwhile is asked together


def _known(names: list[str]) -> set[str]:
    try:
        return credentials_known(names)
    except (OperationalError, InterfaceError) as error:
        log.warning("credentials_not_read", error=type(error).__name__)
        return set()
    finally:
        connection.close()  # back to the pool: a look a minute of each person needs none of its own
