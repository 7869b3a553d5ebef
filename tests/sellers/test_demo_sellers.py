"""The demonstration's sellers as a buyer meets them: over HTTP only, every behaviour of their table."""

from __future__ import annotations

import time
import uuid
from typing import Any

import httpx
import pytest

from tests.sellers.asking import ALL_STATUSES, SECRET, TOKEN, buy_of, finished, order, push
from tests.sellers.clients import SellerClient
from tests.sellers.conftest import Sellers
from tests.sellers.receiver import Receiver
from tests.support import PATIENCE_S, until

pytestmark = pytest.mark.adcp_package


@pytest.mark.parametrize("slug", ["norrland", "cobalt", "quill"])
def test_a_seller_says_what_it_can_and_what_it_sells(sellers: Sellers, slug: str) -> None:
    client = sellers.clients[slug]

    able = client.call("get_adcp_capabilities")
    found = client.call("get_products", buying_mode="brief", brief="reach with video and audio")

    assert able["adcp"]["idempotency"] == {"supported": True, "replay_ttl_seconds": 86400}
    assert "3.2" in able["adcp"]["supported_versions"]
    assert able["webhook_signing"]["supported"] is (slug == "norrland")
    assert {p["channels"][0] for p in found["products"]} == set(
        able["media_buy"]["portfolio"]["primary_channels"]
    )
    for product in found["products"]:
        assert product["forecast"]["points"]
        assert product["cancellation_policy"]["notice_period"]["unit"] == "days"
        assert all(option["min_spend_per_package"] > 0 for option in product["pricing_options"])


def test_an_older_release_is_answered_too(sellers: Sellers) -> None:
    client = sellers.clients["norrland"]

    found = client.call("get_products", buying_mode="wholesale", adcp_version="3.1")
    booked = client.call("create_media_buy", **order("infeed"), adcp_version="3.1")
    unknown = client.call("get_products", buying_mode="wholesale", adcp_version="2.9")

    assert len(found["products"]) == 3
    assert booked["media_buy_status"] == "pending_creatives"
    assert unknown["adcp_error"]["code"] == "VERSION_UNSUPPORTED"


def test_products_are_filtered(sellers: Sellers) -> None:
    norrland, cobalt = sellers.clients["norrland"], sellers.clients["cobalt"]

    def ids(client: SellerClient, **filters: Any) -> set[str]:
        found = client.call("get_products", buying_mode="wholesale", filters=filters)
        return {p["product_id"] for p in found["products"]}

    assert ids(norrland, channels=["olv"]) == {"nor-olv-instream"}
    assert ids(cobalt, countries=["CA"]) == {"cob-ctv-premium"}
    assert ids(cobalt, delivery_type="non_guaranteed") == {"cob-ctv-run"}
    assert ids(norrland, pricing_currencies=["EUR"]) == {
        "nor-display-news-infeed",
        "nor-display-homepage",
        "nor-olv-instream",
    }
    assert ids(norrland, end_date="2020-01-01") == set()


def test_accounts_are_opened_once_per_brand_and_operator(sellers: Sellers) -> None:
    client = sellers.clients["cobalt"]
    entry = {"brand": {"domain": "new-brand.example"}, "operator": "new-brand.example", "billing": "operator"}

    first = client.call("sync_accounts", idempotency_key=str(uuid.uuid4()), accounts=[entry])
    second = client.call("sync_accounts", idempotency_key=str(uuid.uuid4()), accounts=[entry])
    listed = client.call("list_accounts", account={"account_id": first["accounts"][0]["account_id"]})

    assert [first["accounts"][0]["action"], second["accounts"][0]["action"]] == ["created", "unchanged"]
    assert [a["status"] for a in listed["accounts"]] == ["active"]


def test_display_is_booked_at_once(sellers: Sellers) -> None:
    client = sellers.clients["norrland"]
    request = order("infeed")

    answer = client.call("create_media_buy", **request)

    assert (answer["status"], answer["media_buy_status"]) == ("completed", "pending_creatives")
    assert answer["creative_deadline"] < request["start_time"]
    assert answer["packages"][0]["budget"] == 30000
    assert answer["packages"][0]["context"] == {"line": 0}
    assert buy_of(client, request)["media_buy_id"] == answer["media_buy_id"]


def test_a_homepage_is_booked_differently(sellers: Sellers) -> None:
    answer = sellers.clients["norrland"].call("create_media_buy", **order("homepage", budget=10000))

    package = answer["packages"][0]
    assert (package["budget"], package["start_time"]) == (9430.0, "2030-03-02T00:00:00Z")


def test_video_is_approved_by_a_webhook_signed_with_rfc_9421(sellers: Sellers, receiver: Receiver) -> None:
    from adcp.signing import StaticJwksResolver
    from adcp.signing.webhook_verifier import WebhookVerifyOptions, verify_webhook_signature

    client = sellers.clients["norrland"]
    request = order("instream", push_notification_config=push(receiver, "op-video"))

    answer = client.call("create_media_buy", **request)
    open_buy = buy_of(client, request)
    delivery = receiver.until("op-video", "completed")

    assert answer["status"] == "submitted"
    assert open_buy["confirmed_at"] is None
    jwks = httpx.get(sellers.entries["norrland"]["jwks_url"], timeout=PATIENCE_S).json()
    sender = verify_webhook_signature(
        method="POST",
        url=delivery.url,
        headers=delivery.headers,
        body=delivery.body,
        options=WebhookVerifyOptions(jwks_resolver=StaticJwksResolver(jwks)),
    )
    assert sender.key_id == jwks["keys"][0]["kid"]
    content = delivery.content
    assert (content["task_id"], content["token"]) == (answer["task_id"], TOKEN)
    assert content["result"]["media_buy_id"] == open_buy["media_buy_id"]
    assert finished(client, answer["task_id"])["result"]["media_buy_id"] == open_buy["media_buy_id"]


