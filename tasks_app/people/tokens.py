"""API tokens: limited in rights and time, shown once, revoked by their owner."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from django.contrib.auth.models import Permission
from django.db import transaction
from django.db.models import Q, QuerySet

from tasks_app import clock
from tasks_app.people.models import User
from tasks_app.people.roles import ROLES
from tasks_app.people.security import Kind, security_record
from tasks_app.people.security_models import ApiToken
from tasks_app.storable import is_storable

MOST_DAYS = 3650
_MOST_TOKENS = 50
_MOST_CHARS = 60
_USED_EVERY = timedelta(minutes=1)


class TokenRefusedError(ValueError):
    """The token is not made. `field` names what is wrong, the text says why in a sentence."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(message)


def rights_offered(user: User) -> list[tuple[str, str]]:
    """Return (right, what it allows) for each right besides reading that a token of the user can have."""
    known = {right for rights in ROLES.values() for right in rights}
    held = [right for right in known if not _is_read(right) and user.has_perm(right)]
    wanted = Q(pk__in=())
    for right in held:
        app, _, code = right.partition(".")
        wanted |= Q(content_type__app_label=app, codename=code)
    rows = Permission.objects.filter(wanted).select_related("content_type").order_by("name")
    return [(f"{row.content_type.app_label}.{row.codename}", row.name) for row in rows]


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """Return the user's unexpired tokens, the newest first."""
    lasting = Q(expiry__isnull=True) | Q(expiry__gt=clock.now())
    return ApiToken.objects.filter(lasting, user=user).order_by("-created")


@transaction.atomic
def make_token(
    *,
    user: User,
    name: str,
    days: int,
    by: User | str,
    rights: Collection[str] | None = None,
    address: str | None = None,
) -> tuple[ApiToken, str]:
    """Make a token. Return its row and the token, which is not kept.

    Args:
        user: Whose rights it gives.
        name: What it is for, at most 60 characters.
        days: How long it is valid, 1 to MOST_DAYS.
        by: Who makes it: a person or an actor's key.
        rights: What it may do besides reading; None: everything that the user may do.
        address: The IP address of who makes it.

    Raises:
        TokenRefusedError: One of these is wrong, or the user has too many tokens.
    """
    name = name.strip()
    if not name or len(name) > _MOST_CHARS or not is_storable(name):
        raise TokenRefusedError("name", f"Name the token, in at most {_MOST_CHARS} characters.")
    if not 1 <= days <= MOST_DAYS:
        raise TokenRefusedError("days", f"A token is valid for 1 to {MOST_DAYS} days.")
    if rights is not None and not set(rights) <= {right for right, _ in rights_offered(user)}:
        raise TokenRefusedError("rights", "Choose rights that you have.")
    if tokens_of(user).count() >= _MOST_TOKENS:
        raise TokenRefusedError("name", f"You have {_MOST_TOKENS} tokens. Revoke one first.")
    kept, token = ApiToken.objects.create(
        user=user,
        expiry=timedelta(days=days),
        name=name,
        rights=None if rights is None else sorted(rights),
    )
    detail = {"token": kept.token_key, "name": name, "days": days, "rights": kept.rights}
    security_record(event=Kind.TOKEN_MADE, actor=by, about=user.username, detail=detail, address=address)
    return kept, token


@transaction.atomic
def revoke_token(*, user: User, token_key: str, address: str | None) -> bool:
    """End one token of the user. Return False if there is none."""
    ended, _ = ApiToken.objects.filter(user=user, token_key=token_key).delete()
    if ended:
        security_record(
            event=Kind.TOKEN_REVOKED,
            actor=user,
            about=user.username,
            detail={"token": token_key},
            address=address,
        )
    return bool(ended)


def note_use(token: ApiToken) -> None:
    """Keep when a token was used, to the minute."""
    now = clock.now()
    if token.last_used_at is None or token.last_used_at < now - _USED_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)


def _is_read(right: str) -> bool:
    return right.partition(".")[2].startswith("view_")
