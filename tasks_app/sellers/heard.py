"""What sellers say of themselves and what calls teach of them: kept, and forgotten where it holds no more."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction

from tasks_app import clock
from tasks_app.adcp.capabilities import VERSION_UNSUPPORTED
from tasks_app.adcp.optional import merged, tool_of
from tasks_app.adcp.tasks import CAPABILITIES_TOOL
from tasks_app.adcp.types import Capabilities, Seen
from tasks_app.desk import text
from tasks_app.people.models import User
from tasks_app.sellers.models import SECRET_COLUMNS, Seller
from tasks_app.sellers.trust import shown, trust_record

log = structlog.get_logger(__name__)

# What this product asks of a seller: the tool, and what is lost without it.
WANTED = {
    "get_products": "be asked for products",
    "create_media_buy": "be booked",
    "get_media_buys": "be read for what was booked",
    "get_task_status": "be polled",
    "list_tasks": "be reconciled",
    "update_media_buy": "change a media buy",
    "sync_accounts": "open accounts by brand",
}
_KEYS_WORDS = {
    True: "It declares its keys at another origin than where they are read: its webhooks are refused until "
    "somebody changes that address, and it is polled",
    False: "Its keys are read where it declares them: its webhooks are taken again",
}
# A reading that came to nothing is made again after so long.
READ_AGAIN = timedelta(hours=1)
# A seller that refuses every version is asked no more often for that.
_FLOOR = timedelta(minutes=5)


def heard_columns(capabilities: Capabilities) -> dict[str, Any]:
    """What a seller said of itself, as columns."""
    now = clock.now()
    return {
        "capabilities": dict(capabilities.raw),
        "capabilities_at": now,
        "capabilities_next_at": now + timedelta(seconds=settings.CAPABILITIES_EVERY_S),
        "adcp_version": capabilities.version,
        "tools": sorted(capabilities.tools),
        "idempotency_ttl_s": capabilities.idempotency_ttl_s,
        "quirks": sorted(capabilities.quirks),
    }


@dataclass(frozen=True, kw_only=True)
class Reread:
    """What a seller that was asked again says otherwise of itself, a sentence each."""

    seller: Seller
    words: list[str]


@transaction.atomic
def seller_reread(*, asked: Seller, capabilities: Capabilities) -> Reread | None:
    """Keep what a seller said when it was asked again; None where its address has become another since.

    One that speaks another version, or has other tools, is another release: what calls have taught of the one
    before is forgotten, and learnt again where it still holds.
    """
    seller = Seller.objects.select_for_update(no_key=True).defer(*SECRET_COLUMNS).get(pk=asked.pk)
    if (seller.url, seller.protocol) != (asked.url, asked.protocol):
        return None
    heard = heard_columns(capabilities)
    # What calls taught, and people made forgotten, while it was asked stays so.
    learnt, forgotten = set(seller.quirks) - {*asked.quirks}, {*asked.quirks} - {*seller.quirks}
    heard["quirks"] = sorted(({*heard["quirks"]} | learnt) - forgotten)
    keys_were_elsewhere = seller.keys_elsewhere
    words = _otherwise(seller, heard)
    known = {*asked.quirks, *seller.quirks}
    taught = {quirk for quirk in known if tool_of(quirk) not in ("", CAPABILITIES_TOOL)}
    if (seller.adcp_version, seller.tools) != (heard["adcp_version"], heard["tools"]):
        heard["quirks"] = sorted({*heard["quirks"]} - taught)
    for column, value in heard.items():
        setattr(seller, column, value)
    if seller.keys_elsewhere != keys_were_elsewhere:
        words.append(_KEYS_WORDS[seller.keys_elsewhere])
    seller.save(update_fields=list(heard))
    log.info("seller_read_again", seller=seller.slug, otherwise=words)
    return Reread(seller=seller, words=words)


def _otherwise(seller: Seller, heard: Mapping[str, Any]) -> list[str]:
    before, now = set(seller.tools) & WANTED.keys(), set(heard["tools"]) & WANTED.keys()
    words = []
    if seller.adcp_version != heard["adcp_version"]:
        words.append(f"It speaks AdCP {heard['adcp_version']}, no longer {seller.adcp_version or 'unknown'}")
    words += [f"It no longer lists {tool}" for tool in sorted(before - now)]
    words += [f"It lists {tool} now" for tool in sorted(now - before)]
    if (seller.idempotency_ttl_s is None) != (heard["idempotency_ttl_s"] is None):
        replays = heard["idempotency_ttl_s"] is not None
        words.append(f"It {'replays' if replays else 'no longer replays'} a repeated purchase")
    return words


def read_refusal_keep(*, seller_id: uuid.UUID, refusal: str) -> None:
    """Keep why a seller refuses our credentials; empty if it takes them."""
    Seller.objects.filter(pk=seller_id).update(read_refusal=text.stated(refusal))


@transaction.atomic
def quirk_forget(*, seller: Seller, quirk: str, actor: User) -> bool:
    """Unlearn one thing that calls have taught of a seller: it is asked as any other until it refuses that
    again. False where it was forgotten already."""
    seller = Seller.objects.select_for_update(no_key=True).get(pk=seller.pk)
    if quirk not in seller.quirks:
        return False
    before = shown(seller, "quirks")
    seller.quirks = [kept for kept in seller.quirks if kept != quirk]
    seller.save(update_fields=["quirks"])
    trust_record(seller, {"quirks": (before, shown(seller, "quirks"))}, actor, told=False)
    return True


def seller_read_now(*, seller_id: uuid.UUID, floor: timedelta = timedelta(0)) -> bool:
    """Make a seller's next reading due at once, unless one was made, or tried, within the `floor`."""
    now = clock.now()
    rows = Seller.objects.filter(pk=seller_id).exclude(capabilities_at__gt=now - floor)
    # One that was tried is due again READ_AGAIN later.
    rows = rows.exclude(
        capabilities_next_at__gt=now + READ_AGAIN - floor, capabilities_next_at__lte=now + READ_AGAIN
    )
    return bool(rows.update(capabilities_next_at=now))


def version_heard(*, seller_id: uuid.UUID, seen: Seen) -> None:
    """A seller answered: where it does not speak the AdCP version it was asked in, it is read again soon."""
    refused = seen.error is not None and seen.error.code == VERSION_UNSUPPORTED
    if refused or seen.other_version:
        seller_read_now(seller_id=seller_id, floor=_FLOOR)


@transaction.atomic
def seller_learn(*, seller_id: uuid.UUID, learned: Iterable[str]) -> None:
    """Keep what a call found out of how the seller wants to be asked, until it says otherwise."""
    seller = Seller.objects.select_for_update(no_key=True).only("slug", "quirks").get(pk=seller_id)
    quirks = sorted(merged(seller.quirks, learned))
    if quirks != sorted(seller.quirks):
        Seller.objects.filter(pk=seller_id).update(quirks=quirks)
        log.info("seller_learned", seller=seller.slug, quirks=sorted(learned))
