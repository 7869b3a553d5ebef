"""Handing a delivery to the room as its edge does, in this process."""

from __future__ import annotations

from typing import Any, cast

from tasks_app.sellers.models import Seller
from tasks_app.webhooks.answer import Answer, Incoming
from tasks_app.webhooks.models import WebhookDelivery
from tasks_app.webhooks.receive import delivery_receive
from tasks_app.webhooks.refusals import refusals_write
from tasks_app.webhooks.senders import seller_read
from tests.support import until
from tests.webhooks.signing import as_bytes, hmac

ADDRESS = "http://127.0.0.1:8000/webhooks/adcp/{}/"
SECRET = "a-secret-that-the-tests-share-0123456789abcdef"


def take(
    seller: Seller,
    body: dict[str, Any] | bytes,
    headers: dict[str, str] | None = None,
    *,
    source: str = "192.0.2.7",
) -> Answer:
    """As if it came over HTTP; signed with the seller's present secret unless told otherwise."""
    known = seller_read(seller.slug)
    if headers is None:
        headers = hmac(body, known.webhook_secret or "" if known else "")
    headers = {"content-type": "application/json", **{k.lower(): v for k, v in headers.items()}}
    answer = delivery_receive(
        Incoming(
            seller=seller.slug,
            url=ADDRESS.format(seller.slug),
            headers=headers,
            body=as_bytes(body),
            source=source,
        )
    )
    refusals_write()  # as the edge does each second
    return answer


def refused_as(seller: Seller | None, reason: str) -> WebhookDelivery:
    """The latest of the seller's that was refused for that, once the web process has written it."""
    rows = WebhookDelivery.objects.filter(
        seller=seller, verdict="refused", reason__startswith=reason
    ).order_by("-id")
    return cast(WebhookDelivery, until(rows.first, f"{reason} is written"))
