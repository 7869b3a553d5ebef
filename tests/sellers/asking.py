"""What a buyer asks of the demonstration's sellers."""

from __future__ import annotations

import uuid
from typing import Any

from tests.sellers.clients import SellerClient
from tests.sellers.receiver import Receiver
from tests.support import until

ALL_STATUSES = ["pending_creatives", "pending_start", "active", "paused", "completed", "rejected", "canceled"]
SECRET = "a shared secret of forty characters, ok!"
TOKEN = "flightdeck-token-0001"
PRODUCTS = {
    "infeed": ("norrland", "nor-display-news-infeed", "infeed-cpm-usd"),
    "homepage": ("norrland", "nor-display-homepage", "homepage-cpm-usd"),
    "instream": ("norrland", "nor-olv-instream", "instream-cpcv-usd"),
    "ctv": ("cobalt", "cob-ctv-premium", "ctv-premium-cpm"),
    "primetime": ("cobalt", "cob-tv-primetime", "prime-cpp-p2554"),
    "lateshow": ("cobalt", "cob-tv-lateshow", "lateshow-flat"),
    "music": ("quill", "qui-audio-music", "music-cpm"),
    "hostread": ("quill", "qui-podcast-hostread", "hostread-cpm"),
}


def order(*names: str, budget: float = 30000, **more: Any) -> dict[str, Any]:
    """A create_media_buy request for products of one seller, with a context of its own."""
    packages = [
        {
            "product_id": PRODUCTS[name][1],
            "pricing_option_id": PRODUCTS[name][2],
            "budget": budget,
            "context": {"line": number},
        }
        for number, name in enumerate(names)
    ]
    return {
        "idempotency_key": str(uuid.uuid4()),
        "account": {"brand": {"domain": "aurora-shoes.example"}, "operator": "harbor-media.example"},
        "brand": {"domain": "aurora-shoes.example"},
        "start_time": "2030-03-01T00:00:00Z",
        "end_time": "2030-04-01T00:00:00Z",
        "packages": packages,
        "context": {"deal_id": uuid.uuid4().hex},
    } | more


def push(receiver: Receiver, operation_id: str, *, hmac: bool = False) -> dict[str, Any]:
    config: dict[str, Any] = {
        "url": receiver.url(operation_id),
        "operation_id": operation_id,
        "token": TOKEN,
    }
    if hmac:
        config["authentication"] = {"schemes": ["HMAC-SHA256"], "credentials": SECRET}
    return config


def buy_of(client: SellerClient, request: dict[str, Any]) -> dict[str, Any]:
    """The one media buy in the books that carries the request's context."""
    listed = client.call("get_media_buys", account=request["account"], status_filter=ALL_STATUSES)
    (found,) = [b for b in listed["media_buys"] if b.get("context") == request["context"]]
    return found


def finished(client: SellerClient, task_id: str) -> dict[str, Any]:
    def done() -> dict[str, Any] | None:
        task = client.call("get_task_status", task_id=task_id, include_result=True)
        return task if task["status"] == "completed" else None

    return until(done)
