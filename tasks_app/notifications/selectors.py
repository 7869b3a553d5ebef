"""Reading notifications: each person sees their teams' and those for a right they hold."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from tasks_app.lifecycle.names import names_of
from tasks_app.notifications.models import Notification, NotificationMail, NotificationRead
from tasks_app.people.actors import actor_key, actor_user
from tasks_app.people.holders import users_with
from tasks_app.people.models import User
from tasks_app.people.roles import ADMINISTRATOR
from tasks_app.people.scope import in_scope, members_of, role_held

RECENT, UNREAD_LATEST = 200, 1000
_UNREAD = """
select count(*) from (
  select n.id from tasks_app_user_teams t cross join lateral (
    select id from tasks_app_notification where team_id = t.team_id and "right" = any(%s) and not_for <> %s
       and not nor_for ? %s
       and person_id is null
       and (roles = '[]' or roles ?| array(select g.name from auth_group g
           join tasks_app_user_groups h on h.group_id = g.id where h.user_id = %s))
       and (t.every_advertiser or advertiser_id is null or advertiser_id in (
         select a.advertiser_id from tasks_app_user_teams_advertisers a where a.membership_id = t.id))
     order by id desc limit %s) n
   where t.user_id = %s
  union all
  (select id from tasks_app_notification p where person_id = %s and (team_id is null or exists (
     select from tasks_app_user_teams t where t.user_id = p.person_id and t.team_id = p.team_id
       and (t.every_advertiser or p.advertiser_id is null or p.advertiser_id in (
         select a.advertiser_id from tasks_app_user_teams_advertisers a where a.membership_id = t.id))))
   order by id desc limit %s)
  union all
  select n.id from unnest(%s::text[]) held(name) cross join lateral (
    select id from tasks_app_notification where team_id is null and "right" = held.name and not_for <> %s
       and not nor_for ? %s
       and (roles = '[]' or roles ?| array(select g.name from auth_group g
           join tasks_app_user_groups h on h.group_id = g.id where h.user_id = %s))
     order by id desc limit %s) n
) told where not exists (
  select from tasks_app_notificationread r where r.notification_id = told.id and r.user_id = %s)
"""


def notifications_of(viewer: User) -> QuerySet[Notification]:
    """What `viewer` is told, newest first."""
    if viewer.is_superuser:
        return Notification.objects.filter(Q(person__isnull=True) | Q(person=viewer))
    held = viewer.get_all_permissions()
    for_operators = Q(team__isnull=True, right__in=held)
    seen = in_scope(Notification, viewer)
    for_members = seen & Q(person__isnull=True, right__in={"", *held})
    # Told to one person: theirs as long as they see what it is about.
    mine = Q(person=viewer) & (Q(team__isnull=True) | seen)
    told = Notification.objects.filter((for_members | for_operators) & role_held(viewer) | mine)
    key = actor_key(viewer)
    return told.exclude(not_for=key).exclude(nor_for__contains=[key])


def notifications_unread(rows: QuerySet[Notification], viewer: User) -> QuerySet[Notification]:
    """Those of `rows` that `viewer` has not read."""
    read = NotificationRead.objects.filter(notification=OuterRef("pk"), user=viewer)
    return rows.filter(~Exists(read))


def unread_latest(viewer: User) -> QuerySet[Notification]:
    """What `viewer` has not read of the UNREAD_LATEST newest, newest first: a list that costs the same for
    who has read a million."""
    latest = notifications_of(viewer).order_by("-pk").values("pk")[:UNREAD_LATEST]
    return notifications_unread(Notification.objects.filter(pk__in=latest), viewer).order_by("-pk")


def with_read(rows: QuerySet[Notification], viewer: User) -> QuerySet[Notification]:
    """`rows` with `read`: whether `viewer` has read it."""
    return rows.annotate(
        read=Exists(NotificationRead.objects.filter(notification=OuterRef("pk"), user=viewer))
    )


def unread_count(viewer: User) -> int:
    """How many `viewer` has not read of the latest told to them, to each team of theirs, and for each right:
    asked for on every page, so it looks at RECENT of each and no further."""
    if viewer.is_superuser:
        recent = notifications_of(viewer).order_by("-pk").values("pk")[:RECENT]
        return notifications_unread(Notification.objects.filter(pk__in=recent), viewer).count()
    rights, actor = sorted(viewer.get_all_permissions()), actor_key(viewer)
    mine = (actor, actor, viewer.pk, RECENT)
    with connection.cursor() as cursor:
        of_teams = (["", *rights], *mine, viewer.pk)
        cursor.execute(_UNREAD, (*of_teams, viewer.pk, RECENT, rights, *mine, viewer.pk))
        return int(cursor.fetchone()[0])


def subject_links(notes: Iterable[Notification]) -> dict[uuid.UUID, str]:
    """Notification to the page of what it tells of, for what has a page."""
    told = list(notes)
    found: dict[uuid.UUID, str] = {}
    for kind in {note.subject_type for note in told if note.subject_id}:
        names = names_of(kind, {n.subject_id for n in told if n.subject_type == kind and n.subject_id})
        found |= {
            n.pk: names[n.subject_id].link for n in told if n.subject_type == kind and n.subject_id in names
        }
    return found


def mail_recipients(note: Notification) -> QuerySet[User]:
    """Return who asked to be mailed, is told this, and has neither been mailed nor read it."""
    people = User.objects.filter(is_active=True)
    if note.right:
        people = users_with(note.right)
    if note.team_id is not None:
        theirs = members_of(note.team_id, note.advertiser_id)
        people = people.filter(theirs | Q(is_superuser=True) if note.person_id else theirs)
    if note.roles:
        people = people.filter(Q(groups__name__in=note.roles) | _stands_for(note.roles))
    if note.person_id is not None:
        people = people.filter(pk=note.person_id)
    mailed = NotificationMail.objects.filter(notification=note, user=OuterRef("pk"))
    wanted = people.filter(mail_notifications=True, is_service=False).exclude(email="")
    barred = [actor_user(key) for key in (note.not_for, *note.nor_for) if key]
    wanted = wanted.exclude(pk__in=[user.pk for user in barred if user is not None])
    read = NotificationRead.objects.filter(notification=note, user=OuterRef("pk"))
    return wanted.filter(~Exists(mailed), ~Exists(read)).distinct().order_by("pk")


def _stands_for(roles: list[str]) -> Q:
    """Superusers, where an Administrator is told (`roles_held`)."""
    return Q(is_superuser=True) if ADMINISTRATOR in roles else Q(pk__in=[])
