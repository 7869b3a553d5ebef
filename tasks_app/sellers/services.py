"""Adding sellers and keeping what they said they can do. Network first, rows after."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog
from asgiref.sync import sync_to_async
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.db.models import Max

from tasks_app import clock
from tasks_app.adcp import client
from tasks_app.adcp.signatures.jwks import KeysError, fetch_jwks_uri
from tasks_app.adcp.signatures.origins import same_origin
from tasks_app.adcp.types import Capabilities
from tasks_app.lifecycle.transitions import Who
from tasks_app.people.actors import SYSTEM, actor_ensure
from tasks_app.people.house import NO_HOUSE, is_house_named
from tasks_app.people.models import Actor, User
from tasks_app.people.roles import ACCEPT_RISK
from tasks_app.sellers.accounts import account_save, account_switched, holdable, switched_off_words
from tasks_app.sellers.columns import ACCOUNT_TRUST, SELLER_HANDLING, SELLER_ROTATED, SELLER_TRUST
from tasks_app.sellers.headers import headers_opened, headers_sealed
from tasks_app.sellers.heard import WANTED, Reread, heard_columns, seller_reread
from tasks_app.sellers.models import SECRET_COLUMNS, Account, Seller
from tasks_app.sellers.names import free_slug, name_check
from tasks_app.sellers.timing import timing_clean
from tasks_app.sellers.trust import (
    Made,
    in_use,
    row_change,
    secret_ensure,
    shown,
    trust_locked,
    trust_record,
    trust_waiting,
    trust_withdraw,
)

log = structlog.get_logger(__name__)

_DISCOVERY_TIMEOUT_S = 30.0
# A rotated secret is accepted at least so long (AdCP's replay window), and at most.
_ROTATION = (timedelta(minutes=5), timedelta(days=14))
_SETTINGS = (
    *("name", "slots", "active", "jwks_url", "allow_private", "contact_email", "business_hours", "headers"),
    "status_tool",
)
# What was given to one host and is no other's; a risk accepted for it goes as its address does (trust.py).
_OF_THE_HOST: dict[str, Any] = {"token": None, "secret_headers": None, "jwks_url": ""}
_OLDER = {
    "get_task_status": ("get_task", "tasks/get", "tasks_get"),
    "list_tasks": ("tasks/list", "tasks_list"),
}


async def seller_read_again(*, seller: Seller) -> Reread | None:
    """Ask a seller again what it can do and keep it; None where its address has become another meanwhile.
    Raises DiscoveryError (what it said before stands)."""
    capabilities = await client.discover(seller.endpoint(timeout_s=_DISCOVERY_TIMEOUT_S))
    return await sync_to_async(seller_reread)(asked=seller, capabilities=capabilities)


def seller_add(
    *,
    name: str,
    url: str,
    protocol: str,
    token: str | None = None,
    webhooks: str | None = None,
    jwks_url: str | None = None,
    allow_private: bool | None = None,
    slots: int | None = None,
    auth_scheme: str | None = None,
    headers: Mapping[str, str] | None = None,
    secret_headers: Mapping[str, str] | None = None,
    status_tool: str | None = None,
    account_in_reads: str | None = None,
    new: bool = False,
    actor: Who = SYSTEM,
    reason: str = "",
) -> tuple[Seller, Capabilities]:
    """Ask a seller what it can do, then keep it (an existing one of that name is brought up to date: what is
    None stays). Of one in use, what decides whom we believe waits for a second person (`trust_waiting`).

    A token and secret headers that were kept are not sent to another host: with a new address come new ones,
    or none, and keys are looked for anew; nor does a risk count for it that was accepted for another. Raises
    DiscoveryError (nothing is kept) and ValidationError for values that cannot be kept; with `new`, also for
    the name of a seller that is there.
    """
    if not is_house_named():
        raise ValidationError(NO_HOUSE)
    draft = _named(name) or Seller(slug=free_slug(name, url))
    known_at = (draft.url, draft.protocol)
    given: dict[str, Any] = {
        "name": name,
        "url": url,
        "protocol": protocol,
        "token": token or None,
        "webhook_mode": webhooks,
        "jwks_url": jwks_url,
        "allow_private": allow_private,
        "slots": slots,
        "auth_scheme": auth_scheme,
        "headers": headers if headers is None else dict(headers),
        "secret_headers": headers_sealed(secret_headers or {}),
        "status_tool": status_tool,
        "account_in_reads": account_in_reads,
    }
    values = {column: value for column, value in given.items() if value is not None}
    if not same_origin(draft.url, url):
        values = {**_OF_THE_HOST, **values}
        draft.quirks = []
    for column, value in values.items():
        setattr(draft, column, value)
    draft.capabilities = {}  # it is asked for its own: what it declared may hold no more
    draft.full_clean(exclude=[*SECRET_COLUMNS])
    capabilities = asyncio.run(client.discover(draft.endpoint(timeout_s=_DISCOVERY_TIMEOUT_S)))
    if draft.webhook_mode == Seller.WebhookMode.RFC9421 and not draft.jwks_url:
        values["jwks_url"] = draft.jwks_url = _published_keys(draft, capabilities)
    draft.capabilities = dict(capabilities.raw)
    draft.clean()
    known_as = None if new else known_at
    kept = _keep(draft, values, capabilities, known_at=known_as, actor=actor, reason=reason)
    return kept, capabilities


def _named(name: str) -> Seller | None:
    """The seller that people call so. Raises ValidationError where they call two so, or another one so that
    it looks the same."""
    found = list(Seller.objects.filter(name=name)[:2])
    if len(found) > 1:
        raise ValidationError({"name": "two sellers are called so: give one another name first"})
    if not found:
        name_check(name)
    return found[0] if found else None


def _published_keys(seller: Seller, capabilities: Capabilities) -> str:
    """Where the seller publishes its keys, by its brand.json. Raises ValidationError."""
    if not capabilities.brand_json_url:
        raise ValidationError({"jwks_url": "the seller names no brand.json: say where its keys are"})
    try:
        return asyncio.run(
            fetch_jwks_uri(seller.url, capabilities.brand_json_url, allow_private=seller.allow_private)
        )
    except KeysError as error:
        raise ValidationError({"jwks_url": f"brand.json: {error}"}) from error


@transaction.atomic
def _keep(
    draft: Seller,
    values: Mapping[str, Any],
    capabilities: Capabilities,
    *,
    known_at: tuple[str, str] | None,
    actor: Who,
    reason: str,
) -> Seller:
    """Write a new seller, or change the one that the draft is of. `known_at`: the address and protocol it
    had when it was decided what goes along with the new one; None if no seller may have the name. Raises
    ValidationError, also where it has another by now: credentials for that would go to this one."""
    with connection.cursor() as cursor:  # one at a time: names and slugs that are free stay so
        cursor.execute("select pg_advisory_xact_lock(hashtext('flightdeck seller_add'))")
    kept = Seller.objects.select_for_update(no_key=True)
    seller = kept.filter(pk=draft.pk).first() or kept.filter(name=draft.name).first()
    heard = heard_columns(capabilities)
    if seller is None:
        seller = Seller(slug=free_slug(draft.name, draft.url), **values, **heard)
        secret_ensure(seller)
        seller_born(seller, actor, {"added": True})
    elif known_at is None:
        raise ValidationError({"name": "Another seller is called so."})
    elif seller.pk == draft.pk and (seller.url, seller.protocol) != known_at:
        raise ValidationError({"url": "somebody has changed its address meanwhile: ask it again"})
    else:
        row_change(row=seller, values=values, actor=actor, reason=reason, heard=heard)
    Actor.objects.update_or_create(
        key=f"agent:{seller.slug}", defaults={"kind": Actor.Kind.AGENT, "name": seller.name}
    )
    return seller


@transaction.atomic
def seller_import(*, name: str, url: str, actor: Who) -> Seller:
    """Keep a seller that another system knew: off, and asked nothing, until somebody adds it; recorded."""
    slug = free_slug(name, url)
    seller = Seller(slug=slug, name=name, url=url, protocol=Seller.Protocol.MCP, active=False)
    seller_born(seller, actor, {"imported": True})
    Actor.objects.get_or_create(
        key=f"agent:{seller.slug}", defaults={"kind": Actor.Kind.AGENT, "name": seller.name}
    )
    return seller


@transaction.atomic
def seller_born(seller: Seller, actor: Who, detail: Mapping[str, Any]) -> None:
    """Keep a new seller, with its entry in the security log, which names everything that is not empty. Raises
    ValidationError for a name that is another's."""
    name_check(seller.name)
    seller.save(force_insert=True)
    told = {name: shown(seller, name) for name in (*SELLER_HANDLING, *SELLER_ROTATED)}
    more = [name for name, value in told.items() if value != "none"]
    first = {name: ("none", shown(seller, name)) for name in (*SELLER_TRUST, *more)}
    trust_record(seller, first, actor, told=False, detail=detail)


