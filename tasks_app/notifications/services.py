"""Telling people, and keeping who has read it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from tasks_app import clock
from tasks_app.notifications.models import Notification, NotificationRead
from tasks_app.notifications.selectors import notifications_of, notifications_unread
from tasks_app.people.models import Team, User

_TITLE_CHARS = Notification._meta.get_field("title").max_length or 200


@dataclass(frozen=True, kw_only=True)
class About:
    """What a notification tells of."""

    type: str
    id: uuid.UUID


def notify(
    *,
    kind: str,
    title: str,
    body: str = "",
    level: str = Notification.Level.INFO,
    about: About | None = None,
    team: Team | None = None,
    right: str = "",
    key: str | None = None,
) -> None:
    """Tell a team, or those who hold `right`, in the caller's transaction. With a `key` it is told once,
    however often it is said. Raises ValueError when it is for nobody."""
    if team is None and not right:
        raise ValueError(f"{kind}: a notification is for a team, or for who holds a right")
    note = Notification(
        kind=kind,
        title=title[:_TITLE_CHARS],
        body=body,
        level=level,
        subject_type=about.type if about else "",
        subject_id=about.id if about else None,
        team=team,
        right=right,
        key=key,
        at=clock.now(),
    )
    Notification.objects.bulk_create([note], ignore_conflicts=True)


def notifications_mark_read(*, user: User, ids: list[uuid.UUID] | None = None) -> int:
    """Mark what `user` sees as read: those named, or all. Answers how many were unread."""
    unread = notifications_unread(notifications_of(user), user)
    if ids is not None:
        unread = unread.filter(pk__in=ids)
    rows = [NotificationRead(notification=note, user=user, at=clock.now()) for note in unread]
    NotificationRead.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)
