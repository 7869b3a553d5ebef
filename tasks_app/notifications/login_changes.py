"""What somebody else did to a login is told, so that nobody is two people unseen: to the person, and to those
who read the security log."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import notify
from tasks_app.people.actors import SYSTEM, actor_key
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE, ROLES, VIEW_SECURITY_LOG
from tasks_app.people.security import Kind, on_security
from tasks_app.people.security_models import SecurityEvent

KIND = "login_changed"
_DID = {
    Kind.PASSWORD_CHANGED: "set the password of",
    Kind.FACTOR_REMOVED: "removed the second factor of",
}


def register() -> None:
    """Called when the application starts."""
    on_security(login_change_tell)


def login_change_tell(event: SecurityEvent) -> None:
    """Tell of one entry of the security log where it lets somebody else in, or decide. What the installation
    does itself is told by whoever runs it."""
    did = _deed(event)
    person = User.objects.filter(username=event.about).first() if did else None
    if person is None or event.actor in ("", SYSTEM, actor_key(person)):
        return
    told: dict[str, Any] = {
        "kind": KIND,
        "title": f"{event.actor_name} {did} {person}"[:200],
        "body": "If that was not agreed, have the login switched off. The security log has from where.",
        "level": Notification.Level.WARNING,
    }
    key = f"{KIND}:{event.pk}"
    notify(**told, right=VIEW_SECURITY_LOG, not_for=event.actor, key=key)
    if person.is_active and not person.has_perm(VIEW_SECURITY_LOG):
        notify(**told, person=person, key=f"{key}:{person.pk}")


def _deed(event: SecurityEvent) -> str:
    """Return what was done to the login, if people are told; otherwise ""."""
    if event.event == Kind.PASSWORD_LINK:
        return "" if event.detail["invited"] else "made a link that sets the password of"
    if event.event != Kind.RIGHTS_CHANGED:
        return _DID.get(Kind(event.event), "")
    changes = event.detail.get("changes", {})
    before, after = changes.get("roles", (None, ()))
    if _decide(after) and not _decide(before or ()):
        return "gave the right to decide to"
    return "changed the mail address of" if "mail" in changes else ""


def _decide(roles: Collection[str]) -> bool:
    return any(DECIDE in ROLES.get(role, ()) for role in roles)
