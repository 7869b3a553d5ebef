"""call() and discover() against sellers that fail in every way: the right kind, and never an exception."""

import asyncio
import json
import socket
from typing import Any

import pytest

from tasks_app.adcp import errors
from tasks_app.adcp.client import call, discover
from tasks_app.adcp.types import DiscoveryError, Endpoint
from tests.support import PATIENCE_S

from .raw_server import RawServer, Request, Script, response, serve
from .scripted_seller import (
    PROTOCOLS,
    TOKEN,
    a2a_result,
    answering_with,
    ask,
    broken,
    card,
    endpoint,
    handshake,
    hanging,
    mcp_result,
    rpc,
    seller,
)

GARBLED = {
    "500": (
        response("oops", status="500 Internal Server Error", content_type="text/plain"),
        errors.HTTP_ERROR,
    ),
    "502 html": (response("<html>", status="502 Bad Gateway", content_type="text/html"), errors.HTTP_ERROR),
    "404": (response("{}", status="404 Not Found"), errors.HTTP_ERROR),
    "html": (response("<html><body>Hello</body></html>", content_type="text/html"), errors.GARBLED),
    "truncated json": (response('{"jsonrpc": "2.0", "id": 1, "result": {"content": ['), errors.GARBLED),
    "cut connection": (
        b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{"jsonrpc"',
        errors.GARBLED,
    ),
    "empty": (response(""), errors.GARBLED),
    "array": (response("[]"), errors.GARBLED),
    "not utf-8": (response(b'{"a": "\xff"}'), errors.GARBLED),
    "redirect": (response("", status="307 Temporary Redirect", Location="/other"), errors.REDIRECTED),
    "429": (response("slow down", status="429 Too Many Requests", Retry_After="7"), "RATE_LIMITED"),
    "503": (response("later", status="503 Service Unavailable", Retry_After="9"), "SERVICE_UNAVAILABLE"),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("case", GARBLED)
def test_an_unreadable_answer_is_garbled(case: str, protocol: str) -> None:
    answer, code = GARBLED[case]
    seen, server = ask(seller(answer), protocol)
    assert (seen.kind, seen.status) == ("garbled", "unknown")
    assert seen.error is not None
    assert seen.error.code == code
    assert seen.request_left
    assert not seen.outcome_known
    sent = [name for name in server.rpc_methods() if name in ("tools/call", "SendMessage")]
    assert len(sent) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("case", [name for name in GARBLED if name != "404"])
def test_a_seller_broken_from_the_start_never_got_the_request(case: str, protocol: str) -> None:
    answer, _ = GARBLED[case]
    seen, _ = ask(broken(answer), protocol)
    assert seen.kind == "garbled"
    assert seen.error is not None
    assert not seen.request_left


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_response_over_the_limit_is_garbled(protocol: str) -> None:
    huge = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"content": "x" * (11 * 2**20)}})
    seen, _ = ask(seller(response(huge)), protocol)
    assert seen.kind == "garbled"
    assert seen.error is not None
    assert seen.error.code == errors.TOO_LARGE
    assert len(json.dumps(seen.raw)) < 10_000


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_retry_after_is_read_from_the_header(protocol: str) -> None:
    seen, _ = ask(seller(GARBLED["429"][0]), protocol)
    assert seen.retry_after == 7
    assert seen.error is not None
    assert seen.error.recovery == "transient"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_hanging_seller_is_no_answer_in_time(protocol: str) -> None:
    seen, server = ask(hanging, protocol, takes_too_long=True)
    assert not server.gave_up
    assert (seen.kind, seen.status) == ("no_answer", "unknown")
    assert seen.request_left
    assert not seen.outcome_known
    assert len(server.rpc_methods()) >= 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_that_drips_ends_with_the_call(protocol: str) -> None:
    def script(server: RawServer) -> Script:
        def handle(request: Request, connection: socket.socket) -> None:
            opening = handshake(server, request)
            if opening is not None:
                connection.sendall(opening)
                return
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999\r\n\r\n"
            )
            while not server.stopping.wait(0.05):
                connection.sendall(b" ")

        return handle

    seen, _server = ask(script, protocol, takes_too_long=True)
    assert (seen.kind, seen.request_left) == ("no_answer", True)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_redirected_call_goes_nowhere_else(protocol: str) -> None:
    with serve(broken(response("{}"))) as elsewhere:
        moved = response("", status="307 Temporary Redirect", Location=f"{elsewhere.url}/mcp")
        seen, _server = ask(seller(moved), protocol)
    assert seen.error is not None
    assert seen.error.code == errors.REDIRECTED
    assert elsewhere.requests == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_lost_connection_is_no_answer(protocol: str) -> None:
    seen, _ = ask(seller(b""), protocol)
    assert seen.kind == "no_answer"
    assert seen.request_left


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_refused_connection_is_not_sent(protocol: str) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        where = Endpoint(url=url, protocol=protocol, allow_private=True, timeout_s=PATIENCE_S)  # type: ignore[arg-type]
        seen = asyncio.run(call(where, "get_products", {}))
    assert seen.kind == "not_sent"
    assert not seen.request_left
    assert seen.outcome_known


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("url", ["https://127.0.0.1:1/mcp", "http://seller.example.com/mcp", "nonsense"])
def test_a_forbidden_address_is_not_sent(url: str, protocol: str) -> None:
    seen = asyncio.run(call(Endpoint(url=url, protocol=protocol), "get_products", {}))  # type: ignore[arg-type]
    assert seen.kind == "not_sent"
    assert seen.error is not None
    assert seen.error.recovery == "terminal"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("status", "code"), [("401 Unauthorized", "AUTH_INVALID"), ("403 Forbidden", "PERMISSION_DENIED")]
)
def test_a_refused_token_asks_for_authentication(status: str, code: str, protocol: str) -> None:
    seen, _ = ask(seller(response("", status=status)), protocol)
    assert (seen.kind, seen.status) == ("answer", "auth-required")
    assert seen.error is not None
    assert seen.error.code == code


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_refused_poll_says_nothing_of_the_task(protocol: str) -> None:
    seen, _ = ask(seller(response("", status="401 Unauthorized")), protocol, tool="get_task_status")
    assert (seen.kind, seen.status) == ("answer", "unknown")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_adcp_error_in_json_rpc_is_an_answer(protocol: str) -> None:
    error = {
        "code": -32029,
        "message": "slow down",
        "data": {"adcp_error": {"code": "RATE_LIMITED", "retry_after": 5, "message": "s3cret-word"}},
    }
    seen, _ = ask(seller(lambda request: rpc(request, error=error)), protocol)
    assert (seen.kind, seen.status, seen.retry_after) == ("answer", "failed", 5)
    assert seen.error is not None
    assert seen.error.recovery == "transient"
    assert "s3cret-word" not in repr(seen)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_json_rpc_error_of_the_sellers_inside_leaves_the_outcome_unknown(protocol: str) -> None:
    error = {"code": -32603, "message": "boom"}
    seen, _ = ask(seller(lambda request: rpc(request, error=error)), protocol)
    assert seen.kind == "garbled"
    assert seen.error is not None
    assert (seen.error.code, seen.error.details["rpc_code"]) == (errors.RPC_ERROR, -32603)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_unknown_method_was_surely_not_executed(protocol: str) -> None:
    error = {"code": -32601, "message": "no such method"}
    seen, _ = ask(seller(lambda request: rpc(request, error=error)), protocol)
    assert (seen.kind, seen.status) == ("answer", "failed")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_is_normalised_and_holds_no_secret(protocol: str) -> None:
    data = {
        "status": "submitted",
        "task_id": "task-7",
        "message": f"queued for s3cret-word and {TOKEN}",
        "context": {"deal": "d"},
        "push_notification_config": {"token": "some-other-secret"},
        "unknown_to_everybody": 1.0,
    }
    seen, server = ask(answering_with(data, protocol), protocol, adcp_version="3.2")
    assert (seen.kind, seen.status, seen.task_id) == ("answer", "submitted", "task-7")
    assert seen.context == {"deal": "d"}
    assert seen.payload == {"unknown_to_everybody": 1}
    kept = repr(seen)
    assert "s3cret-word" not in kept
    assert TOKEN not in kept
    assert "some-other-secret" not in kept
    task = next(request for request in server.requests if request.rpc_method in ("tools/call", "SendMessage"))
    assert task.headers["authorization"] == f"Bearer {TOKEN}"
    assert '"adcp_version": "3.2"' in json.dumps(task.json)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("word", ["requires_approval", "approved", "COMPLETED?", "完了"])
