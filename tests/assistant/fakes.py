"""A scripted model, a toolbox and a journal in memory, and turns that run in the test's own thread."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from django.db import DEFAULT_DB_ALIAS, connections

from tasks_app.assistant import threads
from tasks_app.assistant.clients.builtin import BuiltInPlanner
from tasks_app.assistant.models import AssistantTurn
from tasks_app.assistant.ports import ModelClient, OnText, Ports
from tasks_app.assistant.runner import answer_turn
from tasks_app.assistant.services import ask
from tasks_app.assistant.telemetry import StepSpan
from tasks_app.assistant.types import (
    Channel,
    ExecutionContext,
    Message,
    Mode,
    ModelResponse,
    ModelRole,
    OrchestratorStep,
    TaskState,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from tasks_app.people.models import User


class ScriptedModel:
    """Gives the answers of a script, one for each request; an exception is raised. Keeps the requests."""

    def __init__(self, *answers: ModelResponse | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[tuple[ModelRole, list[Message], list[str], float | None]] = []

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
        self.requests.append((role, list(messages), [tool.name for tool in tools], timeout_s))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class MemoryToolbox:
    """Answers every call with its own name."""

    names: Sequence[str] = ("look",)
    ran: list[ToolCall] = field(default_factory=list)

    async def offered(self) -> list[ToolSpec]:
        return [ToolSpec(name=name, description="", parameters={}) for name in self.names]

    async def run(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        self.ran += calls
        return [ToolResult(call=call, content={"summary": call.name}) for call in calls]


@dataclass
class MemoryJournal:
    """Keeps what would have been stored."""

    holds: Mode = Mode.NORMAL
    recorded: list[tuple[TaskState, TaskState]] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)

    async def mode(self) -> Mode:
        return self.holds

    async def record(self, context: ExecutionContext, step: OrchestratorStep, to: TaskState) -> None:
        self.recorded.append((step.state, to))

    async def abort(self, context: ExecutionContext, error: str) -> None:
        context.error = error
        self.aborted.append(error)

    def restart_stream(self) -> None:
        pass

    async def alert(self, what: str, trace_id: str) -> None:
        self.alerts.append(what)

    def stream(self, text: str) -> None:
        pass


def make_context(
    model: ModelClient | None = None, *, question: str = "How are we?", **fields: Any
) -> ExecutionContext:
    """A turn in memory."""
    ports = Ports(
        client=model or BuiltInPlanner(),
        toolbox=fields.pop("toolbox", MemoryToolbox()),
        journal=fields.pop("journal", MemoryJournal()),
    )
    return ExecutionContext(
        **{
            "session_id": uuid.uuid4(),
            "trace_id": uuid.uuid4().hex,
            "user_message": question,
            "mode": Mode.NORMAL,
            "channel": Channel.PAGE,
            "messages": [],
            "ports": ports,
            **fields,
        }
    )


def make_span(context: ExecutionContext) -> StepSpan:
    return StepSpan(trace_id=context.trace_id, state=context.state)


def text(content: str) -> ModelResponse:
    return ModelResponse(content=content, model="scripted", tokens_used=7)


def calls(*names: str, **arguments: Any) -> ModelResponse:
    return ModelResponse(
        tool_calls=[ToolCall(id="same", name=name, arguments=arguments) for name in names],
        model="scripted",
        tokens_used=11,
    )


@contextmanager
def shared_thread() -> Iterator[None]:
    """Let turns use one thread, with the database connection and the transaction of this one."""
    ours: Any = connections[DEFAULT_DB_ALIAS]
    ours.inc_thread_sharing()

    def adopt() -> None:
        connections[DEFAULT_DB_ALIAS] = ours

    try:
        with (
            ThreadPoolExecutor(1, initializer=adopt) as pool,
            mock.patch.object(threads, "_pool", pool),
            mock.patch.object(threads, "_lease_pool", pool),
            mock.patch.object(threads, "close_old_connections"),  # it would close one with a transaction
        ):
            yield
    finally:
        ours.dec_thread_sharing()


def converse(user: User, *questions: str, model: ModelClient | None = None, **fields: Any) -> AssistantTurn:
    """Ask one question after the other in one conversation; return the last turn, answered."""
    session_id = fields.pop("session_id", None)
    for question in questions:
        turn = ask(user=user, question=question, channel=Channel.API, session_id=session_id, **fields)
        session_id = turn.session_id
        asyncio.run(answer_turn(turn, model or BuiltInPlanner()))
    return AssistantTurn.objects.get(pk=turn.pk)
