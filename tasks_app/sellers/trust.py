"""What decides whom we believe: how the columns of a seller and of an account (`columns.py`) are changed.

Once a seller (an account) is in use, a change of what decides whom we believe waits for a second person, and
the present values stand until then, also for what is under way. What only takes trust away is done at once,
by one person; so is the first setup, before any operation. Each is recorded with before and after.
"""

from __future__ import annotations

import copy
import json
import secrets
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from django.core.exceptions import ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.utils.crypto import salted_hmac

from tasks_app import clock
from tasks_app.adcp.signatures.origins import same_origin
from tasks_app.desk.explain import Mover
from tasks_app.lifecycle.transitions import Who
from tasks_app.people.actors import SYSTEM, actor_key, is_login
from tasks_app.people.models import Actor
from tasks_app.people.security import Kind, security_record
from tasks_app.people.security_models import SecurityEvent
from tasks_app.sellers.accounts import SWITCHED_OFF, account_save, account_switched
from tasks_app.sellers.columns import SELLER_HEARD, SELLER_ROTATED, Row, trusted_of
from tasks_app.sellers.headers import headers_opened
from tasks_app.sellers.models import Account, Seller, TrustChange
from tasks_app.sellers.names import name_check

log = structlog.get_logger(__name__)
_SALT = "tasks_app.sellers.trust"
_FINGERPRINT = 12  # hex digits
_ON, _OFF = "yes", "no"  # as a column is shown that is one or the other
_NONE = "none"  # as one is shown that is empty


_CREDENTIALS = ("token", "secret_headers")
_RISK: dict[str, Any] = {"idempotency_risk_accepted_by": "", "idempotency_risk_accepted_at": None}


@dataclass(frozen=True, kw_only=True)
class Made:
    """What became of a wish: the columns that were written, and the change that waits for a second person."""

    changed: list[str]
    waiting: TrustChange | None = None


@dataclass(frozen=True, kw_only=True)
class Approvers:
    """How the room above reaches who decides: `ask` puts a change to them, `withdraw` takes the question back
    with a reason, `tell` tells them of {field: (before, after)} that one person changed; `deciding` names
    who decides on a change that waits."""

    ask: Callable[[TrustChange], None]
    withdraw: Callable[[TrustChange, str, Who], None]
    tell: Callable[[Row, Mapping[str, tuple[str, str]], str], None]
    deciding: Callable[[TrustChange], tuple[Mover, ...]]


_approvers: list[Approvers] = []
_renewed: list[Callable[[Seller, str], object]] = []
_uses: list[Callable[[Row], bool]] = []


def approvers_register(approvers: Approvers) -> None:
    """Called once, when the application starts."""
    _approvers[:] = [approvers]


def on_credentials(listener: Callable[[Seller, str], object]) -> None:
    """Call `listener(seller, actor key)` in the commit that gives a seller new credentials."""
    if listener not in _renewed:
        _renewed.append(listener)


def use_register(used: Callable[[Row], bool]) -> None:
    """Let the storey that buys say whether it relies on a row, though nothing was asked under it yet."""
    if used not in _uses:
        _uses.append(used)


def in_use(row: Row) -> bool:
    """Whether anything was ever asked under it, waits to be, or is held with it."""
    return bool(row.operations.exists()) or any(used(row) for used in _uses)


def needs_second(row: Row, name: str, value: Any) -> bool:
    """Whether a person's change of that column to that value waits for a second one, as things stand."""
    return in_use(row) and not _takes(row, name, {name: value})


def trust_deciding(change: TrustChange) -> tuple[Mover, ...]:
    """Who decides on a change that waits for a second person."""
    return _approvers[0].deciding(change)


def _is_relied_on(row: Row) -> bool:
    """Whether it is in use, or is being used at this moment; where it is not, nobody begins to before the
    caller's commit."""
    if in_use(row):
        return True
    # A foreign key's own lock goes beside that of a change; this one waits for it, and lets none by.
    type(row)._default_manager.select_for_update(of=("self",)).only("pk").get(pk=row.pk)
    return in_use(row)


def fingerprint(secret: str | None) -> str:
    """What tells two secrets apart and tells nothing of either; needs SECRET_KEY to be made."""
    if not secret:
        return _NONE
    return f"fingerprint {salted_hmac(_SALT, secret, algorithm='sha256').hexdigest()[:_FINGERPRINT]}"