def test_an_unknown_status_stays_unknown(word: str, protocol: str) -> None:
    seen, _ = ask(answering_with({"status": word, "task_id": "t"}, protocol), protocol)
    assert (seen.kind, seen.status, seen.raw_status) == ("answer", "unknown", word)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_status_reply_is_an_observation_of_the_task(protocol: str) -> None:
    data = {
        "task_id": "task-7",
        "task_type": "create_media_buy",
        "protocol": "media-buy",
        "status": "completed",
        "created_at": "2026-09-01T10:00:00Z",
        "updated_at": "2026-09-01T11:00:00Z",
        "result": {"media_buy_id": "mb-1", "media_buy_status": "pending_start", "revision": 1.0},
    }
    seen, _ = ask(answering_with(data, protocol), protocol, tool="get_task_status")
    assert (seen.kind, seen.status, seen.task_id) == ("answer", "completed", "task-7")
    assert seen.payload == {"media_buy_id": "mb-1", "media_buy_status": "pending_start", "revision": 1}
    assert seen.media_buy_status == "pending_start"
    assert seen.at is not None
    assert seen.at.hour == 11


def test_the_arguments_stand_where_the_card_says() -> None:
    def script(server: RawServer) -> Script:
        def handle(request: Request, connection: socket.socket) -> None:
            if request.method == "GET":
                extension = {"uri": "https://adcontextprotocol.org/extensions/adcp/v3", "required": True}
                spoken = {**card(server), "capabilities": {"extensions": [extension]}}
                connection.sendall(response(json.dumps(spoken)))
            else:
                connection.sendall(rpc(request, result=a2a_result({"status": "completed"})))

        return handle

    seen, server = ask(script, "a2a")
    assert seen.status == "completed"
    assert server.requests[-1].headers["a2a-extensions"].endswith("/adcp/v3")
    assert server.requests[-1].json["params"]["message"]["parts"][0]["data"]["input"] == {"a": 1}
    seen, server = ask(answering_with({"status": "completed"}, "a2a"), "a2a")
    assert "a2a-extensions" not in server.requests[-1].headers
    assert server.requests[-1].json["params"]["message"]["parts"][0]["data"]["parameters"] == {"a": 1}


