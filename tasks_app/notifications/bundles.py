"""Notifications of one campaign that are delivered as one."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from tasks_app.notifications.models import Notification

WINDOW = timedelta(minutes=10)
LEVELS = list(Notification.Level.values)
_TITLE_CHARS = 200


def deliver_at(note: Notification) -> datetime:
    """Return when a notification is mailed and posted.

    An info notification of a campaign is deferred by ten minutes. A warning or an alarm goes at once, with
    the deferred ones.
    """
    is_deferred = note.campaign_id is not None and note.level == Notification.Level.INFO
    return note.at + WINDOW if is_deferred else note.at


def bundle_of(note: Notification) -> list[Notification]:
    """Return a notification and those of its campaign since ten minutes before it, the most severe first."""
    if note.campaign_id is None:
        return [note]
    rows = Notification.objects.filter(campaign_id=note.campaign_id, at__gte=note.at - WINDOW)
    return sorted(rows.order_by("pk"), key=lambda one: -LEVELS.index(one.level))


def bundles(notes: Iterable[Notification]) -> list[list[Notification]]:
    """Group the rows of a list, newest first: a campaign's notifications within ten minutes are one."""
    found: list[list[Notification]] = []
    of_campaign: dict[uuid.UUID, list[Notification]] = {}
    for note in notes:
        known = of_campaign.get(note.campaign_id) if note.campaign_id else None
        if known is not None and known[0].at - note.at <= WINDOW:
            known.append(note)
            continue
        found.append([note])
        if note.campaign_id:
            of_campaign[note.campaign_id] = found[-1]
    return found


def heading(note: Notification) -> str:
    """Return a notification's title, after its level unless that is info."""
    mark = "" if note.level == Notification.Level.INFO else f"{note.get_level_display()}: "
    return f"{mark}{note.title}"


def bundle_heading(bundle: Sequence[Notification]) -> str:
    """Return the heading of the first, and how many more there are; one line."""
    more = f" (and {len(bundle) - 1} more of this campaign)" if len(bundle) > 1 else ""
    return f"{heading(bundle[0])[: _TITLE_CHARS - len(more)]}{more}"
