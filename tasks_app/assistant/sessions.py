"""Sessions: a person's conversations, with the interface of document 004, section 2.2."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.assistant.errors import UnknownSessionError
from tasks_app.assistant.governance import set_mode
from tasks_app.assistant.models import AssistantSession
from tasks_app.assistant.types import Channel, Message, Mode
from tasks_app.people.models import User

#: A longer history is cut: models get no more, and pages show turns.
MOST_MESSAGES = 40
_AT_ONCE = 200


class SessionManager:
    """The sessions of one person. Sessions are rows, so every process sees the same ones."""

    def __init__(self, user: User) -> None:
        self._user = user

    @transaction.atomic
    def create_session(
        self, mode: Mode = Mode.NORMAL, channel: Channel = Channel.PAGE, preferences: Mapping[str, Any] = {}
    ) -> uuid.UUID:
        """Create a session and return its id. A mode other than normal needs the right to set modes."""
        now = clock.now()
        session = AssistantSession.objects.create(
            user=self._user,
            channel=channel,
            preferences=dict(preferences),
            created_at=now,
            last_active_at=now,
        )
        if mode != Mode.NORMAL:
            set_mode(mode=mode, reason="Chosen at the start", user=self._user, session_id=session.pk)
        return session.pk

    def get_session(self, session_id: uuid.UUID) -> AssistantSession | None:
        """Return a session of the person, archived or not; None if there is none."""
        return self._own().filter(pk=session_id).first()

    def update_session(self, session_id: uuid.UUID, messages: Sequence[Message]) -> None:
        """Store the conversation so far. Raise UnknownSessionError."""
        kept = list(messages)[-MOST_MESSAGES:]
        changed = self._own().filter(pk=session_id).update(messages=kept, last_active_at=clock.now())
        if not changed:
            raise UnknownSessionError("There is no such conversation.")

    def list_active_sessions(self) -> list[AssistantSession]:
        """Return the person's sessions that are not archived, the last used first."""
        return list(self._own().filter(archived_at__isnull=True))

    def list_archived_sessions(self, *, limit: int = 50) -> list[AssistantSession]:
        """Return the person's archived sessions, the last used first."""
        return list(self._own().filter(archived_at__isnull=False)[:limit])

    def restore_session(self, session_id: uuid.UUID) -> AssistantSession:
        """Take a session out of the archive. Raise UnknownSessionError."""
        session = self.get_session(session_id)
        if session is None:
            raise UnknownSessionError("There is no such conversation.")
        session.archived_at, session.last_active_at = None, clock.now()
        session.save(update_fields=["archived_at", "last_active_at"])
        return session

    def _own(self) -> QuerySet[AssistantSession]:
        return AssistantSession.objects.filter(user=self._user)


def archive_idle_sessions() -> int:
    """Archive sessions that nobody used for 24 hours; return how many. A chore of the sweep."""
    now = clock.now()
    idle = AssistantSession.objects.filter(
        archived_at__isnull=True, last_active_at__lt=now - settings.ASSISTANT_IDLE
    ).exclude(turns__ended_at__isnull=True, turns__isnull=False)
    ids = list(idle.order_by("last_active_at").values_list("pk", flat=True)[:_AT_ONCE])
    return AssistantSession.objects.filter(pk__in=ids, archived_at__isnull=True).update(archived_at=now)
