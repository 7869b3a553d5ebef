"""The bell in the header of every page."""

from __future__ import annotations

from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from tasks_app.notifications.selectors import unread_count
from tasks_app.people.models import User

register = template.Library()
_MOST = 99


@register.simple_tag(takes_context=True)
def bell(context: dict[str, Any]) -> str | SafeString:
    """How many notifications this person has not read, leading to them; nothing for who is not signed in."""
    user = getattr(context.get("request"), "user", None)
    if not isinstance(user, User) or not user.is_staff:
        return ""
    count = unread_count(user)
    said = f"{_MOST}+ unread" if count > _MOST else f"{count} unread" if count else "None unread"
    return format_html(
        '<a class="bell{}" href="{}" aria-label="Notifications: {}">'
        '<span class="material-symbols-outlined" aria-hidden="true">notifications</span><span>{}</span></a>',
        " some" if count else "",
        reverse("admin:tasks_app_notification_changelist"),
        said.lower(),
        said,
    )
