"""Addresses of the calendar: made, revoked, recognised (decision 0028)."""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import timedelta

from django.db import transaction

from campaigns.calendar.models import CalendarFeed
from tasks_app import clock
from tasks_app.people.access import Access, AccessKind, access_register
from tasks_app.people.models import User
from tasks_app.people.security import Kind, security_record

_BYTES = 32
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
_READ_EVERY = timedelta(hours=1)  # how exactly the latest reading is known


class FeedRefusedError(Exception):
    """No address is made for this person; the text says why."""


def register() -> None:
    """Called when the application starts."""
    access_register("calendar", AccessKind(found=_found, revoke=lambda user: int(feed_revoke(user=user))))


def _found(user: User) -> list[Access]:
    feed = feed_of(user)
    return [Access(what="Calendar address", made_at=feed.made_at)] if feed else []


def may_read(user: User) -> bool:
    """Whether a person's calendar may be read, by them or by a program of theirs."""
    return user.is_active and not user.is_service and user.has_perm("orders.view_deal")


def feed_of(user: User) -> CalendarFeed | None:
    """The person's present address, None without one."""
    return CalendarFeed.objects.filter(user=user, revoked_at__isnull=True).first()


@transaction.atomic
def feed_make(*, user: User) -> str:
    """A new address for the person, the one before revoked; answers its secret part, which nobody can show
    again. Raises FeedRefusedError."""
    if not may_read(user):
        raise FeedRefusedError("Reading the calendar needs a role that sees deals.")
    # Two of one person's at once: one after the other.
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    feed_revoke(user=user)
    secret = secrets.token_urlsafe(_BYTES)
    CalendarFeed.objects.create(user=user, digest=_digest(secret), made_at=clock.now())
    security_record(event=Kind.TOKEN_MADE, actor=user, about="calendar address")
    return secret


@transaction.atomic
def feed_revoke(*, user: User) -> bool:
    """The person's address is none from now on; answers whether there was one."""
    rows = CalendarFeed.objects.filter(user=user, revoked_at__isnull=True)
    revoked = bool(rows.update(revoked_at=clock.now()))
    if revoked:
        security_record(event=Kind.TOKEN_REVOKED, actor=user, about="calendar address")
    return revoked


def feed_user(secret: str) -> User | None:
    """Whose calendar the address reads; None for one that is unknown, revoked, or of somebody who may not any
    more. Only its digest is looked up: how long that takes tells nothing about the secret."""
    if not _SECRET.fullmatch(secret):
        return None
    rows = CalendarFeed.objects.filter(digest=_digest(secret), revoked_at__isnull=True)
    feed = rows.select_related("user").first()
    if feed is None or not may_read(feed.user):
        return None
    now = clock.now()
    if feed.read_at is None or now - feed.read_at > _READ_EVERY:
        CalendarFeed.objects.filter(pk=feed.pk).update(read_at=now)
    return feed.user


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
