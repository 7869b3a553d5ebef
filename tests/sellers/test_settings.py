"""What a seller needs besides its address: its own headers, either kind of credentials, names, arguments."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.urls import reverse

from tasks_app import clock
from tasks_app.adcp.client import call as client_call
from tasks_app.adcp.types import Seen
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.headers import headers_parse, secret_headers_parse
from tasks_app.sellers.models import Seller
from tasks_app.sellers.services import seller_options
from tests.adcp.raw_server import RawServer, Request, serve
from tests.adcp.scripted_seller import a2a_result, endpoint, mcp_result, rpc, seller
from tests.factories import make_seller, make_user
from tests.operations.making import stand
from tests.operations.sweeping import sweep
from tests.support import PATIENCE_S
from tests.ui.pages import send

pytestmark = pytest.mark.django_db
KEY = "a-key-of-the-gateway"


def call_of(kept: Seller, server: RawServer, protocol: str, tool: str, arguments: dict[str, Any]) -> Seen:
    """One call with the seller's settings, to the server."""
    url = endpoint(server, protocol).url
    made = replace(kept.endpoint(timeout_s=PATIENCE_S), url=url, protocol=protocol, adcp_version=None)
    return asyncio.run(client_call(made, tool, arguments))


def replying(data: dict[str, Any], protocol: str) -> Any:
    def answer(request: Request) -> bytes:
        return rpc(request, result=a2a_result(data) if protocol == "a2a" else mcp_result(data))

    return seller(answer)


@pytest.mark.parametrize("protocol", ["mcp", "a2a"])
@pytest.mark.parametrize(
    ("scheme", "token", "sent"),
    [
        ("bearer", "tok-123456", "Bearer tok-123456"),
        ("basic", "house:pass-word", f"Basic {base64.b64encode(b'house:pass-word').decode()}"),
    ],
)
def test_every_request_carries_the_credentials_and_the_headers_of_its_own(
    protocol: str, scheme: str, token: str, sent: str
) -> None:
    kept = make_seller(
        "Vasa",
        auth_scheme=scheme,
        token=token,
        headers={"X-Tenant": "acme"},
        secret_headers=json.dumps({"X-Api-Key": KEY}),
    )
    echoed = {"status": "completed", "products": [], "note": f"{KEY} {token} {sent.split()[1]}"}
    with serve(replying(echoed, protocol)) as server:
        seen = call_of(kept, server, protocol, "get_products", {})
        assert server.requests
        for request in server.requests:
            assert request.headers["authorization"] == sent
            assert request.headers["x-tenant"] == "acme"
            assert request.headers["x-api-key"] == KEY
    assert seen.kind == "answer"
    for secret in (KEY, token, sent.split()[1]):
        assert secret not in str(seen.raw) + str(seen.payload), "what a seller repeats of them is hidden"
    assert KEY not in repr(kept.endpoint(timeout_s=PATIENCE_S))
    assert {KEY, token} <= set(kept.known_secrets)


@pytest.mark.parametrize("text", ["X Tenant: a", "X-Tenant", "X-Tenant:", "X-T: a\nx-t: b", "X-T: ä"])
def test_what_is_no_header_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        headers_parse(text)


@pytest.mark.parametrize("name", ["Authorization", "Host", "Content-Type", "mcp-session-id", "A2A-Version"])
def test_what_the_wire_sets_itself_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="set by Flightdeck"):
        headers_parse(f"{name}: anything")


def test_a_secret_header_is_long_enough_to_be_hidden() -> None:
    assert secret_headers_parse(f"X-Api-Key: {KEY}\n") == {"X-Api-Key": KEY}
    with pytest.raises(ValidationError) as refused:
        secret_headers_parse("X-Api-Key: short")
    assert "short" not in str(refused.value)


def test_basic_credentials_are_a_name_and_a_password() -> None:
    kept = make_seller("Vasa", auth_scheme="basic", token="no-colon")
    with pytest.raises(ValidationError, match="name:password"):
        kept.full_clean(exclude=["secret_headers", "webhook_secret"])


