"""Types of the orchestrator, with the names of document 004, section 2.1."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks_app.assistant.ports import Ports

#: One message in OpenAI's chat format: `role`, `content`, and `tool_calls` or `tool_call_id`.
Message = dict[str, Any]


class TaskState(StrEnum):
    """The state of a turn. `AssistantTurn.status` stores it."""

    INIT = "init"
    PLANNING = "planning"
    LLM_CALL = "llm_call"
    TOOL_EXECUTION = "tool_execution"
    SYNTHESIS = "synthesis"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"  # a person stopped the turn


TERMINAL = frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELLED})


class Mode(StrEnum):
    """The mode of the assistant, from the most to the least allowed."""

    NORMAL = "normal"
    READ_ONLY = "read_only"  # no tool with the effect `propose`
    LOCKDOWN = "lockdown"  # nothing: running turns are aborted


class Channel(StrEnum):
    """Where a session was started."""

    PAGE = "page"
    API = "api"
    COMMAND = "command"


class ModelRole(StrEnum):
    """The role of a model in a turn. The settings name one model for each."""

    PLANNER = "planner"
    ANSWERER = "answerer"


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One tool that a model asks for. The executor gives it an `id`; arguments are not validated yet."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """The result of a tool call: `content` for the model, or `error`, a sentence."""

    call: ToolCall
    content: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    duration_ms: int = 0

    def as_message(self) -> Message:
        """Return the result as the message that answers its call."""
        content = json.dumps({"error": self.error} if self.error else self.content, ensure_ascii=False)
        return {"role": "tool", "tool_call_id": self.call.id, "name": self.call.name, "content": content}


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as models see it. `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ModelResponse:
    """One answer of a model: text, or tools to call. `tokens_used` is 0 if the model does not count."""

    content: str = ""
    tool_calls: Sequence[ToolCall] = ()
    model: str = ""
    tokens_used: int = 0


@dataclass(frozen=True, kw_only=True)
class OpenObject:
    """The object on the page from which a person asks."""

    kind: str
    reference: str


@dataclass(frozen=True, kw_only=True)
class OrchestratorStep:
    """One step of a turn, as it is reported and recorded."""

    state: TaskState
    span_id: str
    duration_ms: int
    model_role: ModelRole | None = None
    model: str = ""
    tokens_used: int = 0
    tools: Sequence[ToolResult] = ()


@dataclass(kw_only=True)
class ExecutionContext:
    """Everything that the steps of one turn read and change. It is passed explicitly; nothing is global.

    `messages` are the session's history and then this turn's own, which begin at `own_from`.
    """

    session_id: uuid.UUID
    trace_id: str
    user_message: str
    mode: Mode
    channel: Channel
    messages: list[Message]
    ports: Ports
    own_from: int = 0
    state: TaskState = TaskState.INIT
    opened: OpenObject | None = None
    zone: str = "UTC"  # the user's
    current_plan: str = ""
    pending_calls: list[ToolCall] = field(default_factory=list)
    final_reply: str = ""
    error: str = ""
    steps: list[OrchestratorStep] = field(default_factory=list)

    @property
    def own_messages(self) -> list[Message]:
        """The messages of this turn alone."""
        return self.messages[self.own_from :]


@dataclass(frozen=True, kw_only=True)
class OrchestratorResult:
    """The outcome of a turn. `error` is a sentence for the user; it never holds an exception's text."""

    reply: str
    steps: Sequence[OrchestratorStep]
    trace_id: str
    error: str = ""