def test_ctv_is_approved_by_a_webhook_with_hmac(sellers: Sellers, receiver: Receiver) -> None:
    from adcp.signing.webhook_hmac import LegacyWebhookHmacOptions, verify_webhook_hmac

    request = order("ctv", push_notification_config=push(receiver, "op-ctv", hmac=True))

    answer = sellers.clients["cobalt"].call("create_media_buy", **request)
    delivery = receiver.until("op-ctv", "completed")

    assert answer["status"] == "submitted"
    verify_webhook_hmac(
        headers=delivery.headers,
        body=delivery.body,
        options=LegacyWebhookHmacOptions(secret=SECRET.encode(), sender_identity="cobalt", now=time.time()),
    )
    assert delivery.content["operation_id"] == "op-ctv"


def test_a_webhook_that_is_refused_comes_again_unchanged(sellers: Sellers, receiver: Receiver) -> None:
    receiver.refuse = 1

    sellers.clients["cobalt"].call(
        "create_media_buy", **order("ctv", push_notification_config=push(receiver, "op-again", hmac=True))
    )
    until(lambda: len(receiver.of("op-again")) == 2)

    first, second = receiver.of("op-again")
    assert first.body == second.body


def test_linear_tv_works_on_it_and_confirms(sellers: Sellers, receiver: Receiver) -> None:
    client = sellers.clients["cobalt"]
    request = order("primetime", push_notification_config=push(receiver, "op-tv", hmac=True))

    answer = client.call("create_media_buy", **request)
    progress = receiver.until("op-tv", "working")
    receiver.until("op-tv", "completed")

    assert (answer["status"], answer["percentage"]) == ("working", 25)
    assert progress.content["result"]["percentage"] == 60
    assert buy_of(client, request)["status"] == "pending_start"


def test_the_late_show_is_refused_also_beside_others(sellers: Sellers) -> None:
    client = sellers.clients["cobalt"]
    request = order("ctv", "lateshow")

    answer = client.call("create_media_buy", **request)

    assert answer["status"] == "rejected"
    assert "Competitive separation" in answer["errors"][0]["message"]
    listed = client.call("get_media_buys", account=request["account"], status_filter=ALL_STATUSES)
    assert request["context"] not in [b.get("context") for b in listed["media_buys"]]


def test_audio_is_seen_only_by_polling(sellers: Sellers, receiver: Receiver) -> None:
    client = sellers.clients["quill"]
    request = order("music", push_notification_config=push(receiver, "op-audio"))

    answer = client.call("create_media_buy", **request)
    task = finished(client, answer["task_id"])
    listed = client.call("list_tasks", filters={"task_ids": [answer["task_id"]]})

    assert answer["status"] == "submitted"
    assert task["result"]["packages"][0]["budget"] == 30000
    assert [(t["status"], t["domain"]) for t in listed["tasks"]] == [("completed", "media-buy")]
    assert receiver.of("op-audio") == []


def test_a_podcast_asks_first(sellers: Sellers) -> None:
    client = sellers.clients["quill"]

    answer = client.call("create_media_buy", **order("music", "hostread"))
    waiting = client.call("get_task_status", task_id=answer["task_id"])

    assert (answer["status"], answer["reason"]) == ("input-required", "APPROVAL_REQUIRED")
    assert waiting["status"] == "input-required"
    assert waiting["message"] == answer["message"]
    assert len(finished(client, answer["task_id"])["result"]["packages"]) == 2


@pytest.mark.parametrize(("slug", "product"), [("norrland", "infeed"), ("cobalt", "ctv"), ("quill", "music")])
def test_the_same_request_buys_once(sellers: Sellers, slug: str, product: str) -> None:
    client = sellers.clients[slug]
    request = order(product)

    first = client.call("create_media_buy", **request)
    again = client.call("create_media_buy", **request)
    other = client.call("create_media_buy", **{**request, "end_time": "2030-05-01T00:00:00Z"})

    assert again == {**first, "replayed": True}
    assert other["adcp_error"]["code"] == "IDEMPOTENCY_CONFLICT"
    assert buy_of(client, request)["packages"][0]["end_time"] == "2030-04-01T00:00:00Z"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"packages": [{"product_id": "nope", "pricing_option_id": "x", "budget": 1}]}, "PRODUCT_NOT_FOUND"),
        ({"account": {"account_id": "nope"}}, "ACCOUNT_NOT_FOUND"),
        ({"end_time": "2030-02-01T00:00:00Z"}, "INVALID_REQUEST"),
        ({"start_time": "2020-01-01T00:00:00Z"}, "INVALID_REQUEST"),
    ],
)
def test_an_order_that_cannot_be_booked_says_why(sellers: Sellers, change: dict[str, Any], code: str) -> None:
    client = sellers.clients["norrland"]
    request = order("infeed") | change

    refused = client.call("create_media_buy", **request)

    assert refused["adcp_error"]["code"] == code
    listed = client.call("get_media_buys", status_filter=ALL_STATUSES, pagination={"max_results": 100})
    assert request["context"] not in [b.get("context") for b in listed["media_buys"]]


def test_a_budget_below_the_minimum_is_refused(sellers: Sellers) -> None:
    refused = sellers.clients["quill"].call("create_media_buy", **order("music", budget=10))

    assert refused["adcp_error"]["code"] == "BUDGET_TOO_LOW"
    assert refused["adcp_error"]["field"] == "packages[0].budget"
