"""The link in a mail to one who may decide: it opens the question's page after login, and decides nothing.

Signed for one purpose, one person and one question, with an end. Single use: the first time the person it was
made for follows it signed in uses it up. What fetches it without being signed in as them (a scanner of mails,
a preview, somebody it was forwarded to) is shown the login or a refusal and uses up nothing.
"""

from __future__ import annotations

import uuid
from typing import Literal

from django.conf import settings
from django.core import signing
from django.db import IntegrityError, transaction
from django.urls import reverse

from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.records import LinkUse
from tasks_app.ids import new_id
from tasks_app.notifications.mail import page_link_register
from tasks_app.notifications.models import Notification
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE
from tasks_app.people.scope import visible

_PURPOSE = "flightdeck.approvals.link"
_LONGEST = 600  # characters of a token; ours have about 200


class LinkRefusedError(Exception):
    """The link opens nothing; `code` says why in one word, the text in a sentence."""

    def __init__(
        self, code: Literal["invalid", "expired", "used", "not_yours", "gone"], message: str
    ) -> None:
        self.code = code
        super().__init__(message)


def register() -> None:
    """Called when the application starts: mails about approvals hold such a link."""
    page_link_register("approval", _page_link)


def link_token(*, approval_id: uuid.UUID, user: User) -> str:
    """A token that opens one approval's page once, for `user`, within settings.APPROVAL_LINK."""
    said = {
        "approval": str(approval_id),
        "user": str(user.pk),
        "nonce": str(new_id()),
        "until": int((clock.now() + settings.APPROVAL_LINK).timestamp()),
    }
    return signing.dumps(said, salt=_PURPOSE)


def link_open(*, token: str, user: User) -> uuid.UUID:
    """Use the link up: the id of the approval whose page is to be shown. Raises LinkRefusedError; only `used`
    and success mean that it was used."""
    approval_id, user_id, nonce, until = _read(token)
    if user_id != user.pk:
        raise LinkRefusedError("not_yours", "This link was made for somebody else.")
    if until <= clock.now().timestamp():
        raise LinkRefusedError("expired", "This link has expired.")
    if not visible(Approval.objects.filter(pk=approval_id), user).exists():
        raise LinkRefusedError("gone", "There is no such approval in your teams.")
    try:
        with transaction.atomic():
            LinkUse.objects.create(nonce=nonce, approval_id=approval_id, user=user, at=clock.now())
    except IntegrityError as twice:
        raise LinkRefusedError("used", "This link was used before.") from twice
    return approval_id


def _read(token: str) -> tuple[uuid.UUID, uuid.UUID, uuid.UUID, int]:
    try:
        if len(token) > _LONGEST:
            raise signing.BadSignature("too long")
        said = signing.loads(token, salt=_PURPOSE)
    except signing.BadSignature as error:
        raise LinkRefusedError("invalid", "This is none of our links.") from error
    approval_id, user_id, nonce = (uuid.UUID(said[name]) for name in ("approval", "user", "nonce"))
    return approval_id, user_id, nonce, said["until"]


def _page_link(note: Notification, person: User) -> str:
    """The path for one person's mail; empty for who cannot decide, or when it is over: its page will do."""
    if note.subject_id is None or not person.has_perm(DECIDE):
        return ""
    if not Approval.objects.filter(pk=note.subject_id, status=ApprovalStatus.OPEN).exists():
        return ""
    token = link_token(approval_id=note.subject_id, user=person)
    return reverse("approval_link", args=[token])
