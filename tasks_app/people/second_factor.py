"""The second factor: an authenticator app (RFC 6238, by pyotp) and recovery codes (decision 0031)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import pyotp
from django.conf import settings
from django.db import transaction

from tasks_app import clock
from tasks_app.people.models import User
from tasks_app.people.security import Kind, security_record
from tasks_app.people.security_models import RecoveryCode, SecondFactor
from tasks_app.people.sessions import key_digest, sessions_drop

STATE = "_fd_factor"  # in the session's data
DONE, DUE, ENROL, NONE = "done", "due", "enrol", "none"
_MOST_FAILURES, _LOCK = 5, timedelta(minutes=15)
_CODES, _CODE_BYTES = 10, 10
_STEP_S = 30


class FactorRefusedError(Exception):
    """The code was not taken; the text says why."""


def factor_confirmed(user: User) -> bool:
    """Return whether the user has set up an authenticator app."""
    return SecondFactor.objects.filter(user=user, confirmed_at__isnull=False).exists()


def factor_wanted(user: User) -> bool:
    """Whether one of the user's roles must have a second factor (settings.SECOND_FACTOR_ROLES)."""
    wanted = settings.SECOND_FACTOR_ROLES
    if not wanted or user.is_service:
        return False
    return user.is_superuser or user.groups.filter(name__in=wanted).exists()


def factor_state(user: User) -> str:
    """What a session of `user` begins with: DUE, a code is to be entered; ENROL, an app is to be set up
    first; NONE."""
    if SecondFactor.objects.filter(user=user, confirmed_at__isnull=False).exists():
        return DUE
    return ENROL if factor_wanted(user) else NONE


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A secret for an app, to be shown in the session that it was made for, and the otpauth:// address of its
    QR code."""

    secret: str = field(repr=False)
    uri: str = field(repr=False)


@transaction.atomic
def factor_begin(*, user: User, session_key: str | None) -> Begun:
    """A new secret for an app; in force once a code of it was seen in the same session. Another session is
    shown another one: who signed in there may be somebody else. Raises FactorRefusedError where one is in
    force."""
    here = key_digest(session_key)
    factor, _ = SecondFactor.objects.select_for_update(no_key=True).get_or_create(
        user=user, defaults={"secret": pyotp.random_base32(), "begun_in": here}
    )
    if factor.confirmed_at is not None:
        raise FactorRefusedError("A second factor is set up: remove it first.")
    if factor.begun_in != here:
        factor.secret, factor.begun_in = pyotp.random_base32(), here
        factor.save(update_fields=["secret", "begun_in"])
    uri = pyotp.TOTP(factor.secret).provisioning_uri(name=user.username, issuer_name="Flightdeck")
    return Begun(secret=factor.secret, uri=uri)


def factor_confirm(*, user: User, code: str, session_key: str | None, address: str | None) -> list[str]:
    """Put the app that this session was shown into force with its first code; answers the recovery codes,
    which are shown this once. The user's other sessions end. Raises FactorRefusedError."""
    with transaction.atomic():
        begun = SecondFactor.objects.filter(user=user, begun_in=key_digest(session_key))
        factor = begun.select_for_update(no_key=True).first()
        if factor is None or factor.confirmed_at is not None:
            raise FactorRefusedError("There is nothing to confirm: begin anew.")
        problem = "" if _taken(factor, code) else _refused(factor)
        if not problem:
            factor.confirmed_at = clock.now()
            factor.save(update_fields=["confirmed_at"])
            sessions_drop(user=user, but=key_digest(session_key))
            security_record(event=Kind.FACTOR_ADDED, actor=user, about=user.username, address=address)
            return _codes_make(user)
    raise FactorRefusedError(problem)  # outside, so that the failure counts


def factor_check(*, user: User, code: str, address: str | None) -> None:
    """Take a code of the app, or a recovery code. Raises FactorRefusedError; after five wrong ones nothing
    is taken for a quarter of an hour."""
    with transaction.atomic():
        factor = SecondFactor.objects.select_for_update(no_key=True).filter(user=user).first()
        if factor is None or factor.confirmed_at is None:
            raise FactorRefusedError("No second factor is set up.")
        if _taken(factor, code, recovery=partial(_recovery_taken, user, code, address)):
            return
        problem = _refused(factor)
        security_record(event=Kind.FACTOR_FAILED, actor=user, about=user.username, address=address)
    raise FactorRefusedError(problem)


