"""What lets somebody in: sessions, and what opens without one (API tokens, calendar addresses); how all of it
ends, and how whoever keeps a connection open knows that it has."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from django.db import transaction
from django.http import HttpRequest
from knox.models import AbstractAuthToken

from tasks_app import clock
from tasks_app.people.models import User
from tasks_app.people.scope import roles_held, scope_of, standing_read
from tasks_app.people.security import Kind, security_record
from tasks_app.people.security_models import ApiToken, LoginSession
from tasks_app.people.sessions import key_digest, sessions_drop

_HASH_CHARS = 16
_SESSION, _TOKEN = "session", "token"


@dataclass(frozen=True, kw_only=True)
class Access:
    """One thing that opens without a session: what it is, never its secret; since when, until when."""

    what: str
    made_at: datetime
    ends_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class AccessKind:
    """`found` lists somebody's; `revoke` ends them all and answers how many."""

    found: Callable[[User], list[Access]]
    revoke: Callable[[User], int]


_kinds: dict[str, AccessKind] = {}


def access_register(name: str, kind: AccessKind) -> None:
    """Called by the storey that hands it out, when the application starts."""
    _kinds[name] = kind


def register() -> None:
    """Called when the application starts."""
    access_register("tokens", AccessKind(found=_tokens, revoke=_tokens_revoke))


def access_of(user: User) -> list[Access]:
    """Everything of somebody's that opens without a session."""
    return [one for kind in _kinds.values() for one in kind.found(user)]


@transaction.atomic
def access_end(
    *, user: User, by: User | str, address: str | None, revoke: bool = True, but_session: str | None = None
) -> dict[str, int]:
    """End the user's sessions, but that of the key `but_session`, and unless `revoke` is false all that opens
    without one. Answers how many of each; it is in the security log."""
    ended = {"ended": sessions_drop(user=user, but=key_digest(but_session) if but_session else "")}
    if revoke:
        ended |= {name: kind.revoke(user) for name, kind in _kinds.items()}
    detail = ended if revoke else {**ended, "kept": ", ".join(_kinds)}
    security_record(event=Kind.SESSIONS_ENDED, actor=by, about=user.username, detail=detail, address=address)
    return ended


def proof_of(request: HttpRequest, token: AbstractAuthToken | None = None) -> str:
    """By what a request is somebody's, as a word for `proofs_standing`: no secret is in it."""
    user = cast(User, request.user)
    kind, name = (_TOKEN, token.digest) if token else (_SESSION, key_digest(request.session.session_key))
    return f"{kind}:{user.pk}:{name}:{_standing(user)}"


def proofs_standing(proofs: Collection[str]) -> set[str]:
    """Of those, the ones that still let somebody in to the same: they are active, their password, roles,
    teams and advertisers are what they were, and the session or the token is there.

    Five queries, however many."""
    told = {proof: proof.split(":") for proof in proofs}
    people = {str(one.pk): one for one in User.objects.filter(pk__in={parts[1] for parts in told.values()})}
    standing_read(people.values())
    now = clock.now()
    sessions = LoginSession.objects.filter(pk__in=_named(told.values(), _SESSION), expire_date__gt=now)
    tokens = ApiToken.objects.filter(pk__in=_named(told.values(), _TOKEN)).exclude(expiry__lte=now)
    there = {
        _SESSION: {*sessions.values_list("pk", flat=True)},
        _TOKEN: {*tokens.values_list("pk", flat=True)},
    }
    return {
        proof
        for proof, (kind, user, name, stamp) in told.items()
        if name in there[kind]
        and user in people
        and people[user].is_active
        and _standing(people[user]) == stamp
    }


def _named(told: Collection[list[str]], kind: str) -> set[str]:
    return {parts[2] for parts in told if parts[0] == kind}


def _standing(user: User) -> str:
    """Changes with the password, and with what they may do and see."""
    scope = scope_of(user)
    seen = [sorted(map(str, part)) for part in (scope.whole, scope.limited, scope.advertisers)]
    may = [user.is_superuser, user.is_staff, sorted(roles_held(user)), *seen]
    told = json.dumps([str(user.get_session_auth_hash()), *may])
    return hashlib.sha256(told.encode()).hexdigest()[:_HASH_CHARS]


def _tokens(user: User) -> list[Access]:
    return [
        Access(what=f"API token {token}", made_at=token.created, ends_at=token.expiry)
        for token in ApiToken.objects.filter(user=user).order_by("created")
    ]


def _tokens_revoke(user: User) -> int:
    ended, _ = ApiToken.objects.filter(user=user).delete()
    return int(ended)
