"""The demonstration's sellers after the sale: what they keep, list and change; a kill loses nothing."""

from __future__ import annotations

import os
import signal
import stat
import uuid

import httpx
import pytest

from tests.sellers.asking import ALL_STATUSES, buy_of, finished, order, push
from tests.sellers.conftest import Sellers
from tests.sellers.receiver import Receiver
from tests.support import PATIENCE_S, until

pytestmark = pytest.mark.adcp_package


def test_a_buy_is_changed_and_cancelled(sellers: Sellers) -> None:
    client = sellers.clients["norrland"]
    request = order("infeed")
    booked = client.call("create_media_buy", **request)
    which = {"account": request["account"], "media_buy_id": booked["media_buy_id"]}

    less = client.call(
        "update_media_buy",
        **which,
        idempotency_key=str(uuid.uuid4()),
        revision=1,
        packages=[{"package_id": booked["packages"][0]["package_id"], "budget": 5000}],
    )
    stale = client.call(
        "update_media_buy", **which, idempotency_key=str(uuid.uuid4()), revision=1, canceled=True
    )
    ended = client.call(
        "update_media_buy", **which, idempotency_key=str(uuid.uuid4()), revision=2, canceled=True
    )

    assert (less["revision"], less["total_budget"]) == (2, 5000)
    assert stale["adcp_error"]["code"] == "CONFLICT"
    assert (ended["media_buy_status"], ended["valid_actions"]) == ("canceled", [])
    assert buy_of(client, request)["status"] == "canceled"


def test_buys_are_listed_page_by_page(sellers: Sellers) -> None:
    client = sellers.clients["norrland"]
    account = {"brand": {"domain": "pages.example"}, "operator": "pages.example"}
    made = {
        client.call("create_media_buy", **order("infeed", account=account))["media_buy_id"] for _ in range(3)
    }

    first = client.call(
        "get_media_buys", account=account, status_filter=ALL_STATUSES, pagination={"max_results": 2}
    )
    rest = client.call(
        "get_media_buys",
        account=account,
        status_filter=ALL_STATUSES,
        pagination={"max_results": 2, "cursor": first["pagination"]["cursor"]},
    )

    assert {b["media_buy_id"] for b in first["media_buys"] + rest["media_buys"]} == made
    assert not rest["pagination"]["has_more"]
    assert client.call("get_media_buys", account=account)["media_buys"] == []


@pytest.mark.parametrize("slug", ["norrland", "cobalt", "quill"])
def test_without_the_token_nothing_is_sold(sellers: Sellers, slug: str) -> None:
    entry = sellers.entries[slug]
    call = {"name": "get_products", "arguments": {"buying_mode": "wholesale"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    if entry["protocol"] == "a2a":
        part = {"data": {"skill": "get_products", "input": call["arguments"]}}
        message = {"messageId": "1", "role": "ROLE_USER", "parts": [part]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    headers = {"Accept": "application/json, text/event-stream", "A2A-Version": "1.0"}

    statuses = {
        httpx.post(entry["url"], json=body, headers=headers | more, timeout=PATIENCE_S).status_code
        for more in ({}, {"Authorization": "Bearer wrong"})
    }

    assert statuses == {401}


def test_what_a_seller_keeps_is_private(sellers: Sellers) -> None:
    for path in (sellers.state / "norrland/token", sellers.state / "norrland/webhook-key.pem"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_killed_seller_comes_back_and_goes_on(sellers: Sellers, receiver: Receiver) -> None:
    client = sellers.clients["norrland"]
    done = order("infeed")
    waiting = order("instream", push_notification_config=push(receiver, "op-killed"))
    first = client.call("create_media_buy", **done)
    task = client.call("create_media_buy", **waiting)
    jwks = httpx.get(sellers.entries["norrland"]["jwks_url"], timeout=PATIENCE_S).json()
    pid = sellers.pids()["norrland"]

    os.kill(pid, signal.SIGKILL)
    until(lambda: sellers.pids()["norrland"] != pid)

    assert client.call("create_media_buy", **done) == {**first, "replayed": True}
    assert buy_of(client, done)["media_buy_id"] == first["media_buy_id"]
    assert receiver.until("op-killed", "completed").content["task_id"] == task["task_id"]
    assert (
        finished(client, task["task_id"])["result"]["media_buy_id"] == buy_of(client, waiting)["media_buy_id"]
    )
    assert httpx.get(sellers.entries["norrland"]["jwks_url"], timeout=PATIENCE_S).json() == jwks
