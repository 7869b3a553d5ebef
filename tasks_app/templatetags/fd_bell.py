"""The bell in the header of every page."""

from __future__ import annotations

from typing import Any

from django import template

from tasks_app.notifications.bell import bell_html
from tasks_app.people.models import User

register = template.Library()


@register.simple_tag(takes_context=True)
def bell(context: dict[str, Any]) -> str:
    """How many notifications this person has not read, leading to them; nothing for who is not signed in."""
    user = getattr(context.get("request"), "user", None)
    return bell_html(user) if isinstance(user, User) and user.is_staff else ""
