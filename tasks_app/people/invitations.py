"""Links by which a person sets a password: invitations and resets."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urljoin

import structlog
from django.conf import settings
from django.contrib.auth.tokens import default_token_generator
from django.core.mail import EmailMessage
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from tasks_app import clock
from tasks_app.people.house import house, mail_sender
from tasks_app.people.models import User
from tasks_app.people.security import Kind, security_record
from tasks_app.people.security_models import SecurityEvent

log = structlog.get_logger(__name__)
_PAUSE = timedelta(minutes=5)
_NO_MAIL = "django.core.mail.backends.dummy.EmailBackend"
_TEXT = """{person},

open this page to set your password for {product}:

{link}

The link works once, within {days} days. Your login is {login}.
"""


def is_mail_configured() -> bool:
    """Return whether Flightdeck can send mail (FLIGHTDECK_MAIL_URL)."""
    return settings.EMAIL_BACKEND != _NO_MAIL


def send_password_link(*, user: User, by: User | None, address: str | None) -> str:
    """Mail a link that sets the user's password. Return the link if no mail was sent, otherwise "".

    Call it outside a transaction: it talks to the mail server. The link works until the password is set or
    settings.PASSWORD_RESET_TIMEOUT has passed.

    Args:
        user: Whose password.
        by: The administrator who sends it; None if somebody who is not logged in asks for it.
        address: The IP address of whoever asks.
    """
    link = _password_link(user)
    is_sent = is_mail_configured() and bool(user.email) and _send(user, link)
    security_record(
        event=Kind.PASSWORD_LINK,
        actor=by,
        about=user.username,
        detail={"mailed": is_sent, "to": user.email, "invited": user.last_login is None},
        address=address,
    )
    return "" if is_sent else link


def mail_password_links(*, mail: str, address: str | None) -> None:
    """Mail a link to everybody with this address, to each of them once in five minutes.

    For somebody who is not logged in. Call it outside a transaction.
    """
    for user in User.objects.filter(email__iexact=mail, is_active=True, is_service=False):
        lately = SecurityEvent.objects.filter(
            event=Kind.PASSWORD_LINK, about=user.username, at__gt=clock.now() - _PAUSE
        )
        if not lately.exists():
            send_password_link(user=user, by=None, address=address)


def _password_link(user: User) -> str:
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    token = default_token_generator.make_token(user)
    return urljoin(settings.PUBLIC_URL, reverse("password_set", args=[uid, token]))


def _send(user: User, link: str) -> bool:
    name = house().name
    text = _TEXT.format(
        person=user,
        product=f"Flightdeck at {name}" if name else "Flightdeck",
        link=link,
        login=user.username,
        days=settings.PASSWORD_RESET_TIMEOUT // 86_400,
    )
    message = EmailMessage(
        subject="Set your password for Flightdeck",
        body=text,
        from_email=mail_sender(),
        to=[user.email],
        headers={"Auto-Submitted": "auto-generated"},
    )
    try:
        return bool(message.send())
    except (OSError, ValueError) as error:  # an SMTPException is an OSError
        log.warning("password_link_not_mailed", user=str(user.pk), error=type(error).__name__)
        return False
