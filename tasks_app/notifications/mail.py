"""E-mail to each person who opted in: one message for a notification, or for those of one campaign.

A subscriber of the event bus, so it runs outside the transaction that told, and what a mail server refuses is
tried again; who was mailed already is not mailed again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from urllib.parse import urljoin

import structlog
from django.conf import settings
from django.core.mail import EmailMessage
from django.urls import reverse

from tasks_app import clock
from tasks_app.desk.page_rights import page_opens
from tasks_app.events.bus import Event, LaterError, subscribe, type_declare
from tasks_app.notifications.bundles import bundle_heading, bundle_of, deliver_at, heading
from tasks_app.notifications.models import Notification, NotificationMail
from tasks_app.notifications.moments import render_moments
from tasks_app.notifications.selectors import mail_recipients, subject_links
from tasks_app.people.house import mail_sender
from tasks_app.people.models import User

log = structlog.get_logger(__name__)
TOLD = "notification.told"
_LIST = "admin:tasks_app_notification_changelist"
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
    """Mail a notification to each person who opted in and has not had it, with others of its campaign.

    Raises MailNotTakenError after everybody was tried, LaterError where a slow server took some of them: the
    bus calls again. In any order: whoever waits behind messages that hang comes first another time. A crash
    between a message and its record sends that one message once more.
    """
    note = Notification.objects.filter(pk=event.entity_id).first()
    if note is None:  # forgotten meanwhile
        return
    people = list(mail_recipients(note))
    if people and clock.now() < deliver_at(note):
        raise LaterError("deferred, to be bundled with others of its campaign", at=deliver_at(note))
    bundle = bundle_of(note)
    told = {one.pk: set(mail_recipients(one).values_list("pk", flat=True)) for one in bundle}
    random.shuffle(people)
    until, taken, tried = time.monotonic() + _TOGETHER_S, 0, 0
    while tried < len(people) and (not tried or time.monotonic() < until):
        person = people[tried]
        taken += _mailed([one for one in bundle if person.pk in told[one.pk]], person)
        tried += 1
    if taken < len(people):
        why = f"{len(people) - taken} of {len(people)} messages were not taken"
        raise LaterError(why, at=clock.now()) if taken and tried < len(people) else MailNotTakenError(why)


def _mailed(bundle: list[Notification], person: User) -> bool:
    """Send one message and record it. One thread calls this, so nobody is mailed twice meanwhile."""
    try:
        message(bundle, person).send()
    except (
        OSError,
        ValueError,
    ) as error:  # SMTPException is an OSError; ValueError: an address it cannot write
        log.warning(
            "mail_not_taken", notification=str(bundle[0].pk), user=str(person.pk), error=type(error).__name__
        )
        return False
    sent = [NotificationMail(notification=one, user=person, at=clock.now()) for one in bundle]
    NotificationMail.objects.bulk_create(sent, ignore_conflicts=True)
    return True


def message(bundle: Sequence[Notification], person: User) -> EmailMessage:
    """Return the message for one person: what they are told, and where to look.

    It leads nobody where they may not go: who does not use the admin is given no address of it.
    """
    uses_admin = page_opens(person, reverse(_LIST))
    links = subject_links(bundle) if uses_admin else {}
    parts: list[str] = []
    for note in bundle:
        parts.append(_notification_text(note, person, alone=len(bundle) == 1))
        if uses_admin:
            parts.append(urljoin(settings.PUBLIC_URL, _link(note, links.get(note.pk, ""), person)))
    return EmailMessage(
        subject=bundle_heading(bundle),
        body="\n\n".join([*parts, _ending(uses_admin)]),
        from_email=mail_sender(),
        to=[person.email],
        headers={"Auto-Submitted": "auto-generated"},
    )


def _notification_text(note: Notification, person: User, *, alone: bool) -> str:
    """Return the text of one notification; its title is the subject if it is alone."""
    lines = [note.body or note.title] if alone else [heading(note), note.body]
    return render_moments("\n".join(line for line in lines if line), person.time_zone)


def _link(note: Notification, page: str, person: User) -> str:
    """Return the path of the page to look at; the list of notifications if there is no other."""
    if not page_opens(person, page):
        return reverse(_LIST)
    own = _page_links.get(note.subject_type)
    return (own(note, person) if own else "") or page


def _ending(uses_admin: bool) -> str:
    if not uses_admin:
        return "You asked for these messages. An administrator ends them."
    return f"You asked for these messages: {urljoin(settings.PUBLIC_URL, reverse(_LIST))}"
