"""The whole room against the demonstration's three sellers: real processes, real bytes, real webhooks."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tasks_app.adcp import requests as r
from tasks_app.adcp.client import call, discover, task_list_tool, task_status_tool
from tasks_app.adcp.hygiene import token_matches
from tasks_app.adcp.signatures import hmac_sha256, rfc9421
from tasks_app.adcp.signatures.jwks import fetch_jwks, find_jwk
from tasks_app.adcp.strict_json import parse_object
from tasks_app.adcp.tasks import next_cursor, task_item
from tasks_app.adcp.types import Capabilities, Endpoint, Seen
from tasks_app.adcp.webhook_body import WebhookEnvelope, read_webhook
from tests.ending import ending
from tests.support import PATIENCE_S, SELLERS_S, until

from .raw_server import RawServer, Request, response, serve

pytestmark = pytest.mark.adcp_package
ROOT = Path(__file__).resolve().parents[2]
PROTOCOLS = {"norrland": "mcp", "cobalt": "a2a", "quill": "mcp"}
BRAND = r.Brand(domain="acme.example.com")
ACCOUNT = r.Account(brand=BRAND, operator="agency.example.com")
TOKEN = "token-for-webhooks-0123456789"
HMAC_SECRET = "9f8e7d6c5b4a39281706f5e4d3c2b1a0"


@dataclass
class Seller:
    endpoint: Endpoint
    capabilities: Capabilities
    jwks_url: str | None

    def ask(self, tool: str, request: Any = None) -> Seen:
        arguments = request.model_dump(mode="json", exclude_none=True) if request is not None else {}
        return asyncio.run(call(self.endpoint, tool, arguments, secrets=[TOKEN, HMAC_SECRET]))

    def buy(self, product_id: str, pricing_option_id: str, **changes: Any) -> tuple[Seen, r.CreateMediaBuy]:
        request = r.CreateMediaBuy(
            idempotency_key=str(uuid.uuid4()),
            account=ACCOUNT,
            brand=BRAND,
            start_time=datetime(2027, 3, 1, tzinfo=UTC),
            end_time=datetime(2027, 4, 1, tzinfo=UTC),
            packages=[
                r.PackageRequest(
                    product_id=product_id,
                    pricing_option_id=pricing_option_id,
                    budget=Decimal("40000.50"),
                    context={"line": "1"},
                )
            ],
            context={"deal_id": "d-1", "operation_id": "o-1"},
            **changes,
        )
        return self.ask("create_media_buy", request), request

    def poll_until(self, task_id: str, status: str) -> Seen:
        tool = task_status_tool(self.capabilities)
        assert tool is not None

        def found() -> Seen | None:
            seen = self.ask(tool, r.GetTaskStatus(task_id=task_id, account=ACCOUNT))
            return seen if seen.status == status else None

        seen = until(found, f"{task_id} {status}", every=0.3)
        assert seen is not None
        return seen


@pytest.fixture(scope="module")
def sellers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Seller]]:
    state = tmp_path_factory.mktemp("sellers")
    command = [sys.executable, "-m", "demo.sellers", "serve", "--state", str(state), "--pace", "1"]
    with (
        (state / "log").open("wb") as log,
        ending(
            subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT), signal.SIGTERM
        ) as process,
    ):
        listing = state / "sellers.json"
        until(lambda: listing.exists() or process.poll() is not None, patience=SELLERS_S)
        assert listing.exists(), (state / "log").read_text()
        yield {entry["slug"]: _seller(entry) for entry in json.loads(listing.read_text())}


def _seller(entry: dict[str, Any]) -> Seller:
    token = Path(entry["token_file"]).read_text().strip()
    endpoint = Endpoint(
        url=entry["url"],
        protocol=entry["protocol"],
        token=token,
        allow_private=True,
        timeout_s=PATIENCE_S,
    )
    found = asyncio.run(discover(endpoint))
    pinned = replace(endpoint, adcp_version=found.version, quirks=found.quirks)
    return Seller(pinned, found, entry["jwks_url"])


@pytest.mark.parametrize("slug", PROTOCOLS)
def test_discovery(sellers: dict[str, Seller], slug: str) -> None:
    found = sellers[slug].capabilities
    assert found.version == "3.2"
    assert {"get_products", "create_media_buy", "get_media_buys"} <= found.tools
    assert found.idempotency_ttl_s
    assert found.channels
    assert found.agent_name
    assert task_status_tool(found) == "get_task_status"
    assert task_list_tool(found) == "list_tasks"


@pytest.mark.parametrize("slug", PROTOCOLS)
def test_products(sellers: dict[str, Seller], slug: str) -> None:
    seen = sellers[slug].ask("get_products", r.GetProducts(brief="Everything", brand=BRAND, account=ACCOUNT))
    assert (seen.kind, seen.status) == ("answer", "completed")
    assert seen.payload is not None
    assert all(product["pricing_options"] for product in seen.payload["products"])


def test_a_buy_that_completes_at_once_and_its_replay(sellers: dict[str, Seller]) -> None:
    seller = sellers["norrland"]
    seen, request = seller.buy("nor-display-news-infeed", "infeed-cpm-usd")
    assert (seen.status, seen.media_buy_status) == ("completed", "pending_creatives")
    assert seen.payload is not None
    assert seen.payload["revision"] == 1
    assert seen.context == {"deal_id": "d-1", "operation_id": "o-1"}
    again = seller.ask("create_media_buy", request)
    assert again.replayed
    assert again.payload == seen.payload
    other = request.model_copy(update={"po_number": "PO-2"})
    conflict = seller.ask("create_media_buy", other)
    assert conflict.error is not None
    assert conflict.error.code == "IDEMPOTENCY_CONFLICT"


def test_a_buy_that_only_polling_sees(sellers: dict[str, Seller]) -> None:
    seller = sellers["quill"]
    seen, _ = seller.buy("qui-audio-music", "music-cpm")
    assert seen.status == "submitted"
    assert seen.task_id is not None
    done = seller.poll_until(seen.task_id, "completed")
    assert done.payload is not None
    assert done.payload["media_buy_id"]
    assert done.media_buy_status == "pending_creatives"
    listed = seller.ask("list_tasks", r.ListTasks(account=ACCOUNT))
    items = map(task_item, (listed.payload or {})["tasks"])
    assert seen.task_id in {item.task_id for item in items if item}


def test_a_seller_that_asks_first(sellers: dict[str, Seller]) -> None:
    seen, _ = sellers["quill"].buy("qui-podcast-hostread", "hostread-cpm")
    assert (seen.kind, seen.status) == ("answer", "input-required")
    assert seen.message
    assert seen.continuation is None


@pytest.mark.parametrize("slug", PROTOCOLS)
def test_errors_of_the_seller(sellers: dict[str, Seller], slug: str) -> None:
    refused, _ = sellers[slug].buy("no-such-product", "none")
    assert (refused.kind, refused.status) == ("answer", "failed")
    assert refused.error is not None
    assert refused.error.code == "PRODUCT_NOT_FOUND"
    unknown = sellers[slug].ask("get_task_status", r.GetTaskStatus(task_id="no-such-task"))
    assert unknown.status == "unknown"
    assert unknown.error is not None
    stranger = replace(sellers[slug].endpoint, token="wrong")
    denied = asyncio.run(call(stranger, "get_products", {"buying_mode": "wholesale"}))
    assert denied.status == "auth-required"


@pytest.mark.parametrize("slug", PROTOCOLS)
def test_media_buys_are_found_by_our_context(sellers: dict[str, Seller], slug: str) -> None:
    seller = sellers[slug]
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(20):
        page = r.Pagination(max_results=2, cursor=cursor)
        seen = seller.ask("get_media_buys", r.GetMediaBuys(account=ACCOUNT, pagination=page))
        assert seen.status == "completed"
        found += (seen.payload or {})["media_buys"]
        cursor = next_cursor(seen)
        if cursor is None:
            break
    assert cursor is None
    assert all(buy["status"] for buy in found)


def _receiver(server: RawServer) -> Any:
    return lambda request, connection: connection.sendall(response("{}"))


def _registration(
    server: RawServer, authentication: r.WebhookAuthentication | None
) -> r.PushNotificationConfig:
    return r.PushNotificationConfig(
        url=f"{server.url}/webhooks/adcp/it/", operation_id="o-1", token=TOKEN, authentication=authentication
    )


def _completed(server: RawServer) -> Request:
    def found() -> Request | None:
        return next((one for one in server.requests if one.json.get("status") == "completed"), None)

    request = until(found, "a webhook that says completed")
    assert request is not None
    return request


def _read(request: Request) -> tuple[WebhookEnvelope, Seen]:
    envelope, seen = read_webhook(parse_object(request.body))
    assert token_matches(TOKEN, envelope.token)
    assert TOKEN not in repr(seen)
    return envelope, seen


def test_a_webhook_signed_with_rfc_9421(sellers: dict[str, Seller]) -> None:
    seller = sellers["norrland"]
    assert seller.jwks_url is not None
    with serve(_receiver) as server:
        seen, _ = seller.buy(
            "nor-olv-instream", "instream-cpm-usd", push_notification_config=_registration(server, None)
        )
        assert seen.status == "submitted"
        request = _completed(server)
    jwks = asyncio.run(fetch_jwks(seller.jwks_url, allow_private=True))
    verified = rfc9421.verify(
        "POST",
        server.url + request.path,
        request.headers,
        request.body,
        find_key=lambda keyid: find_jwk(jwks, keyid),
        check_revoked=lambda keyid: None,
        replay=rfc9421.ReplayGuard(
            is_full=lambda keyid: False,
            is_known=lambda keyid, nonce: False,
            remember=lambda keyid, nonce, seconds: True,
        ),
        now=time.time(),
    )
    assert verified.keyid
    envelope, told = _read(request)
    assert (envelope.operation_id, told.task_id) == ("o-1", seen.task_id)
    polled = seller.poll_until(str(seen.task_id), "completed")
    assert told.payload == polled.payload
    assert told.media_buy_status == polled.media_buy_status


def test_a_webhook_signed_with_hmac_over_a2a(sellers: dict[str, Seller]) -> None:
    seller = sellers["cobalt"]
    authentication = r.WebhookAuthentication(schemes=["HMAC-SHA256"], credentials=HMAC_SECRET)
    with serve(_receiver) as server:
        seen, _ = seller.buy(
            "cob-ctv-premium",
            "ctv-premium-cpm",
            push_notification_config=_registration(server, authentication),
        )
        assert seen.status == "submitted"
        assert seen.a2a_task_id
        request = _completed(server)
    hmac_sha256.verify(request.headers, request.body, secrets=[HMAC_SECRET], now=time.time())
    envelope, told = _read(request)
    assert (envelope.operation_id, told.task_id) == ("o-1", seen.task_id)
    polled = seller.poll_until(str(seen.task_id), "completed")
    assert told.payload == polled.payload
