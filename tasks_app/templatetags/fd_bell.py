"""What the frame of every page tells: the bell, and the banner while something is stopped."""

from __future__ import annotations

from typing import Any

from django import template

from tasks_app.commands.questions import STOPPED
from tasks_app.commands.selectors import stopped_for
from tasks_app.notifications.bell import bell_html
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE

register = template.Library()


@register.simple_tag(takes_context=True)
def bell(context: dict[str, Any]) -> str:
    """How many notifications this person has not read, leading to them; nothing for who is not signed in."""
    user = getattr(context.get("request"), "user", None)
    return bell_html(user) if isinstance(user, User) and user.is_staff else ""


@register.inclusion_tag("desk/stopped.html", takes_context=True)
def stopped_banner(context: dict[str, Any]) -> dict[str, Any]:
    """Where the kill switch is on for this person: by whom, since when, why; nothing where it is off."""
    user = getattr(context.get("request"), "user", None)
    if not isinstance(user, User) or not user.is_staff:
        return {}
    return {
        "stopped": stopped_for(user),
        "may_see": user.has_perm("tasks_app.view_killswitch"),
        "may_decide": user.has_perm(DECIDE),
        "asked_to_pass": STOPPED,
    }