def shown(row: Row, name: str) -> str:
    """A column's present value for people; a secret by its fingerprint."""
    value = getattr(row, name)
    known = trusted_of(row).get(name)
    if name == "secret_headers":
        opened = headers_opened(value)
        if opened is None:
            return "under a lost key"
        return ", ".join(f"{header} {fingerprint(one)}" for header, one in opened.items()) or _NONE
    if (known and known.secret) or name in SELLER_ROTATED:
        return fingerprint(value and str(value))
    if isinstance(value, bool):
        return _ON if value else _OFF
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True, cls=DjangoJSONEncoder) if value else _NONE
    return str(value) if value not in (None, "") else _NONE


def row_change(
    *,
    row: Row,
    values: Mapping[str, Any],
    actor: Who,
    reason: str = "",
    heard: Mapping[str, Any] | None = None,
) -> Made:
    """Write the columns `values` of a row that the caller holds locked, or ask for them. `heard`: what the
    seller said of itself when asked with these values; it goes with what waits. Raises ValidationError
    (nothing is written)."""
    wanted = {name: value for name, value in values.items() if getattr(row, name) != value}
    _check(row, {**wanted, **(heard or {})})
    trusted = trusted_of(row)
    nameless = actor_key(actor) == SYSTEM
    relied_on = bool(wanted) and (nameless or bool(trusted.keys() & wanted.keys())) and _is_relied_on(row)
    if relied_on and nameless:
        raise ValidationError("It is in use: who changes it has to be named (--as).")
    held = _held(row, wanted) if relied_on else []
    now = {name: value for name, value in wanted.items() if name not in held}
    if not held:
        now = {**now, **(heard or {})}
    changed = _write(row, now, actor=actor, reason=reason)
    if not held:
        return Made(changed=changed)
    waits = {name: wanted[name] for name in held}
    return Made(changed=changed, waiting=_ask(row, waits, heard or {}, actor, reason))


def trust_waiting(row: Row) -> TrustChange | None:
    """The change that waits for a second person."""
    open_ = TrustChange.objects.filter(applied_at__isnull=True, refused_at__isnull=True)
    if isinstance(row, Seller):
        return open_.filter(seller=row, account__isnull=True).first()
    return open_.filter(account=row).first()


def trust_locked(change_id: uuid.UUID) -> TrustChange | None:
    """A change that still waits, held until the caller's commit; None where it was applied or refused."""
    rows = TrustChange.objects.filter(pk=change_id, applied_at__isnull=True, refused_at__isnull=True)
    return rows.select_for_update(no_key=True, of=("self",)).first()


def trust_row(change: TrustChange) -> Row:
    """What it changes, held still until the caller's commit."""
    if change.account_id is not None:
        return Account.objects.select_for_update(no_key=True, of=("self",)).get(pk=change.account_id)
    return Seller.objects.select_for_update(no_key=True).get(pk=change.seller_id)


def trust_before(change: TrustChange, row: Row) -> dict[str, str]:
    """What it would change, as it stands now."""
    return {name: shown(row, name) for name in change.after}


def trust_draft(seller: Seller) -> Seller:
    """The seller as it would be with what waits for a second person; not to be saved."""
    waiting = trust_waiting(seller)
    draft = copy.copy(seller)
    for name, value in _kept(waiting, seller).items() if waiting else ():
        setattr(draft, name, value)
    return draft


def _kept(change: TrustChange, row: Row) -> dict[str, Any]:
    """The values that a change will write."""
    fields = {field.name: field for field in row._meta.concrete_fields}
    return {name: fields[name].to_python(value) for name, value in json.loads(str(change.values)).items()}


def trust_apply(change: TrustChange, *, actor: str, reference: str) -> None:
    """Write a change that a second person approved. Raises ValidationError."""
    row = trust_row(change)
    values = _kept(change, row)
    _check(row, values)
    asked = {"asked_by": change.asked_by, "approval": reference}
    _write(row, values, actor=actor, reason=change.reason, detail=asked)
    change.applied_at, change.ended_by, change.values = clock.now(), actor, None
    change.save(update_fields=["applied_at", "ended_by", "values"])


