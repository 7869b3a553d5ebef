"""The faulty seller does what its table says; its books tell what was bought."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faulty_seller import FaultySeller
from tests.sellers.clients import SellerClient
from tests.support import PATIENCE_S, until


@pytest.fixture
def seller(tmp_path: Path) -> Iterator[FaultySeller]:
    with FaultySeller(tmp_path, mode="submitted") as running:
        yield running


def client_of(seller: FaultySeller, folder: Path) -> SellerClient:
    token = folder / "token"
    token.write_text(seller.token)
    return SellerClient({"protocol": "mcp", "url": seller.url, "token_file": str(token)})


def request(**more: Any) -> dict[str, Any]:
    package = {"product_id": "faulty-display", "pricing_option_id": "faulty-cpm", "budget": 1000}
    return {"idempotency_key": str(uuid.uuid4()), "packages": [package], "context": {"deal": "1"}} | more


def raw(seller: FaultySeller, tool: str, **arguments: Any) -> httpx.Response:
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    return httpx.post(
        seller.url, json=call, headers={"Authorization": f"Bearer {seller.token}"}, timeout=PATIENCE_S
    )


def test_well_it_sells_once_per_key(seller: FaultySeller, tmp_path: Path) -> None:
    client, order = client_of(seller, tmp_path), request()

    first = client.call("create_media_buy", **order)
    again = client.call("create_media_buy", **order)
    done = client.call("get_task_status", task_id=first["task_id"], include_result=True)
    listed = client.call("list_tasks")

    assert (first["status"], first["context"]) == ("submitted", {"deal": "1"})
    assert again == {**first, "replayed": True}
    assert done["result"]["media_buy_id"] == seller.books()[0]["media_buy_id"]
    assert [t["task_id"] for t in listed["tasks"]] == [first["task_id"]]
    assert [b["idempotency_key"] for b in seller.books()] == [order["idempotency_key"]]


def test_an_answer_that_is_lost_was_booked_all_the_same(seller: FaultySeller) -> None:
    order = request()
    seller.fault("create_media_buy", "drop")

    with pytest.raises(httpx.TransportError):
        raw(seller, "create_media_buy", **order)
    repeated = raw(seller, "create_media_buy", **order).json()["result"]["structuredContent"]

    assert repeated["replayed"] is True
    assert len(seller.books()) == 1
    assert len(seller.requests("create_media_buy")) == 2


def test_a_connection_refused_books_nothing(seller: FaultySeller) -> None:
    seller.fault("*", "refuse")

    with pytest.raises(httpx.TransportError):
        raw(seller, "create_media_buy", **request())

    assert seller.books() == []


@pytest.mark.parametrize(
    ("kind", "params", "status", "begins"),
    [
        ("http", {}, 500, b"something"),
        ("http", {"status": 503}, 503, b"something"),
        ("html", {}, 200, b"<!doctype"),
        ("truncated", {}, 200, b'{"jsonrpc"'),
        ("unauthorized", {}, 401, b'{"error"'),
    ],
)
def test_broken_answers(
    seller: FaultySeller, kind: str, params: dict[str, Any], status: int, begins: bytes
) -> None:
    seller.fault("get_products", kind, **params)

    broken = raw(seller, "get_products", buying_mode="wholesale")
    well = raw(seller, "get_products", buying_mode="wholesale")

    assert (broken.status_code, broken.content.startswith(begins)) == (status, True)
    assert well.json()["result"]["structuredContent"]["status"] == "completed"
    if kind == "truncated":
        with pytest.raises(json.JSONDecodeError):
            broken.json()


def test_strange_answers(seller: FaultySeller) -> None:
    def answer(tool: str, **arguments: Any) -> dict[str, Any]:
        return raw(seller, tool, **arguments).json()["result"]["structuredContent"]

    seller.fault("create_media_buy", "status")
    strange = answer("create_media_buy", **request())
    assert strange["status"] == "requires_approval"
    assert answer("get_task_status", task_id=strange["task_id"])["status"] == "completed"

    seller.fault("get_task_status", "new_task_id")
    assert answer("get_task_status", task_id=strange["task_id"])["task_id"] != strange["task_id"]

    seller.fault("create_media_buy", "in_flight", retry_after=3)
    assert answer("create_media_buy", **request())["adcp_error"]["retry_after"] == 3

    seller.fault("create_media_buy", "error", code="BUDGET_TOO_LOW", recovery="correctable")
    assert answer("create_media_buy", **request())["adcp_error"]["code"] == "BUDGET_TOO_LOW"

    seller.fault("get_products", "huge")
    assert len(raw(seller, "get_products").content) > 10 * 1024 * 1024
    assert len(seller.books()) == 1


def test_a_hanging_seller_has_booked_and_answers_when_it_is_released(seller: FaultySeller) -> None:
    seller.fault("create_media_buy", "hang")

    with ThreadPoolExecutor(1) as threads:
        told = threads.submit(raw, seller, "create_media_buy", **request())
        until(seller.books, "it is booked")
        assert not told.done()
        seller.release()

    assert told.result().status_code == 200


def test_books_and_port_survive_a_kill(seller: FaultySeller) -> None:
    raw(seller, "create_media_buy", **request())
    port = seller.port

    seller.restart()

    assert seller.port == port
    assert len(seller.books()) == 1
    assert httpx.post(seller.url, json={}, timeout=PATIENCE_S).status_code == 401
