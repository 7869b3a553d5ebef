"""Client of a language model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from django.conf import settings

from tasks_app.adcp.hygiene import clean
from tasks_app.adcp.strict_json import MalformedBody, parse_typed
from tasks_app.assistant.errors import ModelError, ModelTimeoutError
from tasks_app.assistant.ports import OnText
from tasks_app.assistant.types import Message, ModelResponse, ModelRole, ToolCall, ToolSpec
from tasks_app.storable import is_storable, storable

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall

MAX_CHARACTERS = 200_000  # of one answer: text and arguments together
MAX_TOOL_CALLS = 20
_MAX_TOOL_NAME, _MAX_TOKENS = 60, 2**31 - 1  # as the columns in `models`
_NO_KEY = "no-key"  # `openai` requires a key, local servers do not
_UNREADABLE = "The model's answer cannot be read."


def client_from_settings() -> OpenAIClient:
    """Return a client of the endpoint in the settings."""
    return OpenAIClient(
        url=settings.ASSISTANT_URL,
        key=settings.ASSISTANT_KEY,
        models=settings.ASSISTANT_MODELS,
        fallback_model=settings.ASSISTANT_FALLBACK_MODEL,
        timeout_s=settings.ASSISTANT_TIMEOUT_S,
    )


async def probe_endpoint() -> None:
    """Ask the endpoint in the settings one question. Raise ModelError or ModelTimeoutError."""
    client = client_from_settings()
    messages = [{"role": "user", "content": "Answer with the word yes."}]
    try:
        limit = settings.ASSISTANT_RETRY_TIMEOUT_S
        await client.respond(ModelRole.ANSWERER, messages, (), timeout_s=limit)
    finally:
        await client.close()


class OpenAIClient:
    """A `ModelClient` for one endpoint. It belongs to one event loop and sends each request once.

    `models` names a model for each role, `timeout_s` bounds a whole answer. The first instance of a process
    imports `openai`, which takes about a second.
    """

    def __init__(
        self, *, url: str, key: str, models: Mapping[str, str], fallback_model: str = "", timeout_s: float
    ) -> None:
        import httpx2
        import openai

        self._models, self._fallback_model, self._timeout_s = models, fallback_model, timeout_s
        # Only the settings say where conversations go: not the environment, not a redirect.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        http_client = httpx2.AsyncClient(trust_env=False, follow_redirects=False, timeout=None, limits=limits)
        self._client = openai.AsyncOpenAI(
            base_url=url, api_key=key or _NO_KEY, max_retries=0, timeout=None, http_client=http_client
        )
        self._client.organization = self._client.project = None

    async def respond(
        self,
        role: ModelRole,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        timeout_s: float | None = None,
        on_text: OnText | None = None,
        is_fallback: bool = False,
    ) -> ModelResponse:
        """Answer with the model of `role`, or with the fallback model. See `ModelClient`."""
        model = self._fallback_model if is_fallback else self._models[role]
        timeout_s, answer = timeout_s or self._timeout_s, _Answer()
        try:
            async with asyncio.timeout(timeout_s), aclosing(self._chunks(model, messages, tools)) as chunks:
                async for chunk in chunks:
                    text = answer.add(chunk)
                    if text and on_text:
                        on_text(text)
        except TimeoutError:
            raise ModelTimeoutError(f"The model gave no whole answer within {timeout_s:g} s.") from None
        return answer.response(model)

    async def close(self) -> None:
        """Close all connections. The client cannot be used after that."""
        await self._client.close()

    async def _chunks(
        self, model: str, messages: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> AsyncGenerator[ChatCompletionChunk, None]:
        """Yield the chunks of an answer. Errors drop their cause: it holds the request and the key."""
        import openai

        try:
            stream = await self._client.chat.completions.create(
                model=model,
                messages=cast(Any, list(messages)),
                tools=cast(Any, [_function(tool) for tool in tools]) if tools else openai.omit,
                stream=True,
                stream_options={"include_usage": True},
            )
            async with stream:
                async for chunk in stream:
                    yield chunk
        except openai.APIConnectionError as error:
            reason = type(error.__cause__).__name__
            raise ModelTimeoutError(f"The connection to the model's endpoint failed ({reason}).") from None
        except openai.APIStatusError as error:
            raise ModelError(f"The model's endpoint answered with status {error.status_code}.") from None
        except (openai.OpenAIError, ValueError, RecursionError):
            raise ModelError(_UNREADABLE) from None


def _function(tool: ToolSpec) -> dict[str, Any]:
    """Return a tool in OpenAI's format."""
    described = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": described}


@dataclass
class _PartialCall:
    """A tool call whose arguments are still arriving."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def tool_call(self) -> ToolCall:
        """Return the complete call. Raise ModelError if it cannot be read."""
        if not 0 < len(self.name) <= _MAX_TOOL_NAME or not is_storable(self.name):
            raise ModelError("The model called a tool without a readable name.")
        try:
            arguments = clean(parse_typed("".join(self.arguments)))
        except MalformedBody as error:
            raise ModelError(f"The model called a tool with unreadable arguments ({error.reason}).") from None
        return ToolCall(id=self.id, name=self.name, arguments=arguments)


@dataclass
class _Answer:
    """The part of an answer that has arrived."""

    text: list[str] = field(default_factory=list)
    calls: dict[int, _PartialCall] = field(default_factory=dict)  # by the model's index
    characters: int = 0
    tokens_used: int = 0
    is_finished: bool = False

    def add(self, chunk: ChatCompletionChunk) -> str:
        """Add a chunk and return its text. Raise ModelError if it cannot be read, or is too much."""
        try:
            text = self._add(chunk)
        except (AttributeError, TypeError):  # `openai` does not validate what it reads
            raise ModelError(_UNREADABLE) from None
        if self.characters > MAX_CHARACTERS or len(self.calls) > MAX_TOOL_CALLS:
            raise ModelError("The model's answer is too long, or it calls too many tools.")
        return text

    def response(self, model: str) -> ModelResponse:
        """Return the complete answer. Raise ModelError if it is incomplete or cannot be read."""
        if not self.is_finished:
            raise ModelError("The model's answer broke off.")
        calls = [call.tool_call() for call in self.calls.values()]
        text = "".join(self.text)
        return ModelResponse(content=text, tool_calls=calls, model=model, tokens_used=self.tokens_used)

    def _add(self, chunk: ChatCompletionChunk) -> str:
        if chunk.usage:
            self.tokens_used = min(max(0, chunk.usage.total_tokens), _MAX_TOKENS)
        text = ""
        for choice in chunk.choices or []:  # one at most; none in a chunk that counts tokens
            self.is_finished = self.is_finished or bool(choice.finish_reason)
            if not choice.delta:
                continue
            for call in choice.delta.tool_calls or []:
                self._add_call(call)
            text += storable(_text(choice.delta.content) or _text(choice.delta.refusal))
        self.text.append(text)
        self.characters += len(text)
        return text

    def _add_call(self, delta: ChoiceDeltaToolCall) -> None:
        call = self.calls.setdefault(delta.index, _PartialCall())
        call.id = call.id or _text(delta.id)
        if delta.function:
            call.name = call.name or _text(delta.function.name)
            arguments = _text(delta.function.arguments)
            call.arguments.append(arguments)
            self.characters += len(arguments)


def _text(value: object) -> str:
    """Return a text, or "" for None. Raise TypeError for anything else."""
    if not isinstance(value, str | None):
        raise TypeError
    return value or ""
