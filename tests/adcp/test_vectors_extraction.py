"""AdCP's vectors for responses, errors and webhook bodies, on both transports."""

from typing import Any

import pytest

from tasks_app.adcp import errors, extraction
from tasks_app.adcp.envelopes import seen_a2a, seen_mcp, seen_rpc_error
from tasks_app.adcp.types import TASK_STATUSES
from tasks_app.adcp.webhook_body import EnvelopeError, read_webhook

from .vectors import bundled, load

MCP = load("mcp-response-extraction.json")["vectors"]
A2A = load("a2a-response-extraction.json")["vectors"]
ERRORS = load("transport-error-mapping.json")["vectors"]
WEBHOOKS = load("webhook-payload-extraction.json")["vectors"]
_RECEIVERS = [load(f"{folder}webhook-receiver-envelope.json") for folder in ("", *bundled().values())]
RECEIVER = {kind: [v for told in _RECEIVERS for v in told[kind]] for kind in ("positive", "negative")}

ACTIONS = {"transient": "retry", "correctable": "surface_to_caller", "terminal": "escalate_to_human"}


def by_id(vector: dict[str, Any]) -> str:
    return str(vector["id"])


@pytest.mark.parametrize("vector", MCP, ids=by_id)
def test_mcp_response(vector: dict[str, Any]) -> None:
    assert extraction.mcp_data(vector["response"]) == vector["expected_data"]
    seen = seen_mcp(vector["response"])
    assert seen.status in TASK_STATUSES
    expected = vector["expected_data"]
    if expected and "status" in expected:
        assert (seen.kind, seen.status) == ("answer", expected["status"])
        assert seen.payload is not None
        assert "status" not in seen.payload


@pytest.mark.parametrize("vector", A2A, ids=by_id)
def test_a2a_response(vector: dict[str, Any]) -> None:
    seen = seen_a2a(vector["response"])
    if vector.get("expected_error_type") == "wrapper_detected":
        with pytest.raises(extraction.WrapperError):
            extraction.a2a_data(vector["response"])
        assert seen.kind == "garbled"
        assert seen.error is not None
        assert seen.error.code == errors.WRAPPED_RESULT
        return
    assert extraction.a2a_data(vector["response"]) == vector["expected_data"]
    if vector["expected_data"] is not None:
        assert (seen.kind, seen.status) == ("answer", vector["status"])


@pytest.mark.parametrize("vector", ERRORS, ids=by_id)
def test_transport_error(vector: dict[str, Any]) -> None:
    response, expected = vector["response"], vector["expected_error"]
    extract = extraction.a2a_error if vector["transport"] == "a2a" else extraction.mcp_error
    found = extract(response)
    assert found == expected
    seen = _seen_of(vector["transport"], response)
    if expected is None:
        assert vector["expected_action"] == "generic_error"
        # What we read from plain words is no error that the seller structured.
        ours = seen.error is None or seen.error.code.startswith("X_FLIGHTDECK_")
        reserved = seen.error is not None and "rpc_code" in seen.error.details
        assert ours or reserved or seen.error.details == {"in_words": True}
        return
    assert (seen.kind, seen.status) == ("answer", "failed")
    assert seen.error is not None
    assert seen.error.code == expected["code"]
    assert seen.error.recovery is not None
    assert ACTIONS[seen.error.recovery] == vector["expected_action"]
    if "retry_after" in expected:
        assert seen.retry_after == min(expected["retry_after"], 3600)


def _seen_of(transport: str, response: dict[str, Any]) -> Any:
    if transport == "a2a":
        return seen_a2a(response)
    return seen_rpc_error(response["error"]) if "error" in response else seen_mcp(response)


@pytest.mark.parametrize("vector", WEBHOOKS, ids=by_id)
def test_webhook_payload(vector: dict[str, Any]) -> None:
    assert extraction.webhook_format(vector["payload"]) == vector["expected_format"]
    assert extraction.webhook_data(vector["payload"]) == vector["expected_data"]


@pytest.mark.parametrize("vector", RECEIVER["positive"], ids=by_id)
def test_receiver_accepts(vector: dict[str, Any]) -> None:
    envelope, seen = read_webhook(vector["payload"])
    assert envelope.idempotency_key == vector["payload"]["idempotency_key"]
    assert envelope.result == vector["payload"]["result"]
    assert seen.status == vector["payload"]["status"]
    assert seen.task_id == vector["payload"]["task_id"]


@pytest.mark.parametrize("vector", RECEIVER["negative"], ids=by_id)
def test_receiver_refuses(vector: dict[str, Any]) -> None:
    with pytest.raises(EnvelopeError) as refusal:
        read_webhook(vector["payload"])
    assert refusal.value.code == vector["expected_error"]