@dataclass(frozen=True, kw_only=True)
class SellerChange:
    """What people may change of a seller. What is empty of `token`, `secret_headers` and the choices keeps
    what is stored; `risk_accepted` is somebody's word that purchases may be sent although the seller does not
    declare that it replays a repeated one. `reason` is for who approves what needs a second person."""

    name: str
    slots: int
    active: bool
    jwks_url: str
    allow_private: bool
    token: str = ""
    risk_accepted: bool = False
    contact_email: str = ""
    business_hours: dict[str, Any] = field(default_factory=dict)
    webhook_mode: str = ""
    auth_scheme: str = ""
    account_in_reads: str = ""
    status_tool: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    secret_headers: dict[str, str] = field(default_factory=dict)
    forget_token: bool = False
    forget_secret_headers: bool = False
    reason: str = ""


@transaction.atomic
def seller_change(*, seller: Seller, change: SellerChange, actor: User) -> Made:
    """Write a person's changes, or ask for those that need a second person, and record who accepted the
    idempotency risk. Raises ValidationError (nothing is written)."""
    seller = Seller.objects.select_for_update(no_key=True).get(pk=seller.pk)
    values = {name: getattr(change, name) for name in _SETTINGS}
    chosen = ("webhook_mode", "auth_scheme", "account_in_reads")
    values |= {name: getattr(change, name) for name in chosen if getattr(change, name)}
    if change.secret_headers or change.forget_secret_headers:
        values["secret_headers"] = headers_sealed(change.secret_headers)
    if change.token or change.forget_token:
        values["token"] = change.token or None
    # Of one that promises to replay there is no risk, and the form asks for nothing.
    if seller.idempotency_ttl_s is None and change.risk_accepted != bool(seller.idempotency_risk_accepted_by):
        values |= _risk(actor, accepted=change.risk_accepted)
    return row_change(row=seller, values=values, actor=actor, reason=change.reason)