def test_an_agent_of_a2a_0_3_is_understood() -> None:
    def script(server: RawServer) -> Script:
        def handle(request: Request, connection: socket.socket) -> None:
            if request.method == "GET":
                older = {key: value for key, value in card(server).items() if key != "supportedInterfaces"}
                older |= {
                    "url": f"{server.url}/a2a",
                    "preferredTransport": "JSONRPC",
                    "protocolVersion": "0.3.0",
                }
                connection.sendall(response(json.dumps(older)))
                return
            parts = [{"kind": "data", "data": {"status": "submitted", "task_id": "t-3"}}]
            artifacts = [{"artifactId": "1", "parts": parts}]
            task = {"kind": "task", "id": "a-3", "contextId": "c-3", "status": {"state": "completed"}}
            connection.sendall(rpc(request, result={**task, "artifacts": artifacts}))

        return handle

    seen, server = ask(script, "a2a")
    assert (seen.kind, seen.status, seen.task_id, seen.a2a_task_id) == ("answer", "submitted", "t-3", "a-3")
    assert server.rpc_methods() == ["message/send"]


def test_no_stream_is_opened_for_what_a_server_may_say_unasked() -> None:
    """A server with sessions would otherwise hold a second connection, and blur what became of the task."""

    def script(server: RawServer) -> Script:
        def handle(request: Request, connection: socket.socket) -> None:
            opening = handshake(server, request)
            if request.rpc_method == "initialize" and opening is not None:
                opening = opening.replace(b"Connection: close", b"Mcp-Session-Id: s-1\r\nConnection: close")
            connection.sendall(opening or response("oops", status="500 Internal Server Error"))

        return handle

    seen, server = ask(script, "mcp")
    assert seen.kind == "garbled"
    methods = [request.method for request in server.requests]
    assert "GET" not in methods
    assert methods[-1] == "DELETE"


