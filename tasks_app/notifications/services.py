"""Telling people, and keeping who has read it."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import connection, transaction

from tasks_app import clock
from tasks_app.ids import first_id_at
from tasks_app.notifications.models import Notification
from tasks_app.notifications.selectors import notifications_of, notifications_unread
from tasks_app.people.models import Team, User
from tasks_app.people.scope import campaign_of, owner_of

_TITLE_CHARS = Notification._meta.get_field("title").max_length or 200
_AT_ONCE = 2000
_READ = """
insert into tasks_app_notificationread (notification_id, user_id, at)
select chosen.id, %s, %s from ({chosen}) chosen on conflict do nothing
"""


@dataclass(frozen=True, kw_only=True)
class About:
    """What a notification tells of."""

    type: str
    id: uuid.UUID


@transaction.atomic
def notify(
    *,
    kind: str,
    title: str,
    body: str = "",
    level: str = Notification.Level.INFO,
    about: About | None = None,
    team: Team | None = None,
    advertiser_id: uuid.UUID | None = None,
    right: str = "",
    roles: Sequence[str] = (),
    person: User | None = None,
    not_for: str = "",
    nor_for: Collection[str] = (),
    key: str | None = None,
) -> bool:
    """Write a notification, and the event `notification.told`, in the caller's transaction.

    Args:
        kind: What it is, such as "deal_failed".
        title: One line.
        body: Several lines; a moment in it is a `moments.moment_token`.
        level: Info, warning or alarm.
        about: Its subject, whose campaign it takes; also its team and advertiser, unless others are given.
        team: The team that reads it; with `right` only its members who hold that.
        advertiser_id: The advertiser that a reader must see.
        right: The right that a reader must hold.
        roles: Of these readers, only who has one of the roles.
        person: The only reader, as long as they see the subject.
        not_for: The key of an actor who does not read it: who caused it.
        nor_for: Further keys of actors who do not.
        key: With a key it is written once, however often it is asked for.

    Returns:
        Whether it was written now.

    Raises:
        ValueError: It is for nobody, or for a person and others.
    """
    if person is None and team is None and not right:
        raise ValueError(f"{kind}: a notification is for a team, for who holds a right, or for a person")
    if person is not None and (team is not None or right):
        raise ValueError(f"{kind}: what is for one person is for nobody else")
    owner, advertiser = owner_of(about.type, about.id) if about else (None, None)
    campaign = campaign_of(about.type, about.id) if about else None
    note = Notification(
        kind=kind,
        title=" ".join(title.split())[:_TITLE_CHARS],
        body=body,
        level=level,
        subject_type=about.type if about else "",
        subject_id=about.id if about else None,
        campaign_id=campaign,
        team_id=team.pk if team else owner,
        advertiser_id=advertiser_id or advertiser,
        right=right,
        roles=list(roles),
        person=person,
        not_for=not_for,
        nor_for=sorted(nor_for),
        key=key,
        at=clock.now(),
    )
    Notification.objects.bulk_create([note], ignore_conflicts=True)
    if key is not None and not Notification.objects.filter(pk=note.pk).exists():
        return False
    with connection.cursor() as cursor:
        cursor.execute("select fd_tell(%s, %s)", [note.pk, note.at])
    return True


def notifications_mark_read(*, user: User, ids: list[uuid.UUID] | None = None) -> int:
    """Mark what `user` sees as read: those named, or all. Answers how many were unread."""
    unread = notifications_unread(notifications_of(user), user)
    if ids is not None:
        unread = unread.filter(pk__in=ids)
    chosen, parameters = unread.order_by().values("id").query.sql_with_params()
    with connection.cursor() as cursor:  # in the database: they may be many
        cursor.execute(_READ.format(chosen=chosen), [user.pk, clock.now(), *parameters])
        return int(cursor.rowcount)


def user_mail_set(*, user: User, wanted: bool) -> None:
    """Keep whether `user` is mailed notifications."""
    User.objects.filter(pk=user.pk).update(mail_notifications=wanted)


def notifications_forget() -> int:
    """Remove what is older than settings.NOTIFICATION_KEEP, some in each call. Answers how many."""
    before = first_id_at(clock.now() - settings.NOTIFICATION_KEEP)
    with connection.cursor() as cursor:
        cursor.execute("select fd_notifications_forget(%s, %s)", [before, _AT_ONCE])
        return int(cursor.fetchone()[0])
