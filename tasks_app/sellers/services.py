"""Adding sellers and keeping what they said they can do. Network first, rows after."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import structlog
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Max
from django.utils.text import slugify

from tasks_app import clock
from tasks_app.adcp import client
from tasks_app.adcp.signatures.jwks import KeysError, fetch_jwks_uri
from tasks_app.adcp.types import Capabilities
from tasks_app.people.actors import SYSTEM, actor_ensure, actor_key
from tasks_app.people.models import Actor, Advertiser, User
from tasks_app.people.roles import ADD_SELLER
from tasks_app.sellers.models import Account, Seller
from tasks_app.sellers.timing import timing_clean

log = structlog.get_logger(__name__)

_DISCOVERY_TIMEOUT_S = 30.0
_SECRETS = ("token", "webhook_secret", "webhook_secret_previous")
# A rotated secret is accepted at least so long (AdCP's replay window), and at most.
_ROTATION = (timedelta(minutes=5), timedelta(days=14))
# What this product asks of a seller: the tool, and what is lost without it.
_WANTED = {
    "get_products": "be asked for products",
    "create_media_buy": "be booked",
    "get_media_buys": "be read for what was booked",
    "get_task_status": "be polled",
    "list_tasks": "be reconciled",
    "update_media_buy": "change a media buy",
    "sync_accounts": "open accounts by brand",
}
_SETTINGS = ("name", "slots", "active", "jwks_url", "allow_private", "contact_email", "business_hours")
_OLDER = {"get_task_status": ("tasks/get", "tasks_get"), "list_tasks": ("tasks/list", "tasks_list")}


_renewed: list[Callable[[Seller, str], object]] = []


def on_credentials(listener: Callable[[Seller, str], object]) -> None:
    """Call `listener(seller, actor key)` in the commit that gives a seller new credentials."""
    if listener not in _renewed:
        _renewed.append(listener)


def seller_add(
    *,
    name: str,
    url: str,
    protocol: str,
    token: str | None = None,
    webhooks: str = Seller.WebhookMode.NONE,
    jwks_url: str = "",
    allow_private: bool = False,
    slots: int = 1,
) -> tuple[Seller, Capabilities]:
    """Ask a seller what it can do, then keep it (an existing one of that name is brought up to date).

    A token that was kept is not sent to another host: with a new address comes a new token, or none.
    Raises DiscoveryError (nothing is kept) and ValidationError for values that cannot be kept.
    """
    slug = slugify(name)[:60]
    seller = Seller.objects.filter(slug=slug).first() or Seller(slug=slug)
    same_host = urlsplit(seller.url).netloc == urlsplit(url).netloc
    seller.name, seller.url, seller.protocol = name, url, protocol
    seller.token = token or (seller.token if same_host else None)
    seller.webhook_mode, seller.jwks_url = webhooks, jwks_url
    seller.allow_private, seller.slots = allow_private, slots
    if seller.shares_webhook_secret and not seller.webhook_secret:
        seller.webhook_secret = secrets.token_urlsafe(32)
    seller.full_clean(exclude=[*_SECRETS])
    capabilities = asyncio.run(client.discover(seller.endpoint(timeout_s=_DISCOVERY_TIMEOUT_S)))
    if webhooks == Seller.WebhookMode.RFC9421 and not jwks_url:
        seller.jwks_url = _published_keys(seller, capabilities)
    with transaction.atomic():
        _keep(seller, capabilities)
        if token:
            _tell_renewed(seller, SYSTEM)
    return seller, capabilities


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


def seller_refresh(*, seller: Seller) -> Capabilities:
    """Ask again. Raises DiscoveryError, and then changes nothing."""
    capabilities = asyncio.run(client.discover(seller.endpoint(timeout_s=_DISCOVERY_TIMEOUT_S)))
    _keep(seller, capabilities)
    return capabilities


def _keep(seller: Seller, capabilities: Capabilities) -> None:
    seller.capabilities = dict(capabilities.raw)
    seller.capabilities_at = clock.now()
    seller.adcp_version = capabilities.version
    seller.tools = sorted(capabilities.tools)
    seller.idempotency_ttl_s = capabilities.idempotency_ttl_s
    seller.quirks = sorted({*seller.quirks, *capabilities.quirks})
    _save_but_health(seller)
    Actor.objects.update_or_create(
        key=f"agent:{seller.slug}", defaults={"kind": Actor.Kind.AGENT, "name": seller.name}
    )


def _save_but_health(seller: Seller) -> None:
    """Without the columns that the sweep writes, maybe while the seller was being asked."""
    kept = {"id", "webhook_paused_until", "webhook_judged_since", "webhook_checked_at"}
    names = [field.name for field in Seller._meta.concrete_fields if field.name not in kept]
    seller.save(update_fields=None if seller._state.adding else names)


@dataclass(frozen=True, kw_only=True)
class SellerChange:
    """What people may change of a seller. `token` "" keeps the stored one; `risk_accepted` is somebody's word
    that purchases may be sent although the seller does not declare that it replays a repeated one."""

    name: str
    slots: int
    active: bool
    jwks_url: str
    allow_private: bool
    token: str = ""
    risk_accepted: bool = False
    contact_email: str = ""
    business_hours: dict[str, Any] = field(default_factory=dict)


@transaction.atomic
def seller_change(*, seller: Seller, change: SellerChange, actor: User) -> list[str]:
    """Write a person's changes and record who accepted the idempotency risk; answers what changed, by field.

    Raises ValidationError (nothing is written).
    """
    seller = Seller.objects.select_for_update(no_key=True).get(pk=seller.pk)
    changed = [name for name in _SETTINGS if getattr(seller, name) != getattr(change, name)]
    for name in changed:
        setattr(seller, name, getattr(change, name))
    if change.token:
        seller.token = change.token
        changed.append("token")
    if change.risk_accepted != bool(seller.idempotency_risk_accepted_by):
        _accept_risk(seller, actor, accepted=change.risk_accepted)
        changed += ["idempotency_risk_accepted_by", "idempotency_risk_accepted_at"]
    seller.full_clean(exclude=[*_SECRETS, "capabilities", "tools", "quirks"])
    if changed:
        seller.save(update_fields=changed)
        if "name" in changed:
            Actor.objects.filter(key=f"agent:{seller.slug}").update(name=seller.name)
        log.info("seller_changed", seller=seller.slug, fields=changed, by=actor_key(actor))
    if "token" in changed:
        _tell_renewed(seller, actor_key(actor))
    return changed


def _accept_risk(seller: Seller, actor: User, *, accepted: bool) -> None:
    """By whom and when; anybody who may change the seller takes it back. Raises ValidationError."""
    if accepted and not actor.has_perm(ADD_SELLER):
        raise ValidationError({"risk_accepted": "Only an administrator accepts this risk."})
    seller.idempotency_risk_accepted_by = actor_ensure(user=actor).key if accepted else ""
    seller.idempotency_risk_accepted_at = clock.now() if accepted else None


@transaction.atomic
def seller_timing_change(*, seller: Seller, timing: Mapping[str, Any], actor: User) -> list[str]:
    """Write the numbers that differ from their defaults for this seller; None is the default. Answers the
    names that changed. Raises ValidationError (nothing is written)."""
    seller = Seller.objects.select_for_update(no_key=True).get(pk=seller.pk)
    kept = timing_clean(timing)
    changed = sorted(name for name in {*kept, *seller.timing} if kept.get(name) != seller.timing.get(name))
    if changed:
        seller.timing = kept
        seller.save(update_fields=["timing"])
        log.info("seller_timing_changed", seller=seller.slug, numbers=changed, by=actor_key(actor))
    return changed


def _tell_renewed(seller: Seller, actor: str) -> None:
    for listener in _renewed:
        listener(seller, actor)


@transaction.atomic
def webhook_secret_rotate(*, seller: Seller, actor: User, drop_present: bool = False) -> datetime | None:
    """Give the seller a new shared secret: purchases asked for from now on tell it to sign with that.

    Those asked for before told it the present one. It stays accepted until the last of them is due and the
    seller's retry window after it has passed; the answer is that moment. `drop_present`: somebody else may
    know it, so it is accepted no more, open purchases are seen by polling alone, and the answer is None.
    Raises ValidationError for a seller without a shared secret, or whose last rotation still lasts.
    """
    seller = Seller.objects.select_for_update(no_key=True).get(pk=seller.pk)
    now = clock.now()
    if not seller.shares_webhook_secret:
        raise ValidationError("The seller proves its webhooks with keys of its own, or sends none.")
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
    log.info(
        "webhook_secret_rotated",
        seller=seller.slug,
        by=actor_ensure(user=actor).key,
        previous_until=str(until or "dropped"),
    )
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
    can = {f"can {words}": bool(tools & {tool, *_OLDER.get(tool, ())}) for tool, words in _WANTED.items()}
    can["replays a repeated purchase (idempotency)"] = seller.idempotency_ttl_s is not None
    can["tells us by webhook"] = seller.uses_webhooks
    return can


def account_record(*, advertiser: Advertiser, seller: Seller, answer: dict[str, Any]) -> Account:
    """Keep one account as a seller's sync_accounts or list_accounts answered it."""
    reference: dict[str, Any] = {}
    if answer.get("account_id"):
        reference = {"account_id": answer["account_id"]}
    elif isinstance(answer.get("brand"), dict):
        reference = {"brand": answer["brand"], "operator": answer.get("operator", "")}
    status = str(answer.get("status") or Account.Status.PENDING)
    told = answer.get("setup")
    setup = told if isinstance(told, dict) else {}
    account, _ = Account.objects.update_or_create(
        advertiser=advertiser,
        seller=seller,
        defaults={
            "reference": reference,
            "status": status if status in Account.Status.values else Account.Status.PENDING,
            "billing_party": _billed(advertiser, str(answer.get("billing") or "")),
            "payment_terms": str(answer.get("payment_terms") or "")[:40],
            "setup_url": str(setup.get("url") or "")[:500],
        },
    )
    return account


def _billed(advertiser: Advertiser, party: str) -> str:
    """Who gets the invoice, by name: AdCP says which party (enums/billing-party), not who that is."""
    ours = settings.ORGANISATION_NAME
    names = {"operator": ours, "agent": ours, "advertiser": advertiser.name, "brand": advertiser.name}
    return str(names.get(party, party))[:120]
