"""A password validator that asks nothing: it hears from Django of every password that was set."""

from __future__ import annotations

import structlog

from tasks_app.people.models import User
from tasks_app.people.security import Kind, security_record


class PasswordLog:
    """Named last in AUTH_PASSWORD_VALIDATORS. Who set it is whom the request is bound to."""

    def validate(self, password: str, user: User | None = None) -> None:
        """Anything goes: the other validators judge."""

    def get_help_text(self) -> str:
        return ""

    def password_changed(self, password: str, user: User | None = None) -> None:
        if user is None:
            return
        bound = str(structlog.contextvars.get_contextvars().get("user_id") or "")
        setter = f"human:{bound}" if bound else None
        security_record(event=Kind.PASSWORD_CHANGED, actor=setter, about=user.username)
