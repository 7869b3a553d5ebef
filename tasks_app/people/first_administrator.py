"""The first administrator of an empty installation, who needs no other login: a one-time address."""

from __future__ import annotations

from urllib.parse import urljoin

from django.conf import settings
from django.contrib.auth.models import Group
from django.core import signing
from django.db import connection, transaction
from django.urls import reverse

from tasks_app.people.actors import SYSTEM, actor_ensure
from tasks_app.people.logins import login_of_mail
from tasks_app.people.models import User
from tasks_app.people.rights import rights_recorded
from tasks_app.people.roles import ADMINISTRATOR

_SALT = "first administrator"
_VALID_S = 86_400


class LoginExistsError(Exception):
    """Somebody has a login already: administrators add the others."""


def has_no_login() -> bool:
    """Return whether nobody has a login yet. Service accounts do not count."""
    return not User.objects.filter(is_service=False).exists()


def make_one_time_address() -> str:
    """Return the address that makes the first administrator, once and within a day.

    Raise LoginExistsError if somebody has a login.
    """
    if not has_no_login():
        raise LoginExistsError
    token = signing.dumps("", salt=_SALT)
    return urljoin(settings.PUBLIC_URL, reverse("first_administrator", args=[token]))


def is_token_valid(token: str) -> bool:
    """Return whether the token of an address may still make the first administrator."""
    try:
        signing.loads(token, salt=_SALT, max_age=_VALID_S)
    except signing.BadSignature:
        return False
    return has_no_login()


@transaction.atomic
def make_first_administrator(*, user: User, password: str, address: str | None) -> None:
    """Save the first login as an administrator. Raise LoginExistsError if there is one already.

    Args:
        user: A new person with name, mail address and time zone; they log in by the mail address.
        password: One that was validated.
        address: The IP address of whoever asks.
    """
    with connection.cursor() as cursor:
        cursor.execute("select pg_advisory_xact_lock(hashtext('first administrator'))")
    if not has_no_login():
        raise LoginExistsError
    user.username = login_of_mail(user.email)
    user.is_staff = True
    user.set_password(password)
    with rights_recorded(user, by=SYSTEM, address=address):
        user.save()
        user.groups.add(Group.objects.get(name=ADMINISTRATOR))
        actor_ensure(user=user)
