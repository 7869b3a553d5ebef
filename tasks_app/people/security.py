"""The security log: who signed in, whose rights changed, what was exported. Written once, never changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from axes.signals import user_locked_out
from django.conf import settings
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db import connection
from django.http import HttpRequest

from tasks_app import clock
from tasks_app.people.actors import SYSTEM, actor_ensure, actor_key
from tasks_app.people.lockout import address_of
from tasks_app.people.models import Actor, User
from tasks_app.people.security_models import SecurityEvent
from tasks_app.people.sessions import FROM
from tasks_app.storable import storable
from tasks_app.tracing import origin

Kind = SecurityEvent.Kind
_ABOUT_CHARS, _AGENT_CHARS, _NAME_CHARS = 200, 200, 150
_listeners: list[Callable[[SecurityEvent], None]] = []


def on_security(listener: Callable[[SecurityEvent], None]) -> None:
    """Called when the application starts: `listener(entry)` runs in the transaction that writes an entry."""
    if listener not in _listeners:
        _listeners.append(listener)


def security_record(
    *,
    event: str,
    actor: User | Actor | str | None,
    about: str = "",
    detail: dict[str, Any] | None = None,
    address: str | None = None,
) -> SecurityEvent:
    """Write one entry of the security log, in the caller's transaction where there is one.

    `event`: a value of SecurityEvent.Kind. `actor`: a login, an Actor or its key; None for somebody who is
    not known. `about`: whom or what it was done to, in words; `detail`: JSON, never a secret. `address`: the
    client's IP address. Raises ValueError for an event of no kind, UnknownActorError.
    """
    if event not in Kind.values:
        raise ValueError(f"{event!r} is no kind of security event")
    key, name = _who(actor)
    entry = SecurityEvent.objects.create(
        at=clock.now(),
        event=event,
        actor=key,
        actor_name=name,
        about=about[:_ABOUT_CHARS],
        address=address,
        request=origin()[:64],
        detail=detail or {},
    )
    for listener in _listeners:
        listener(entry)
    return entry


def security_forget() -> int:
    """Remove entries older than settings.SECURITY_KEEP, some in each call. Answers how many.

    Done by a function of the database's owner, which removes nothing younger than 90 days whoever asks.
    """
    with connection.cursor() as cursor:
        cursor.execute("select fd_security_forget(%s)", [clock.now() - settings.SECURITY_KEEP])
        return int(cursor.fetchone()[0])


def register() -> None:
    """Hear of sign-ins from Django and django-axes. Called when the application starts."""
    user_logged_in.connect(_logged_in, dispatch_uid="security_log")
    user_logged_out.connect(_logged_out, dispatch_uid="security_log")
    user_login_failed.connect(_login_failed, dispatch_uid="security_log")
    user_locked_out.connect(_locked_out, dispatch_uid="security_log")


def _who(actor: User | Actor | str | None) -> tuple[str, str]:
    if actor is None:
        return "", ""
    if isinstance(actor, User):
        actor = actor_ensure(user=actor)
    if isinstance(actor, Actor):
        return actor.key, actor.name
    key = actor_key(actor)
    name = Actor.objects.filter(key=key).values_list("name", flat=True).first()
    return key, name or ("System" if key == SYSTEM else key)


def _logged_in(request: HttpRequest, user: User, **_: Any) -> None:
    address, agent = address_of(request), request.META.get("HTTP_USER_AGENT", "")[:_AGENT_CHARS]
    moment: datetime = clock.now()
    request.session[FROM] = {"address": address, "agent": agent, "at": moment.isoformat()}
    security_record(event=Kind.LOGIN, actor=user, address=address, detail={"agent": agent})


def _logged_out(request: HttpRequest, user: User | None, **_: Any) -> None:
    if isinstance(user, User):
        security_record(event=Kind.LOGOUT, actor=user, address=address_of(request))


def _login_failed(credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    _refused(Kind.LOGIN_FAILED, credentials.get("username"), request)


def _locked_out(request: HttpRequest | None = None, username: str | None = None, **_: Any) -> None:
    _refused(Kind.LOCKED_OUT, username, request)


def _refused(event: str, username: Any, request: HttpRequest | None) -> None:
    # What was typed for a name may be a password: kept only where there is such a login.
    named = storable(str(username or "")[:_NAME_CHARS], instead="")
    user = User.objects.filter(username=User.normalize_username(named)).first() if named else None
    security_record(
        event=event,
        actor=None,
        about=str(user.username) if user else "(no such login)",
        address=address_of(request),
    )
