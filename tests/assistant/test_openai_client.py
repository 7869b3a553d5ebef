"""The client reads what an OpenAI-compatible endpoint answers, and gives up on everything else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from django.test import override_settings

from demo.ports import free_port
from tasks_app.assistant.clients.openai_client import (
    MAX_CHARACTERS,
    MAX_TOOL_CALLS,
    OpenAIClient,
    client_from_settings,
)
from tasks_app.assistant.errors import ModelError, ModelTimeoutError
from tasks_app.assistant.ports import ModelClient, OnText
from tasks_app.assistant.types import ModelResponse, ModelRole, ToolSpec
from tests.assistant.driver import ModelServer
from tests.assistant.model_server import NO_SCRIPT
from tests.support import PATIENCE_S

KEY = "the-key-of-the-endpoint"
MODELS = {"planner": "large-planner", "answerer": "large-answerer"}
MESSAGES = [{"role": "user", "content": "Which buys end this week?"}]
TOOL = ToolSpec(name="list_buys", description="List buys.", parameters={"type": "object"})
UNREADABLE: dict[str, dict[str, Any]] = {
    "cut JSON": {"raw": ['{"choices": [{"index"']},
    "deep JSON": {"raw": ["[" * 100_000]},
    "a list": {"raw": ["[1]"]},
    "choices as text": {"raw": ['{"choices": "none"}']},
    "content as number": {"raw": ['{"choices": [{"delta": {"content": 5}}]}']},
    "index as list": {"raw": ['{"choices": [{"delta": {"tool_calls": [{"index": []}]}}]}']},
    "an error": {"raw": [json.dumps({"error": {"message": KEY}})]},
    "no finish": {"text": "Two buys end.", "fault": "unfinished"},
    "long text": {"text": "x" * (MAX_CHARACTERS + 1)},
    "many tool calls": {"calls": [{"name": "list_buys", "arguments": "{}"}] * (MAX_TOOL_CALLS + 1)},
    "no tool name": {"calls": [{"name": "", "arguments": "{}"}]},
    "cut arguments": {"calls": [{"name": "list_buys", "arguments": '{"channels": ['}]},
    "arguments as list": {"calls": [{"name": "list_buys", "arguments": "[1]"}]},
    "arguments with NaN": {"calls": [{"name": "list_buys", "arguments": '{"budget": NaN}'}]},
}


def make_client(url: str, fallback_model: str = "") -> OpenAIClient:
    return OpenAIClient(url=url, key=KEY, models=MODELS, fallback_model=fallback_model, timeout_s=PATIENCE_S)


def ask(url: str, *, timeout_s: float | None = None, on_text: OnText | None = None) -> ModelResponse:
    return ask_with(lambda: make_client(url), timeout_s, on_text)


def ask_with(
    make: Callable[[], OpenAIClient], timeout_s: float | None = None, on_text: OnText | None = None
) -> ModelResponse:
    async def answer() -> ModelResponse:
        client = make()
        port: ModelClient = client
        try:
            return await port.respond(
                ModelRole.ANSWERER, MESSAGES, [TOOL], timeout_s=timeout_s, on_text=on_text
            )
        finally:
            await client.close()

    return asyncio.run(answer())


def test_text_arrives_in_pieces_and_whole(model_server: ModelServer) -> None:
    text = "Two buys end this week: Cobalt Bay TV\0 and Norrland."
    model_server.script([{"text": text, "usage": 42}])
    pieces: list[str] = []

    response = ask(model_server.url, on_text=pieces.append)

    assert len(pieces) > 1
    assert response.content == "".join(pieces) == text.replace("\0", "\ufffd")  # PostgreSQL stores no NUL
    assert (response.tool_calls, response.model, response.tokens_used) == ([], "large-answerer", 42)
    (request,) = model_server.requests()
    assert (request["body"]["model"], request["body"]["messages"]) == ("large-answerer", MESSAGES)
    assert request["body"]["tools"][0]["function"]["name"] == "list_buys"


def test_tool_calls_are_assembled_from_deltas(model_server: ModelServer) -> None:
    arguments = {"ends_before": "2026-12-07", "channels": ["ctv"]}
    calls = [
        {"id": "call-of-the-model", "name": "list_buys", "arguments": json.dumps(arguments)},
        {"id": None, "name": "list_sellers", "arguments": ""},
    ]
    model_server.script([{"calls": calls}])

    first, second = ask(model_server.url).tool_calls

    assert (first.id, first.name, first.arguments) == ("call-of-the-model", "list_buys", arguments)
    assert (second.name, second.arguments) == ("list_sellers", {})


@pytest.mark.parametrize("fault", ["stall_first", "stall_middle"])
def test_a_stall_is_a_timeout(model_server: ModelServer, fault: str) -> None:
    model_server.script([{"text": "Two buys end.", "fault": fault}])

    with pytest.raises(ModelTimeoutError):
        ask(model_server.url, timeout_s=0.3)


def test_a_dropped_and_a_refused_connection_are_timeouts(model_server: ModelServer) -> None:
    model_server.script([{"text": "Two buys end.", "fault": "drop"}])

    for url in (model_server.url, f"http://127.0.0.1:{free_port()}/v1"):
        with pytest.raises(ModelTimeoutError, match="connection"):
            ask(url)


@pytest.mark.parametrize("status", [500, 429, 401, 307])
def test_an_error_status_is_reported_without_the_key(model_server: ModelServer, status: int) -> None:
    body = {"error": {"message": f"wrong key {KEY}"}}
    headers = {"Location": "/v1/chat/completions"}
    model_server.script([{"status": status, "body": body, "headers": headers}])

    with pytest.raises(ModelError, match=str(status)) as raised:
        ask(model_server.url.replace("http://", "http://user:password@"))

    assert not isinstance(raised.value, ModelTimeoutError)
    told = f"{raised.value} {raised.value!r}"
    assert KEY not in told
    assert "password" not in told
    assert len(model_server.requests()) == 1  # neither a retry nor a redirect


@pytest.mark.parametrize("behaviour", UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_answer_is_an_error(model_server: ModelServer, behaviour: dict[str, Any]) -> None:
    model_server.script([behaviour])

    with pytest.raises(ModelError) as raised:
        ask(model_server.url)

    assert not isinstance(raised.value, ModelTimeoutError)
    assert KEY not in str(raised.value)


def test_an_error_of_the_caller_passes_unchanged(model_server: ModelServer) -> None:
    def fail(piece: str) -> None:
        raise ValueError(piece)

    with pytest.raises(ValueError, match="No"):
        ask(model_server.url, on_text=fail)


def test_the_fallback_model_answers(model_server: ModelServer) -> None:
    async def answer() -> ModelResponse:
        client = make_client(model_server.url, "small")
        try:
            return await client.respond(
                ModelRole.PLANNER, MESSAGES, [], timeout_s=PATIENCE_S, is_fallback=True
            )
        finally:
            await client.close()

    assert asyncio.run(answer()) == ModelResponse(content=NO_SCRIPT, tool_calls=[], model="small")
    (request,) = model_server.requests()
    assert request["body"]["model"] == "small"
    assert "tools" not in request["body"]


def test_only_the_settings_name_the_endpoint(
    model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("OPENAI_ORG_ID", "another-account")
    named = override_settings(ASSISTANT_URL=model_server.url, ASSISTANT_KEY="", ASSISTANT_MODELS=MODELS)

    with named:
        response = ask_with(client_from_settings)

    assert response.content == NO_SCRIPT
    (request,) = model_server.requests()
    assert "openai-organization" not in request["headers"]


def test_the_server_also_answers_without_a_stream(model_server: ModelServer) -> None:
    model_server.script([{"text": "Two buys end.", "usage": 7}])
    address = f"{model_server.url}/chat/completions"

    answer = httpx.post(address, json={"model": "large"}, trust_env=False, timeout=PATIENCE_S).json()

    assert answer["choices"][0]["message"]["content"] == "Two buys end."
    assert answer["usage"] == {"total_tokens": 7}