def factor_forget_begun(*, user: User) -> None:
    """Remove an app of the user's that was shown and never confirmed."""
    SecondFactor.objects.filter(user=user, confirmed_at__isnull=True).delete()


@transaction.atomic
def factor_remove(*, user: User, by: User, address: str | None, but_session: str | None = None) -> bool:
    """Remove the user's app, also one that was only begun, and recovery codes, and end their sessions but
    `but_session` (a key). False where there was none."""
    gone, _ = SecondFactor.objects.filter(user=user).delete()
    if not gone:
        return False
    RecoveryCode.objects.filter(user=user).delete()
    sessions_drop(user=user, but=key_digest(but_session) if but_session else "")
    security_record(event=Kind.FACTOR_REMOVED, actor=by, about=user.username, address=address)
    return True


@transaction.atomic
def recovery_codes_renew(*, user: User) -> list[str]:
    """New recovery codes instead of the old ones, shown this once."""
    return _codes_make(user)


def recovery_codes_left(user: User) -> int:
    """How many recovery codes can still be used."""
    return RecoveryCode.objects.filter(user=user, used_at__isnull=True).count()


def _locked(factor: SecondFactor) -> bool:
    return factor.locked_until is not None and factor.locked_until > clock.now()


def _taken(factor: SecondFactor, code: str, recovery: Callable[[], bool] = lambda: False) -> bool:
    """Whether the code is one of the app's, or `recovery` takes it; nothing is while it is locked. Its row is
    held."""
    if _locked(factor):
        return False
    step = _step_of(factor, code)
    if step is None and not recovery():
        return False
    factor.last_step = factor.last_step if step is None else step
    factor.failures, factor.locked_until = 0, None
    factor.save(update_fields=["last_step", "failures", "locked_until"])
    return True


def _refused(factor: SecondFactor) -> str:
    """Count a code that was not taken; answers why it was not. Its row is held."""
    if _locked(factor):
        return "Too many wrong codes: try again in a quarter of an hour."
    factor.failures += 1
    if factor.failures >= _MOST_FAILURES:
        factor.failures, factor.locked_until = 0, clock.now() + _LOCK
    factor.save(update_fields=["failures", "locked_until"])
    return "That is not the code of this moment."


def _step_of(factor: SecondFactor, code: str) -> int | None:
    """Which 30 seconds the code is of: these, or those before or after. None: of none, or taken before."""
    said = "".join(code.split())
    if len(said) != 6 or not said.isascii() or not said.isdigit():
        return None
    totp, now = pyotp.TOTP(factor.secret), int(clock.now().timestamp()) // _STEP_S
    for step in (now, now - 1, now + 1):
        if step > factor.last_step and secrets.compare_digest(totp.at(step * _STEP_S), said):
            return step
    return None


def _recovery_taken(user: User, code: str, address: str | None) -> bool:
    digest = _digest(user, code)
    rows = RecoveryCode.objects.filter(user=user, digest=digest, used_at__isnull=True)
    if not rows.update(used_at=clock.now()):
        return False
    left = recovery_codes_left(user)
    security_record(
        event=Kind.RECOVERY_USED, actor=user, about=user.username, address=address, detail={"left": left}
    )
    return True


def _codes_make(user: User) -> list[str]:
    made = [_grouped(secrets.token_hex(_CODE_BYTES)) for _ in range(_CODES)]
    RecoveryCode.objects.filter(user=user).delete()
    RecoveryCode.objects.bulk_create(RecoveryCode(user=user, digest=_digest(user, code)) for code in made)
    return made


def _grouped(code: str) -> str:
    return "-".join(code[at : at + 5] for at in range(0, len(code), 5))


def _digest(user: User, code: str) -> str:
    said = "".join(code.split()).replace("-", "").lower()[:40]
    return hashlib.sha256(f"{user.pk}:{said}".encode()).hexdigest()