def _risk(actor: User, *, accepted: bool) -> dict[str, Any]:
    """By whom and when; anybody who may change the seller takes it back. Raises ValidationError."""
    if accepted and not actor.has_perm(ACCEPT_RISK):
        raise ValidationError({"risk_accepted": "Only an administrator accepts this risk."})
    return {
        "idempotency_risk_accepted_by": actor_ensure(user=actor).key if accepted else "",
        "idempotency_risk_accepted_at": clock.now() if accepted else None,
    }


@transaction.atomic
def seller_timing_change(*, seller: Seller, timing: Mapping[str, Any], actor: User) -> list[str]:
    """Write the numbers that differ from their defaults for this seller; None is the default. Answers the
    names that changed. Raises ValidationError (nothing is written)."""
    seller = Seller.objects.select_for_update(no_key=True).get(pk=seller.pk)
    kept = timing_clean(timing)
    changed = sorted(name for name in {*kept, *seller.timing} if kept.get(name) != seller.timing.get(name))
    row_change(row=seller, values={"timing": kept}, actor=actor)
    return changed


@transaction.atomic
def account_change(*, account: Account, values: Mapping[str, Any], actor: User, reason: str = "") -> Made:
    """Write what a person says of an account, or ask for what needs a second person. Whose it is and with
    whom is what it is: deals hold it. Raises ValidationError (nothing is written)."""
    if {"advertiser", "seller"} & values.keys():
        raise ValidationError("An account stays its advertiser’s, with its seller: make another one.")
    locked = Account.objects.select_for_update(no_key=True, of=("self",)).select_related(
        "seller", "advertiser"
    )
    return row_change(row=locked.get(pk=account.pk), values=values, actor=actor, reason=reason)


@transaction.atomic
def account_hold(*, account: Account, actor: User) -> None:
    """Keep off what its seller switched off: from now on people let it go, and the seller's word does not.
    One person may always switch off; recorded. Raises ValidationError where there is nothing to keep off."""
    rows = Account.objects.select_for_update(no_key=True, of=("self",)).select_related("seller", "advertiser")
    held = rows.get(pk=account.pk)
    if not holdable(held):
        off = switched_off_words(held)
        raise ValidationError(f"{off} already." if off else "Its seller has not switched it off.")
    account_switched(held, actor)
    held.people_said_at = clock.now()
    account_save(held, before=held.status)
    kept = {"status": (held.status, f"{held.status}, until people let it go")}
    trust_record(held, kept, actor, told=in_use(held))


