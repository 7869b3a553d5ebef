"""Notifications in words: how loud, when, and where a click leads."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tasks_app.notifications.models import Notification
from tasks_app.notifications.selectors import subject_links

_FACES = {
    Notification.Level.INFO: ("waiting", "Info"),
    Notification.Level.WARNING: ("person", "Warning"),
    Notification.Level.ALARM: ("failed", "Alarm"),
}


@dataclass(frozen=True, kw_only=True)
class NotificationRow:
    """One notification as the list shows it; `link` is empty where it tells of nothing that has a page."""

    note: Notification
    glyph: str
    word: str
    link: str
    unread: bool


def notification_rows(notes: Iterable[Notification], unread: Collection[uuid.UUID]) -> list[NotificationRow]:
    """Rows of a page; `unread` holds the keys of those that the viewer has not read."""
    shown = list(notes)
    links = subject_links(shown)
    return [
        NotificationRow(
            note=note,
            glyph=_FACES[Notification.Level(note.level)][0],
            word=_FACES[Notification.Level(note.level)][1],
            link=links.get(note.pk, ""),
            unread=note.pk in unread,
        )
        for note in shown
    ]