def trust_refuse(change: TrustChange, *, actor: str, why: str) -> None:
    """A change is not made, and its values are forgotten."""
    change.refused_at, change.ended_by, change.values = clock.now(), actor, None
    change.save(update_fields=["refused_at", "ended_by", "values"])
    security_record(
        event=Kind.SELLER_REFUSED,
        actor=actor,
        about=str(change.account or change.seller),
        detail={"asked_by": change.asked_by, "asked": _pairs(change), "reason": why},
    )


def trust_withdraw(change: TrustChange, *, actor: Who) -> None:
    """Take back what waits: anybody who may change the seller does, since it takes trust away at most."""
    _approvers[0].withdraw(change, "Withdrawn", actor)
    trust_refuse(change, actor=actor_key(actor), why="Withdrawn")


def trust_record(
    row: Row,
    pairs: Mapping[str, tuple[str, str]],
    actor: Who,
    *,
    told: bool = True,
    detail: Mapping[str, Any] | None = None,
    event: Kind = Kind.SELLER_CHANGED,
) -> None:
    """Record what changed, {field: (before, after)} as shown, and tell who approves; in the transaction that
    changes it: PostgreSQL refuses a change without its record at commit."""
    changes = {name: list(pair) for name, pair in pairs.items()}
    security_record(
        event=event,
        actor=actor,
        about=_named(row),
        detail={"changes": changes, **(detail or {})},
    )
    log.info(event.value, seller=_named(row), fields=sorted(pairs), by=actor_key(actor))
    if told and _approvers:
        _approvers[0].tell(row, pairs, actor_key(actor))


def _held(row: Row, wanted: Mapping[str, Any]) -> list[str]:
    """Of what is wanted, what waits for a second person; credentials that go because the address becomes
    another stay with the present one until then."""
    with_it = _CREDENTIALS if "url" in wanted else ()
    return [
        name
        for name in trusted_of(row)
        if name in wanted and (name in with_it or not _takes(row, name, wanted))
    ]


def _takes(row: Row, name: str, wanted: Mapping[str, Any]) -> bool:
    """Whether a new value, of all that are wanted, only takes trust away; what a person switched off is let
    go by two. Whose account a seller takes us for may hang on a secret header: while our token stays, one
    that goes may make another's of what is sent."""
    value = wanted[name]
    if name == "secret_headers" and isinstance(row, Seller) and wanted.get("token", row.token):
        return False
    if name == "status" and isinstance(row, Account) and row.switched_off_by and value not in SWITCHED_OFF:
        return False
    if name == "active" and isinstance(row, Seller) and value:
        return not _was_on(row)
    return trusted_of(row)[name].takes(value)


def _was_on(seller: Seller) -> bool:
    """Whether one that is off was ever on: asked anything, or switched off by a person. One that came with an
    import is off from the beginning."""
    switched_off = SecurityEvent.objects.filter(
        event=Kind.SELLER_CHANGED, about=_named(seller), detail__changes__active=[_ON, _OFF]
    )
    return seller.operations.exists() or switched_off.exists()


def _check(row: Row, values: Mapping[str, Any]) -> None:
    """Whether the row would be right with them. Raises ValidationError."""
    draft = copy.copy(row)
    draft._state = copy.copy(row._state)
    for name, value in values.items():
        setattr(draft, name, value)
    if isinstance(row, Seller) and "name" in values:
        name_check(str(values["name"]), but=row)
    secret = [name for name, one in trusted_of(row).items() if one.secret]
    draft.full_clean(exclude=[*secret, *SELLER_HEARD, *SELLER_ROTATED])


def _write(
    row: Row,
    values: Mapping[str, Any],
    *,
    actor: Who,
    reason: str,
    detail: Mapping[str, Any] | None = None,
) -> list[str]:
    """Write columns, record and tell of those that people change; answers which."""
    values = {**_left_behind(row, values), **_asked_first(row, values), **values}
    before = {name: shown(row, name) for name in values}
    status = row.status if isinstance(row, Account) else ""
    for name, value in values.items():
        setattr(row, name, value)
    made = ["webhook_secret"] if values and isinstance(row, Seller) and secret_ensure(row) else []
    if values and isinstance(row, Account):
        row.people_said_at = clock.now()
        if "status" in values:
            account_switched(row, actor)
        account_save(row, before=status)
    elif values:
        row.save(update_fields=[*values, *made])
    by_people = [name for name in values if name not in SELLER_HEARD]
    pairs = {name: (before.get(name, _NONE), shown(row, name)) for name in [*by_people, *made]}
    if pairs:
        said = {**({"reason": reason} if reason else {}), **(detail or {})}
        trust_record(row, pairs, actor, told=not detail and _is_told(row, pairs), detail=said)
    if isinstance(row, Seller) and "name" in values:
        Actor.objects.filter(key=f"agent:{row.slug}").update(name=row.name)
    if isinstance(row, Seller) and any(values.get(name) for name in _CREDENTIALS):
        credentials_tell(row, actor_key(actor))
    return by_people


