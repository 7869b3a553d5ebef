"""Notifications in words: how loud, when, and where a click leads."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from django.utils import timezone

from tasks_app.notifications.bundles import LEVELS, bundles
from tasks_app.notifications.models import Notification
from tasks_app.notifications.moments import render_moments
from tasks_app.notifications.selectors import subject_links

_FACES = {
    Notification.Level.INFO: ("waiting", "Info"),
    Notification.Level.WARNING: ("person", "Warning"),
    Notification.Level.ALARM: ("failed", "Alarm"),
}


@dataclass(frozen=True, kw_only=True)
class NotificationText:
    """One notification; `link` is empty if its subject has no page."""

    title: str
    body: str
    link: str


@dataclass(frozen=True, kw_only=True)
class NotificationRow:
    """A row of the list: one notification, or those of one campaign within ten minutes, newest first.

    `glyph` and `word` are of the most severe; `unread` holds the ids to mark as read.
    """

    newest: Notification
    glyph: str
    word: str
    texts: tuple[NotificationText, ...]
    unread: tuple[uuid.UUID, ...]


def notification_rows(notes: Iterable[Notification], unread: Collection[uuid.UUID]) -> list[NotificationRow]:
    """Return the rows of a page; `unread` holds the ids of those that the viewer has not read."""
    shown = list(notes)
    links = subject_links(shown)
    return [_row(bundle, links, unread) for bundle in bundles(shown)]


def _row(
    bundle: list[Notification], links: dict[uuid.UUID, str], unread: Collection[uuid.UUID]
) -> NotificationRow:
    severest = max(bundle, key=lambda note: LEVELS.index(note.level))
    glyph, word = _FACES[Notification.Level(severest.level)]
    zone = timezone.get_current_timezone_name()
    return NotificationRow(
        newest=bundle[0],
        glyph=glyph,
        word=word,
        texts=tuple(
            NotificationText(
                title=note.title, body=render_moments(note.body, zone), link=links.get(note.pk, "")
            )
            for note in bundle
        ),
        unread=tuple(note.pk for note in bundle if note.pk in unread),
    )