def test_a_task_is_looked_at_by_the_sellers_own_name_for_it() -> None:
    told = {"task_id": "task-1", "status": "completed", "result": {"media_buy_id": "mb-1", "packages": []}}
    with serve(replying(told, "mcp")) as server:
        kept = make_seller("Vasa", url=endpoint(server, "mcp").url, status_tool="task_state")
        operation = stand(S.SUBMITTED, seller=kept, next_poll_at=clock.now())
        sweep()
        (call,) = [r.json["params"] for r in server.requests if r.rpc_method == "tools/call"]
    assert call["name"] == "task_state"
    operation.refresh_from_db()
    assert operation.status == S.COMPLETED
    assert operation.result == told["result"], "its answer is read as a status tool's"


@pytest.mark.parametrize(("setting", "named"), [("auto", True), ("always", True), ("never", False)])
@pytest.mark.parametrize(
    "tool", ["get_media_buys", "get_media_buy_delivery", "list_tasks", "get_task_status"]
)
def test_reads_name_the_account_where_they_should(tool: str, setting: str, named: bool) -> None:
    kept = make_seller("Vasa", account_in_reads=setting)
    with serve(replying({"status": "completed"}, "mcp")) as server:
        call_of(kept, server, "mcp", tool, {"account": {"account_id": "a-1"}, "task_id": "t-1"})
        (call,) = [r.json["params"] for r in server.requests if r.rpc_method == "tools/call"]
    assert ("account" in call["arguments"]) == named


def test_a_status_tool_is_said_as_it_is_known() -> None:
    listing, named, without = (
        make_seller("Lists", tools=["get_task_status"]),
        make_seller("Named", status_tool="task_state"),
        make_seller("Without", tools=["get_products"]),
    )
    assert [seller_options(one)["status tool"] for one in (listing, named, without)] == [
        "get_task_status, as it lists",
        "task_state",
        "none listed",
    ]


def test_a_purchase_names_its_account_always() -> None:
    kept = make_seller("Vasa", account_in_reads="never")
    with serve(replying({"status": "completed"}, "mcp")) as server:
        named = {"account": {"account_id": "a-1"}}
        call_of(kept, server, "mcp", "create_media_buy", named)
        (call,) = [r.json["params"] for r in server.requests if r.rpc_method == "tools/call"]
    assert call["arguments"]["account"] == {"account_id": "a-1"}


def test_the_page_has_them_and_shows_no_secret(client: Any) -> None:
    kept = make_seller("Vasa")
    client.force_login(make_user("Ad Ops", is_staff=True))
    address = reverse("admin:tasks_app_seller_change", args=[kept.pk])
    form = {
        "name": "Vasa",
        "slots": "1",
        "active": "on",
        "allow_private": "on",
        "auth_scheme": "basic",
        "token": "house:pass-word",
        "headers": "X-Tenant: acme",
        "secret_headers": f"X-Api-Key: {KEY}",
        "status_tool": "task_state",
        "account_in_reads": "never",
    }
    assert send(client, address, form).status_code == 302
    kept.refresh_from_db()
    assert (kept.auth_scheme, kept.status_tool, kept.account_in_reads) == ("basic", "task_state", "never")
    assert (kept.headers, json.loads(str(kept.secret_headers))) == ({"X-Tenant": "acme"}, {"X-Api-Key": KEY})
    page = client.get(address).content.decode()
    assert "X-Tenant: acme" in page
    assert "task_state" in page
    assert KEY not in page
    wrong = send(client, address, {**form, "headers": "Host: elsewhere"})
    assert wrong.status_code == 422
    assert "set by Flightdeck itself" in wrong.content.decode()
    send(client, address, {**form, "secret_headers": "", "headers": "", "status_tool": ""})
    kept.refresh_from_db()
    assert (kept.headers, kept.status_tool) == ({}, "")
    assert kept.secret_headers, "left empty, the stored ones stay"
    send(client, address, {**form, "secret_headers": "", "forget_secret_headers": "on"})
    kept.refresh_from_db()
    assert kept.secret_headers is None