def _left_behind(row: Row, values: Mapping[str, Any]) -> dict[str, Any]:
    """What is not taken along to another host: the risk that somebody accepted for the one before."""
    moves = isinstance(row, Seller) and "url" in values and not same_origin(row.url, str(values["url"]))
    return {name: kept for name, kept in _RISK.items() if moves and getattr(row, name) != kept}


def _asked_first(row: Row, values: Mapping[str, Any]) -> dict[str, Any]:
    """One that was imported and never asked what it can do is asked once somebody switches it on."""
    unasked = isinstance(row, Seller) and row.capabilities_at is None and bool(values.get("active"))
    return {"capabilities_next_at": clock.now()} if unasked else {}


def secret_ensure(seller: Seller) -> bool:
    """Give one that proves itself by a shared secret its first; it is made here and chosen by nobody."""
    missing = seller.shares_webhook_secret and not seller.webhook_secret
    if missing:
        seller.webhook_secret = secrets.token_urlsafe(32)
    return missing


def credentials_tell(seller: Seller, actor: str) -> None:
    """It has new credentials: what waited for them goes on."""
    for listener in _renewed:
        listener(seller, actor)


def credentials_given(seller: Seller) -> SecurityEvent | None:
    """When a person gave it its present credentials, and who; None where they are gone or nobody is known."""
    changed = SecurityEvent.objects.filter(
        event=Kind.SELLER_CHANGED, about=_named(seller), detail__changes__has_any_keys=_CREDENTIALS
    )
    newest = changed.order_by("-id").first()
    if newest is None or not is_login(newest.actor):
        return None
    after = {name: pair[1] for name, pair in newest.detail["changes"].items()}
    return newest if credentials_among(after) else None


def credentials_among(after: Mapping[str, str]) -> bool:
    """Whether new values, as shown, hold credentials and do not only take them away."""
    return any(after.get(name, _NONE) != _NONE for name in _CREDENTIALS)


def _is_told(row: Row, names: Collection[str]) -> bool:
    """Whether those who approve hear of it: what touches trust, of what is in use."""
    return bool(trusted_of(row).keys() & set(names)) and in_use(row)


def _ask(
    row: Row, values: Mapping[str, Any], heard: Mapping[str, Any], actor: Who, reason: str
) -> TrustChange:
    """The same asked again is the one that waits. Raises ValidationError where another one does."""
    kept = json.dumps(dict(values), sort_keys=True, cls=DjangoJSONEncoder)
    waiting = trust_waiting(row)
    if waiting is not None:
        asked = json.loads(str(waiting.values))
        if kept == json.dumps({name: asked.get(name) for name in waiting.after}, sort_keys=True):
            return waiting
        raise ValidationError("A change of it waits for a second person already: withdraw that one first.")
    before = {name: shown(row, name) for name in values}
    draft = copy.copy(row)
    for name, value in values.items():
        setattr(draft, name, value)
    account = row if isinstance(row, Account) else None
    change = TrustChange.objects.create(
        seller=row.seller if isinstance(row, Account) else row,
        account=account,
        asked_by=actor_key(actor),
        asked_at=clock.now(),
        reason=" ".join(reason.split())[:500],
        before=before,
        after={name: shown(draft, name) for name in values},
        values=json.dumps({**values, **heard}, cls=DjangoJSONEncoder),
    )
    security_record(
        event=Kind.SELLER_ASKED,
        actor=actor,
        about=_named(row),
        detail={"asked": _pairs(change), **({"reason": change.reason} if change.reason else {})},
    )
    _approvers[0].ask(change)
    return change


def _pairs(change: TrustChange) -> dict[str, list[str]]:
    return {name: [change.before[name], after] for name, after in change.after.items()}


def _named(row: Row) -> str:
    return row.slug if isinstance(row, Seller) else f"{row.advertiser} with {row.seller}"
