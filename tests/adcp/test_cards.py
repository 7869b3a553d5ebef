"""Agent cards as sellers write them: what names no binding is called by the default, and what cannot be used
says what it lacks."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tasks_app.adcp.client import discover
from tasks_app.adcp.types import DiscoveryError
from tests.adcp.raw_server import RawServer, Request, Script, response, serve
from tests.adcp.scripted_seller import a2a_result, ask, card, endpoint, rpc


def carded(**changes: Any) -> Callable[[RawServer], Script]:
    """A seller whose card's one interface is changed; None takes a field away."""

    def script(server: RawServer) -> Script:
        def handle(request: Request, connection: socket.socket) -> None:
            if request.method != "GET":
                connection.sendall(rpc(request, result=a2a_result({"status": "completed"})))
                return
            shown = card(server)
            interface = {**shown["supportedInterfaces"][0], **changes}
            shown["supportedInterfaces"] = [{k: v for k, v in interface.items() if v is not None}]
            connection.sendall(response(json.dumps(shown)))

        return handle

    return script


@pytest.mark.parametrize(
    "changes",
    [
        {"protocolBinding": None},
        {"protocolBinding": ""},
        {"protocolBinding": "jsonrpc"},
        {"protocolBinding": None, "protocolVersion": None},
    ],
)
def test_an_interface_that_names_no_binding_is_called_by_the_default(changes: dict[str, Any]) -> None:
    seen, server = ask(carded(**changes), "a2a")
    assert (seen.kind, seen.status) == ("answer", "completed")
    assert len(server.rpc_methods()) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"protocolBinding": "GRPC"}, "the agent card offers GRPC alone (protocolBinding); we speak JSONRPC"),
        ({"protocolVersion": "0.2"}, "JSONRPC of a protocolVersion from 0.3 on"),
        ({"url": None}, "names no interface on the registered host"),
    ],
)
def test_a_card_that_cannot_be_used_says_what_it_lacks(changes: dict[str, Any], said: str) -> None:
    seen, server = ask(carded(**changes), "a2a")
    assert seen.error is not None
    assert said in seen.error.message
    assert "ValueError" not in seen.error.message
    assert not seen.request_left
    assert server.rpc_methods() == []


@pytest.mark.parametrize("protocol", ["", "user:word@"], ids=["port", "userinfo"])
def test_our_token_goes_to_no_other_port_of_its_host(protocol: str) -> None:
    with serve(carded()) as other:
        elsewhere = f"{other.url.replace('://', f'://{protocol}')}/a2a"
        seen, server = ask(carded(url=elsewhere), "a2a")
        assert seen.error is not None
        assert "names no interface on the registered host" in seen.error.message
        assert (server.rpc_methods(), other.requests) == ([], [])


def test_a_seller_is_not_added_for_it_with_the_same_words() -> None:
    with (
        serve(carded(protocolBinding="GRPC")) as server,
        pytest.raises(DiscoveryError, match="we speak JSONRPC"),
    ):
        asyncio.run(discover(endpoint(server, "a2a")))
