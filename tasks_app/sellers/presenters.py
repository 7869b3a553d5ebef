"""Sellers in words: what they can do, how they tell us, how safe a repeated purchase is."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from tasks_app.desk import text
from tasks_app.desk.items import Item
from tasks_app.lifecycle.names import EntityName, link_to, namer_register
from tasks_app.sellers.models import Seller
from tasks_app.sellers.selectors import seller_names
from tasks_app.sellers.services import seller_abilities

_WEBHOOKS = {
    Seller.WebhookMode.RFC9421: ("RFC 9421", "signed with its own key"),
    Seller.WebhookMode.HMAC: ("HMAC", "legacy, a shared secret"),
    Seller.WebhookMode.HMAC_BODY: ("HMAC, old", "over the body alone, a shared secret"),
    Seller.WebhookMode.BEARER: ("Bearer", "legacy, proves nothing about the body"),
    Seller.WebhookMode.NONE: ("None", "seen by polling only"),
}


def abilities(seller: Seller) -> list[Item]:
    """What the seller can and cannot do, the possible first."""
    found = [
        Item(glyph="done" if able else "stopped", text=words if able else _cannot(words))
        for words, able in seller_abilities(seller).items()
    ]
    return sorted(found, key=lambda item: item.glyph != "done")


def webhooks_words(seller: Seller) -> tuple[str, str]:
    """The webhook mode in a word, and what it means."""
    return _WEBHOOKS[Seller.WebhookMode(seller.webhook_mode)]


def idempotency_words(seller: Seller, accepted_by: str = "") -> tuple[str, str]:
    """How long a repeated purchase is replayed; or that none is promised, and who took the risk."""
    if seller.idempotency_ttl_s is not None:
        return (
            f"{seller.idempotency_ttl_s / 3600:g}{text.SPACE}h",
            "so long the same key gets the same answer",
        )
    if seller.idempotency_risk_accepted_by:
        return "Not declared", f"risk accepted by {accepted_by or seller.idempotency_risk_accepted_by}"
    return "Not declared", "no purchase is sent"


def idempotency_glyph(seller: Seller) -> str:
    """done, person (a risk somebody accepted) or failed (blocked)."""
    if seller.idempotency_ttl_s is not None:
        return "done"
    return "person" if seller.idempotency_risk_accepted_by else "failed"


def _cannot(words: str) -> str:
    if words.startswith("can "):
        return f"cannot {words.removeprefix('can ')}"
    return {"tells us by webhook": "sends no webhooks: it is polled"}.get(words, f"never {words}")


def _names(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    return {
        pk: EntityName(reference=name, name=name, link=link_to(Seller, pk))
        for pk, name in seller_names(ids).items()
    }


namer_register("seller", _names)
