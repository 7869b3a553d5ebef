"""The fake seller keeps true books and misbehaves as asked."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fake_seller.driver import FakeSeller
from tests.sellers.receiver import Receiver
from tests.support import PATIENCE_S, until


@pytest.fixture
def seller(tmp_path: Path) -> Iterator[FakeSeller]:
    with FakeSeller(tmp_path, mode="submitted") as running:
        yield running


def request(product_id: str = "fake-display", **more: Any) -> dict[str, Any]:
    package = {"product_id": product_id, "pricing_option_id": "fake-cpm", "budget": 1000}
    return {"idempotency_key": str(uuid.uuid4()), "packages": [package], "context": {"deal": "1"}} | more


def call(seller: FakeSeller, tool: str, **arguments: Any) -> httpx.Response:
    message = {"id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {"Authorization": f"Bearer {seller.token}"}
    return httpx.post(seller.url, json=message, headers=headers, timeout=PATIENCE_S)


def answer(seller: FakeSeller, tool: str, **arguments: Any) -> dict[str, Any]:
    structured: dict[str, Any] = call(seller, tool, **arguments).json()["result"]["structuredContent"]
    return structured


def test_it_sells_once_per_key_and_its_books_survive_a_kill(seller: FakeSeller) -> None:
    order = request()
    seller.fault("create_media_buy", "drop")
    with pytest.raises(httpx.TransportError):
        call(seller, "create_media_buy", **order)
    port = seller.port
    seller.restart()

    again = answer(seller, "create_media_buy", **order)
    task = answer(seller, "get_task_status", task_id=again["task_id"], include_result=True)
    conflict = answer(seller, "create_media_buy", **order | {"packages": []})

    (bought,) = seller.books()
    assert (again["status"], again["replayed"], again["context"]) == ("submitted", True, {"deal": "1"})
    assert (task["status"], task["result"]["media_buy_id"]) == ("completed", bought["media_buy_id"])
    assert bought["idempotency_key"] == order["idempotency_key"]
    assert conflict["adcp_error"]["code"] == "IDEMPOTENCY_CONFLICT"
    assert len(seller.requests("create_media_buy")) == 3
    assert seller.port == port


def test_each_fault_is_visible_to_the_buyer(seller: FakeSeller) -> None:
    for kind, status, begins in [
        ("http", 500, b"something"),
        ("html", 200, b"<!doctype"),
        ("truncated", 200, b'{"jsonrpc"'),
        ("unauthorized", 401, b'{"error"'),
    ]:
        seller.fault("get_products", kind)
        broken = call(seller, "get_products")
        assert (broken.status_code, broken.content.startswith(begins)) == (status, True), kind
    seller.fault("*", "refuse")
    with pytest.raises(httpx.TransportError):
        call(seller, "create_media_buy", **request())
    seller.fault("create_media_buy", "in_flight", retry_after=3)
    assert answer(seller, "create_media_buy", **request())["adcp_error"]["retry_after"] == 3
    seller.fault("create_media_buy", "error", code="BUDGET_TOO_LOW")
    assert answer(seller, "create_media_buy", **request())["adcp_error"]["code"] == "BUDGET_TOO_LOW"
    seller.fault("create_media_buy", "crash")
    assert call(seller, "create_media_buy", **request()).json()["result"]["isError"]
    assert seller.books() == []
    seller.fault("create_media_buy", "status")
    task = answer(seller, "create_media_buy", **request())
    assert (task["status"], len(seller.books())) == ("requires_approval", 1)
    seller.fault("get_task_status", "new_task_id")
    seller.fault("get_task_status", "stale")
    seller.fault("get_task_status", "merge", answer={"message": "Hello."})
    asked = [answer(seller, "get_task_status", task_id=task["task_id"]) for _ in range(3)]
    assert asked[0]["task_id"] != task["task_id"]
    assert (asked[1]["status"], asked[2]["message"]) == ("working", "Hello.")
    seller.fault("get_products", "huge")
    assert len(call(seller, "get_products").content) > 10 * 1024 * 1024


def test_a_call_that_hangs_is_carried_out_and_answered_on_release(seller: FakeSeller) -> None:
    seller.fault("create_media_buy", "hang")
    with ThreadPoolExecutor(1) as threads:
        answered = threads.submit(call, seller, "create_media_buy", **request())
        until(seller.books, "the purchase is booked")
        assert not answered.done()
        seller.release()
    assert answered.result().status_code == 200


def test_a_script_ends_its_task_and_sends_its_webhooks(seller: FakeSeller) -> None:
    seller.script("slow", first="submitted", pace_s=0.2, webhooks="then_rejected", webhook_faults=["cut"])
    seller.fault("create_media_buy", "http", product_id="another")
    with Receiver() as receiver:
        receiver.refuse = 1
        push = {"url": receiver.url("op"), "token": "t" * 16, "authentication": {"credentials": "s" * 32}}
        order = request("slow", push_notification_config=push)
        first = answer(seller, "create_media_buy", **order)
        assert (first["status"], seller.books()) == ("submitted", [])
        until(
            lambda: len(receiver.deliveries) >= 3,
            "two attempts and the contradiction",
        )
    assert len(seller.books()) == 1
    statuses = [json.loads(row["body"])["status"] for row in seller.rows("select body from webhooks")]
    assert statuses == ["completed", "rejected"]


def test_it_speaks_a2a_and_pages_its_lists(tmp_path: Path) -> None:
    with FakeSeller(tmp_path, protocol="a2a") as seller:
        card = httpx.get(f"{seller.url}/.well-known/agent-card.json", timeout=PATIENCE_S).json()
        url, headers = card["supportedInterfaces"][0]["url"], {"Authorization": f"Bearer {seller.token}"}

        def call_skill(skill: str, arguments: dict[str, Any]) -> dict[str, Any]:
            parts = [{"data": {"skill": skill, "input": arguments}}]
            message = {"id": 1, "method": "SendMessage", "params": {"message": {"parts": parts}}}
            response = httpx.post(url, json=message, headers=headers, timeout=PATIENCE_S)
            data: dict[str, Any] = response.json()["result"]["task"]["artifacts"][0]["parts"][0]["data"]
            return data

        for _ in range(60):
            call_skill("create_media_buy", request())
        wanted = {"status_filter": ["pending_creatives"]}
        first = call_skill("get_media_buys", wanted)
        following = {"pagination": {"cursor": first["pagination"]["cursor"]}}
        second = call_skill("get_media_buys", wanted | following)
    assert [len(first["media_buys"]), len(second["media_buys"])] == [50, 10]
