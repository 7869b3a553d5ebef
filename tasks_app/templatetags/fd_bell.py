"""What the frame of every page shows: the bell, the banner of the kill switch, the assistant's panel."""

from __future__ import annotations

from typing import Any

from django import template

from tasks_app.assistant.services import LONGEST_QUESTION
from tasks_app.commands.questions import STOPPED
from tasks_app.commands.selectors import stopped_for
from tasks_app.desk.explain import entity_of
from tasks_app.notifications.bell import bell_html
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE, USE_ASSISTANT

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


@register.inclusion_tag("assistant/panel.html", takes_context=True)
def assistant_panel(context: dict[str, Any]) -> dict[str, Any]:
    """Return what the panel needs: the object of this page, if it is of a kind that can be explained."""
    user = getattr(context.get("request"), "user", None)
    if not isinstance(user, User) or not user.is_staff or not user.has_perm(USE_ASSISTANT):
        return {}
    row = context.get("original")
    kind = entity_of(type(row)) if row is not None else ""
    return {
        "is_offered": True,
        "kind": kind,
        "object_id": row.pk if row is not None and kind else "",
        "named": str(getattr(row, "reference", "") or row) if kind else "",
        "longest": LONGEST_QUESTION,
        "csrf_token": context.get("csrf_token"),
    }
