"""A value that a seller sends and nobody can read is absent, or the documented error; never an exception."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import socket
from collections.abc import Callable
from typing import Any, get_args

import pytest

from tasks_app.adcp import answers
from tasks_app.adcp.addresses import is_public
from tasks_app.adcp.capabilities import negotiate, read_capabilities
from tasks_app.adcp.client import discover
from tasks_app.adcp.meaning import About
from tasks_app.adcp.signatures.errors import SignatureError
from tasks_app.adcp.signatures.jwks import KeysError, webhook_key
from tasks_app.adcp.signatures.revocations import read_signed
from tasks_app.adcp.told import Carried
from tasks_app.adcp.types import QUIRK_A2A_PARAMETERS, DiscoveryError
from tasks_app.adcp.values import boolean_of, identity_of, number_of, parse_time, text_of, whole_of
from tests.tables import each_case

from .raw_server import RawServer, Request, Script, response, serve
from .scripted_seller import PROTOCOLS, a2a_result, answering_with, ask, card, endpoint, rpc, seller

HOSTILE: list[Any] = [
    None,
    "",
    [],
    {},
    [1],
    {"a": 1},
    True,
    10**400,
    -(10**400),
    1e308,
    1.5,
    "\x00",
    10**5000,
]
READERS = (boolean_of, identity_of, number_of, parse_time, text_of, whole_of)


@each_case(value=HOSTILE, reader=READERS)
def test_no_reader_of_values_raises(value: Any, reader: Callable[[object], object]) -> None:
    reader(value)


@pytest.mark.parametrize(
    "wait",
    [
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 01 Jan 2026 00:00:00 +999999999999",
        "0002²",
        "soon",
        "-5",
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_wait_that_cannot_be_read_is_none(protocol: str, wait: str) -> None:
    busy = response("slow", status="429 Too Many Requests")
    head, _, body = busy.partition(b"\r\n\r\n")
    told = head + f"\r\nRetry-After: {wait}\r\n\r\n".encode() + body
    seen, _ = ask(seller(told), protocol)
    assert seen.error is not None
    assert (seen.error.code, seen.retry_after) == ("RATE_LIMITED", None)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("status", "code"), [("429 Too Many Requests", "RATE_LIMITED"), ("503 Busy", "SERVICE_UNAVAILABLE")]
)
def test_the_http_status_speaks_beside_an_error_of_json_rpc(status: str, code: str, protocol: str) -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "Later"}}
    seen, _ = ask(seller(response(json.dumps(error), status=status, Retry_After="120")), protocol)
    assert seen.error is not None
    assert (seen.kind, seen.error.code, seen.retry_after) == ("garbled", code, 120)


_BUSY: dict[str, Any] = {"code": "RATE_LIMITED", "message": "Slow down"}
_RPC: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
    "bare": lambda wait: None,
    "of JSON-RPC": lambda wait: {"code": -32000, "message": "Later"},
    "a reserved code": lambda wait: {"code": -32029, "message": "Later"},
    "AdCP's": lambda wait: {"code": -32029, "message": "Later", "data": {"adcp_error": {**_BUSY, **wait}}},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("own", [None, 60])
@pytest.mark.parametrize("head", [None, "3600"])
@pytest.mark.parametrize("shape", _RPC)
def test_how_long_to_wait_is_read_wherever_it_stands(
    shape: str, head: str | None, own: int | None, protocol: str
) -> None:
    """The error's own word first, else HTTP's."""
    error = _RPC[shape]({} if own is None else {"retry_after": own})
    body = json.dumps({"jsonrpc": "2.0", "id": None, **({"error": error} if error else {})})
    told = {} if head is None else {"Retry_After": head}
    seen, _ = ask(seller(response(body, status="429 Too Many Requests", **told)), protocol)
    said = own if shape == "AdCP's" else None
    assert seen.asks_to_wait == (said or (3600 if head else None))


@pytest.mark.parametrize("about", [about for about in get_args(About) if about != "buy"])
@pytest.mark.parametrize("own", [None, 60])
@pytest.mark.parametrize("beside", [None, 600])
def test_how_long_to_wait_may_stand_beside_the_error(
    beside: int | None, own: int | None, about: About
) -> None:
    """Of a call, and of a poll that failed: its task is looked at when its seller asks."""
    error = {**_BUSY, **({} if own is None else {"retry_after": own})}
    told = {"status": "failed", "adcp_error": error, **({} if beside is None else {"retry_after": beside})}
    seen = answers.read_answer(Carried(data=told, raw=told, is_error=True), about=about)
    assert seen.asks_to_wait == (own or beside)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("number", "code", "status"),
    [
        (-32029, "RATE_LIMITED", "failed"),
        (-32028, "AUTH_MISSING", "auth-required"),
        (-32027, "SERVICE_UNAVAILABLE", "failed"),
    ],
)
def test_reserved_codes_speak_without_data(number: int, code: str, status: str, protocol: str) -> None:
    seen, _ = ask(seller(lambda request: rpc(request, error={"code": number, "message": "No"})), protocol)
    assert seen.error is not None
    assert (seen.kind, seen.status, seen.error.code) == ("answer", status, code)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_percentage_beyond_all_numbers_spoils_no_answer(protocol: str) -> None:
    working = {"status": "working", "task_id": "t1", "percentage": 10**400}
    seen, _ = ask(answering_with(working, protocol), protocol)
    assert (seen.kind, seen.status, seen.task_id) == ("answer", "working", "t1")


@pytest.mark.parametrize("name", ["alg", "adcp_use", "use", "kid", "crv"])
@pytest.mark.parametrize("value", [["EdDSA"], ["webhook-signing"], {"a": 1}, None, 7])
def test_a_key_of_odd_parts_is_refused(name: str, value: Any) -> None:
    jwk = {"kid": "a", "use": "sig", "key_ops": ["verify"], "alg": "EdDSA", "crv": "Ed25519", "kty": "OKP"}
    with pytest.raises(SignatureError):
        webhook_key({**jwk, "adcp_use": "webhook-signing", "x": "A" * 43, name: value})


@pytest.mark.parametrize("name", ["alg", "kid", "typ"])
@pytest.mark.parametrize("value", [["EdDSA"], {"a": 1}, None, 7])
def test_a_revocation_list_of_odd_parts_is_refused(name: str, value: Any) -> None:
    told = {"typ": "adcp-gov-revocation+jws", "alg": "EdDSA", "kid": "k", name: value}
    header = base64.urlsafe_b64encode(json.dumps(told).encode()).rstrip(b"=")
    with pytest.raises(KeysError):
        read_signed(header + b".e30.AAAA", {"keys": []})


@pytest.mark.parametrize(
    ("ttl", "kept"),
    [
        (86_400, 86_400),
        (86_400.0, 86_400),
        (10**10, 604_800),
        ("86400", None),
        ([], None),
        (-1, None),
        (1.5, None),
    ],
)
def test_a_replay_window_is_whole_seconds_within_adcps_bounds(ttl: Any, kept: int | None) -> None:
    payload = {"adcp": {"idempotency": {"supported": True, "replay_ttl_seconds": ttl}}}
    none = frozenset[str]()
    found = read_capabilities(payload, tools=none, agent_name="", quirks=none, version="3.2")
    assert found.idempotency_ttl_s == kept


@pytest.mark.parametrize("value", [*HOSTILE, "x", [None], {"a": None}], ids=lambda value: str(type(value)))
def test_what_a_seller_says_it_can_do_is_read_part_by_part(value: Any) -> None:
    none = frozenset[str]()
    for part in ("adcp", "account", "webhook_signing", "media_buy", "identity", "specialisms"):
        told = {"supported_protocols": ["media_buy"], part: value}
        found = read_capabilities(told, tools=none, agent_name="A", quirks=none, version="3.2")
        assert (found.agent_name, found.idempotency_ttl_s, found.brand_json_url) == ("A", None, None)


@pytest.mark.parametrize("majors", [[3], [3.0], ["3"], [2, "3"]])
def test_a_major_version_is_the_same_as_text_and_as_number(majors: list[Any]) -> None:
    assert negotiate({"adcp": {"major_versions": majors}}) == "3.0"


@pytest.mark.parametrize("address", ["fec0::1", "fec0:0:0:ffff::1", "fe80::1", "fc00::1", "::ffff:7f00:1"])
def test_site_local_addresses_are_private(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


def _with_card(change: Callable[[dict[str, Any], RawServer], None]) -> Callable[[RawServer], Script]:
    def script(server: RawServer) -> Script:
        def handle(request: Request, connection: socket.socket) -> None:
            if request.method == "GET":
                told = card(server)
                change(told, server)
                connection.sendall(response(json.dumps(told)))
                return
            data = {"status": "completed", "adcp": {"supported_versions": ["3.2"]}}
            connection.sendall(rpc(request, result=a2a_result(data)))

        return handle

    return script


@pytest.mark.parametrize("url", ["https://[broken/a2a", "http://127.0.0.1:99999/a2a", "http://127.0.0.1:x/"])
def test_a_cards_address_that_cannot_be_read_is_passed_over(url: str) -> None:
    def beside(told: dict[str, Any], _: RawServer) -> None:
        told["supportedInterfaces"][0]["url"] = url

    with serve(_with_card(beside)) as server, pytest.raises(DiscoveryError, match="registered host"):
        asyncio.run(discover(endpoint(server, "a2a")))


def test_a_broken_address_on_a_card_spoils_no_good_one_beside_it() -> None:
    def beside(told: dict[str, Any], _: RawServer) -> None:
        good = told["supportedInterfaces"][0]
        told["supportedInterfaces"] = [{**good, "url": "http://[half"}, good]

    with serve(_with_card(beside)) as server:
        assert asyncio.run(discover(endpoint(server, "a2a"))).version == "3.2"


def test_a_card_that_points_to_another_port_of_its_host_gets_no_token() -> None:
    def elsewhere(told: dict[str, Any], server: RawServer) -> None:
        told["supportedInterfaces"][0]["url"] = f"http://{other.url.partition('//')[2]}/a2a"

    with serve(_with_card(lambda *_: None)) as other, serve(_with_card(elsewhere)) as server:
        with pytest.raises(DiscoveryError, match="registered host"):
            asyncio.run(discover(endpoint(server, "a2a")))
        assert other.requests == []


def test_what_a_card_said_once_is_unlearnt_when_it_says_otherwise() -> None:
    def profile(told: dict[str, Any], _: RawServer) -> None:
        told["capabilities"] = {"extensions": [{"uri": "https://adcontextprotocol.org/extensions/adcp/v3"}]}

    with serve(_with_card(profile)) as server:
        once = endpoint(server, "a2a", quirks=frozenset({QUIRK_A2A_PARAMETERS, "omit get_products account"}))
        found = asyncio.run(discover(once))
        sent = [request.json for request in server.requests if request.method == "POST"][-1]
    assert found.quirks == {"omit get_products account"}
    assert "input" in sent["params"]["message"]["parts"][-1]["data"]
