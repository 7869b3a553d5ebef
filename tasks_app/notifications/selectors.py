"""Reading notifications: each person sees their teams' and those for a right they hold."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q, QuerySet

from tasks_app.notifications.models import Notification, NotificationRead
from tasks_app.people.models import User


def notifications_of(viewer: User) -> QuerySet[Notification]:
    """What `viewer` is told, newest first."""
    if viewer.is_superuser:
        return Notification.objects.all()
    for_operators = Q(team__isnull=True, right__in=viewer.get_all_permissions())
    return Notification.objects.filter(Q(team__in=viewer.teams.all()) | for_operators)


def notifications_unread(rows: QuerySet[Notification], viewer: User) -> QuerySet[Notification]:
    """Those of `rows` that `viewer` has not read."""
    read = NotificationRead.objects.filter(notification=OuterRef("pk"), user=viewer)
    return rows.filter(~Exists(read))
