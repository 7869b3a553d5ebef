"""Sessions in the database, named there by a digest of their key, each with whose it is and from where.

Settings name this module as SESSION_ENGINE.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from tasks_app import clock
from tasks_app.people.models import User
from tasks_app.people.security_models import LoginSession

FROM = "_fd_from"  # in the session's data: {"address", "agent", "at"} of signing in
_SEEN_EVERY = timedelta(minutes=5)


def key_digest(key: str | None) -> str:
    """What stands for a session's key in the database: SHA-256 (hex). Keys have 128 bits and more, so no
    salt is needed."""
    return hashlib.sha256((key or "").encode()).hexdigest()


class SessionStore(DatabaseStore):
    """Django's store in the database, on our table."""

    seen_at: Any = None  # of the row this was loaded from

    @classmethod
    def get_model_class(cls) -> Any:
        return LoginSession

    def _get_session_from_db(self) -> LoginSession | None:
        row = LoginSession.objects.filter(
            pk=key_digest(self.session_key), expire_date__gt=clock.now()
        ).first()
        return self._loaded(row)

    async def _aget_session_from_db(self) -> LoginSession | None:
        rows = LoginSession.objects.filter(pk=key_digest(self.session_key), expire_date__gt=clock.now())
        return self._loaded(await rows.afirst())

    def _loaded(self, row: LoginSession | None) -> LoginSession | None:
        if row is None:
            self._session_key = None
        else:
            self.seen_at = row.seen_at
        return row

    def exists(self, session_key: str) -> bool:
        return super().exists(key_digest(session_key))

    async def aexists(self, session_key: str) -> bool:
        return await super().aexists(key_digest(session_key))

    def create_model_instance(self, data: dict[str, Any]) -> Any:
        return self._described(super().create_model_instance(data), data)

    async def acreate_model_instance(self, data: dict[str, Any]) -> Any:
        return self._described(await super().acreate_model_instance(data), data)

    def _described(self, row: Any, data: dict[str, Any]) -> Any:
        origin = data.get(FROM) or {}
        row.session_key = key_digest(row.session_key)
        row.user_id = data.get(SESSION_KEY)
        row.address, row.agent = origin.get("address"), origin.get("agent", "")
        row.seen_at = clock.now()
        row.signed_in_at = datetime.fromisoformat(origin["at"]) if "at" in origin else row.seen_at
        return row

    def get_expiry_date(self, **given: Any) -> datetime:
        given.setdefault("modification", clock.now())
        return super().get_expiry_date(**given)

    def delete(self, session_key: str | None = None) -> None:
        wanted = session_key or self.session_key
        if wanted:
            LoginSession.objects.filter(pk=key_digest(wanted)).delete()

    async def adelete(self, session_key: str | None = None) -> None:
        wanted = session_key or self.session_key
        if wanted:
            await LoginSession.objects.filter(pk=key_digest(wanted)).adelete()


class SeenMiddleware:
    """Keeps when each session was last used, to five minutes."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        seen, now = getattr(request.session, "seen_at", None), clock.now()
        if seen is not None and now - seen > _SEEN_EVERY:
            LoginSession.objects.filter(pk=key_digest(request.session.session_key)).update(seen_at=now)
        return response


def sessions_of(user: User) -> QuerySet[LoginSession]:
    """The live sessions of `user`, the latest used first."""
    return LoginSession.objects.filter(user=user, expire_date__gt=clock.now()).order_by("-seen_at")


def sessions_drop(*, user: User, only: str = "", but: str = "") -> int:
    """End sessions of `user`: all, `only` the one of that digest, or all `but` that one. Answers how many."""
    rows = LoginSession.objects.filter(user=user)
    if only:
        rows = rows.filter(pk=only)
    return rows.exclude(pk=but).delete()[0]


def sessions_forget() -> int:
    """Remove sessions that have expired. Answers how many."""
    return LoginSession.objects.filter(expire_date__lt=clock.now()).delete()[0]
