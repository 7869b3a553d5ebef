"""E-mail: one message for each notification and person who opted in.

A subscriber of the event bus, so it runs outside the transaction that told, and what a mail server refuses is
tried again; who was mailed already is not mailed again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from urllib.parse import urljoin

import structlog
from django.conf import settings
from django.core.mail import EmailMessage
from django.urls import reverse

from tasks_app import clock
from tasks_app.desk.page_rights import page_opens
from tasks_app.events.bus import Event, LaterError, subscribe, type_declare
from tasks_app.notifications.models import Notification, NotificationMail
from tasks_app.notifications.selectors import mail_recipients, subject_links
from tasks_app.people.models import User

log = structlog.get_logger(__name__)
TOLD = "notification.told"
# Nobody else's events wait longer than this and one message, which a mail server that hangs keeps for
# EMAIL_TIMEOUT at each address that its name has, and at each word of the exchange.
_TOGETHER_S = 15.0


PageLink = Callable[[Notification, User], str]
_page_links: dict[str, PageLink] = {}


class MailNotTakenError(RuntimeError):
    """The mail server did not take a message for somebody; the others have theirs."""


def register() -> None:
    """Called when the application starts."""
    type_declare(TOLD)
    subscribe("mail", [TOLD], mail_told)


def page_link_register(subject_type: str, link: PageLink) -> None:
    """Let `link(notification, person)` say where a mail about a `subject_type` leads that person (a path);
    empty: to the subject's page."""
    _page_links[subject_type] = link


def mail_told(event: Event) -> None:
    """Mail a notification to each person who opted in and has not had it.

    Raises MailNotTakenError after everybody was tried, LaterError where a slow server took some of them: the
    bus calls again. In any order: whoever waits behind messages that hang comes first another time. A crash
    between a message and its record sends that one message once more.
    """
    note = Notification.objects.filter(pk=event.entity_id).first()
    if note is None:  # forgotten meanwhile
        return
    people = list(mail_recipients(note))
    random.shuffle(people)
    until, taken, tried = time.monotonic() + _TOGETHER_S, 0, 0
    while tried < len(people) and (not tried or time.monotonic() < until):
        taken += _mailed(note, people[tried])
        tried += 1
    if taken < len(people):
        why = f"{len(people) - taken} of {len(people)} messages were not taken"
        raise LaterError(why, at=clock.now()) if taken and tried < len(people) else MailNotTakenError(why)


def _mailed(note: Notification, person: User) -> bool:
    try:
        message(note, person).send()
    except (
        OSError,
        ValueError,
    ) as error:  # SMTPException is an OSError; ValueError: an address it cannot write
        log.warning(
            "mail_not_taken", notification=str(note.pk), user=str(person.pk), error=type(error).__name__
        )
        return False
    NotificationMail.objects.get_or_create(notification=note, user=person, defaults={"at": clock.now()})
    return True


def message(note: Notification, person: User) -> EmailMessage:
    """The message for one person: the title as the subject, the text, where to look. It leads nobody where
    they may not go: who does not use the admin is given no address of it."""
    mark = "" if note.level == Notification.Level.INFO else f"{note.get_level_display()}: "
    return EmailMessage(
        subject=f"{mark}{note.title}",
        body="\n\n".join([note.body or note.title, *_where_to_look(note, person)]),
        to=[person.email],
        headers={"Auto-Submitted": "auto-generated"},
    )


def _where_to_look(note: Notification, person: User) -> list[str]:
    notifications = reverse("admin:tasks_app_notification_changelist")
    if not page_opens(person, notifications):
        return ["You asked for these messages. An administrator ends them."]
    page = subject_links([note]).get(note.pk, "")
    own = _page_links.get(note.subject_type)
    link = ((own(note, person) if own else "") or page) if page_opens(person, page) else notifications
    return [
        urljoin(settings.PUBLIC_URL, link),
        f"You asked for these messages: {urljoin(settings.PUBLIC_URL, notifications)}",
    ]
