"""Notifications in the admin: what this person is told, and what they have read of it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.urls import reverse

from tasks_app.desk.items import plural, segments
from tasks_app.desk.page import Page, viewer
from tasks_app.notifications.models import Notification
from tasks_app.notifications.presenters import notification_rows
from tasks_app.notifications.selectors import notifications_of, notifications_unread, unread_latest
from tasks_app.notifications.services import notifications_mark_read, user_mail_set
from tasks_app.paging import older_page

_VIEWS = {"unread": "Unread", "all": "All", "alarms": "Warnings and alarms"}
_PAGE = 50
_DUMMY = "django.core.mail.backends.dummy.EmailBackend"


@admin.register(Notification)
class NotificationAdmin(Page):
    """Everybody who may sign in sees what they are told, and nothing else."""

    list_template_name = "desk/notifications.html"
    team_path = None  # by team or right, see get_queryset

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return True  # of the admin's staff: the rows are their own

    def has_module_permission(self, request: HttpRequest) -> bool:
        return True

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return notifications_of(viewer(request))

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        user = viewer(request)
        view = request.GET.get("view", "unread")
        rows = self.get_queryset(request)
        if view == "alarms":
            rows = rows.exclude(level=Notification.Level.INFO)
        elif view != "all":
            rows = unread_latest(user)
        page = older_page(rows, request.GET, size=_PAGE)
        told = Notification.objects.filter(pk__in=[note.pk for note in page.rows])
        fresh = set(notifications_unread(told, user).values_list("pk", flat=True))
        return {
            "title": "Notifications",
            "rows": notification_rows(page.rows, fresh),
            "page": page,
            "nav": segments(request, _VIEWS),
            "mailed": user.mail_notifications,
            "address": user.email,
            "sends_mail": settings.EMAIL_BACKEND != _DUMMY,
        }

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if request.method == "POST":
            return self._post(request)
        return super().changelist_view(request, extra_context)

    def change_view(self, request: HttpRequest, *_: Any, **__: Any) -> HttpResponse:
        """A notification has no page but the list: what it tells of has."""
        return HttpResponseRedirect(reverse("admin:tasks_app_notification_changelist"))

    def _post(self, request: HttpRequest) -> HttpResponse:
        """`read`: ids of notifications, or "all"; `mail`: on or off."""
        user, mail = viewer(request), request.POST.get("mail", "")
        read = request.POST.getlist("read")[:_PAGE]
        if mail in ("on", "off"):
            user_mail_set(user=user, wanted=mail == "on")
            messages.success(
                request, "You are mailed notifications." if mail == "on" else "You are mailed none."
            )
        elif read == ["all"]:
            messages.success(
                request, f"{plural(notifications_mark_read(user=user), 'notification')} marked as read."
            )
        elif read and all(keys := [_key(one) for one in read]):
            notifications_mark_read(user=user, ids=[key for key in keys if key])
        else:
            return HttpResponseBadRequest("Say which notification was read, or whether to e-mail.")
        return HttpResponseRedirect(request.get_full_path())


def _key(given: str) -> UUID | None:
    try:
        return UUID(given)
    except ValueError:
        return None