@transaction.atomic
def account_add(*, account: Account, actor: Who) -> None:
    """Keep an account that a person made; recorded."""
    account_switched(account, actor)
    account.people_said_at = clock.now()
    account_save(account, before="")
    first = {name: ("none", shown(account, name)) for name in (*ACCOUNT_TRUST, "requested_by")}
    trust_record(account, first, actor, told=False, detail={"added": True})


@transaction.atomic
def change_withdraw(*, row: Seller | Account, actor: User, seen: str | None = None) -> bool:
    """Take back what waits for a second person: `seen`, the id of the change that was shown, or None for
    whatever waits. False where that waits no more, or somebody has just decided."""
    waiting = trust_waiting(row)
    if waiting is None or seen not in (None, str(waiting.pk)):
        return False
    change = trust_locked(waiting.pk)
    if change is None:
        return False
    trust_withdraw(change, actor=actor)
    return True


@transaction.atomic
def webhook_secret_rotate(
    *, seller: Seller, actor: User, drop_present: bool = False, seen: str | None = None
) -> datetime | None:
    """Give the seller a new shared secret: purchases asked for from now on tell it to sign with that.

    Those asked for before told it the present one. It stays accepted until the last of them is due and the
    seller's retry window after it has passed; the answer is that moment. `drop_present`: somebody else may
    know it, so it is accepted no more, open purchases are seen by polling alone, and the answer is None.
    `seen`: the fingerprint of the secret that whoever asks was shown as the present one. Raises
    ValidationError for a seller without a shared secret, whose last rotation still lasts, or whose present
    secret is another: purchases that left since have told the seller that one.
    """
    seller = Seller.objects.select_for_update(no_key=True).get(pk=seller.pk)
    now = clock.now()
    if not seller.shares_webhook_secret:
        raise ValidationError("The seller proves its webhooks with keys of its own, or sends none.")
    before = shown(seller, "webhook_secret")
    if seen not in (None, before):
        raise ValidationError("Nothing was rotated: somebody has, since this page was opened. Open it again.")
    lasts = seller.webhook_secret_previous_until
    if not drop_present and lasts and lasts > now:
        raise ValidationError(
            f"The secret before is accepted until {lasts:%Y-%m-%d %H:%M} UTC: purchases still rely on it."
        )
    until = None if drop_present else _relied_on_until(seller, now)
    seller.webhook_secret_previous = None if drop_present else seller.webhook_secret
    seller.webhook_secret_previous_until = until
    seller.webhook_secret = secrets.token_urlsafe(32)
    seller.save(update_fields=["webhook_secret", "webhook_secret_previous", "webhook_secret_previous_until"])
    rotated = {"webhook_secret": (before, shown(seller, "webhook_secret"))}
    accepted = {"the one before is accepted until": str(until or "no more")}
    trust_record(seller, rotated, actor_ensure(user=actor), detail=accepted)
    return until


def _relied_on_until(seller: Seller, now: datetime) -> datetime:
    """When no open purchase can be told of with the present secret any more."""
    pending = seller.operations.filter(settled_at__isnull=True, webhook_token__isnull=False)
    last = pending.aggregate(Max("deadline_at"))["deadline_at__max"]
    relied = last + seller.delivery_horizon if last else now
    return min(max(relied, now + _ROTATION[0]), now + _ROTATION[1])


def seller_abilities(seller: Seller) -> dict[str, bool]:
    """What the seller can and cannot do, in words."""
    tools = set(seller.tools)
    can = {f"can {words}": bool(tools & {tool, *_OLDER.get(tool, ())}) for tool, words in WANTED.items()}
    can["replays a repeated purchase (idempotency)"] = seller.idempotency_ttl_s is not None
    return can


def seller_options(seller: Seller) -> dict[str, str]:
    """What people set for the seller, in words; secrets by name alone."""
    secret = headers_opened(seller.secret_headers)
    given = [
        *(f"{name}: {value}" for name, value in seller.headers.items()),
        *(f"{n}: (secret)" for n in secret or ()),
        *(["(secret ones under a lost key)"] if secret is None else []),
    ]
    return {
        "webhooks": str(seller.get_webhook_mode_display()),
        "keys": seller.jwks_url or "none",
        "credentials": str(seller.get_auth_scheme_display()) if seller.token else "none",
        "headers of its own": "; ".join(given) or "none",
        "private address": "allowed" if seller.allow_private else "not allowed",
        "calls at a time": str(seller.slots),
        "status tool": seller.status_tool or _listed(seller.task_tool),
        "account in reads": str(seller.get_account_in_reads_display()),
    }


def _listed(tool: str | None) -> str:
    return f"{tool}, as it lists" if tool else "none listed"
