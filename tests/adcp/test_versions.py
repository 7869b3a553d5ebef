"""A seller that refuses our version and names one we speak is asked once more, in that."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adcp.raw_server import Request
from tests.adcp.scripted_seller import PROTOCOLS, a2a_result, ask, mcp_result, rpc, seller


def refusal(**details: Any) -> dict[str, Any]:
    return {
        "adcp_error": {
            "code": "VERSION_UNSUPPORTED",
            "message": "Not in this version",
            "recovery": "correctable",
            "details": details,
        }
    }


def asked_in(request: Request, protocol: str) -> Any:
    params = request.json["params"]
    if protocol == "mcp":
        return params["arguments"].get("adcp_version")
    data = params["message"]["parts"][0]["data"]
    return data.get("input", data.get("parameters", {})).get("adcp_version")


def speaking(protocol: str, *spoken: str, told: dict[str, Any]) -> Any:
    """A seller that speaks these versions alone and refuses others with what is told."""

    def answer(request: Request) -> bytes:
        good = asked_in(request, protocol) in spoken
        said = {"status": "completed", "media_buy_id": "mb-1"} if good else told
        if protocol == "mcp":
            return rpc(request, result={**mcp_result(said), "isError": not good})
        return rpc(request, result=a2a_result(said))

    return seller(answer)


def versions(server: Any, protocol: str) -> list[Any]:
    sent = [one for one in server.requests if one.rpc_method in ("tools/call", "SendMessage", "message/send")]
    return [asked_in(one, protocol) for one in sent]


@pytest.mark.parametrize("tool", ["create_media_buy", "get_products"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_is_asked_once_more_in_the_version_that_it_names(protocol: str, tool: str) -> None:
    script = speaking(protocol, "3.1", told=refusal(supported_versions=["3.0", "3.1"]))
    seen, server = ask(script, protocol, tool, adcp_version="3.2")
    assert (seen.status, seen.other_version) == ("completed", True)
    assert versions(server, protocol) == ["3.2", "3.1"]


@pytest.mark.parametrize(
    "told",
    [
        refusal(supported_versions=["3.2"]),
        refusal(supported_versions=["4.0"]),
        refusal(supported_versions="3.1"),
        refusal(),
        {**refusal(supported_versions=["3.1"]), "task_id": "t-1"},
    ],
    ids=["the-same", "none-of-ours", "no-list", "unnamed", "of-a-task"],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_is_asked_once_where_it_names_no_other(protocol: str, told: dict[str, Any]) -> None:
    seen, server = ask(speaking(protocol, "3.1", told=told), protocol, adcp_version="3.2")
    assert seen.error is not None
    assert (seen.error.code, seen.other_version) == ("VERSION_UNSUPPORTED", False)
    assert versions(server, protocol) == ["3.2"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_one_that_refuses_what_it_names_is_asked_no_third_time(protocol: str) -> None:
    script = speaking(protocol, told=refusal(supported_versions=["3.1"]))
    seen, server = ask(script, protocol, adcp_version="3.2")
    assert seen.error is not None
    assert versions(server, protocol) == ["3.2", "3.1"]