def test_a_card_that_points_elsewhere_gets_no_token() -> None:
    def script(server: RawServer) -> Script:
        def handle(request: Request, connection: socket.socket) -> None:
            spoken = card(server)
            spoken["supportedInterfaces"][0]["url"] = "https://collector.example.com/a2a"
            connection.sendall(response(json.dumps(spoken)))

        return handle

    seen, server = ask(script, "a2a")
    assert seen.kind == "garbled"
    assert not seen.request_left
    assert seen.error is not None
    assert "registered host" in seen.error.message
    assert len(server.requests) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("case", ["500", "html", "truncated json", "redirect"])
def test_discovery_says_what_went_wrong(case: str, protocol: str) -> None:
    with serve(broken(GARBLED[case][0])) as server, pytest.raises(DiscoveryError) as failure:
        asyncio.run(discover(endpoint(server, protocol)))
    assert str(failure.value)
    assert TOKEN not in str(failure.value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("adcp", "version"),
    [
        ({"supported_versions": ["3.0", "3.1"]}, "3.1"),
        ({"supported_versions": ["3.2.4", "3.1"]}, "3.2"),
        ({"supported_versions": ["3.3-beta", "3.2-beta", "3.0"]}, "3.0"),
        ({"major_versions": [2, 3]}, "3.0"),
        ({"supported_versions": ["4.0"]}, None),
        ({"supported_versions": ["3.2-beta"]}, None),
        ({"supported_versions": ["3.2.0-beta.1", "3.1"]}, "3.1"),
        ({"supported_versions": ["3.10", "v3.1", "3", " 3.1 "]}, None),
        ({"supported_versions": [], "major_versions": [3]}, "3.0"),
        ({}, None),
    ],
)
def test_the_best_common_version_is_agreed(adcp: dict[str, Any], version: str | None, protocol: str) -> None:
    data = {"status": "completed", "adcp": adcp, "supported_protocols": ["media_buy"]}

    def answer(request: Request) -> bytes:
        if request.rpc_method == "tools/list":
            tools = [
                {"name": name, "inputSchema": {"type": "object"}}
                for name in ("get_adcp_capabilities", "tasks/get")
            ]
            return rpc(request, result={"tools": tools})
        return rpc(request, result=mcp_result(data) if protocol == "mcp" else a2a_result(data))

    with serve(seller(answer)) as server:
        if version is None:
            with pytest.raises(DiscoveryError, match=r"3\.2, 3\.1, 3\.0"):
                asyncio.run(discover(endpoint(server, protocol)))
            return
        found = asyncio.run(discover(endpoint(server, protocol)))
    assert found.version == version
    assert found.agent_name == "Raw"
    assert found.idempotency_ttl_s is None
    assert found.tools
