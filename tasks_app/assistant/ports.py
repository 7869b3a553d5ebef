"""What the steps of a turn need from outside: a model, tools and a journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tasks_app.assistant.types import (
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

OnText = Callable[[str], None]


class ModelClient(Protocol):
    """A language model, or the built-in planner in its place."""

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
        """Answer `messages`, or name tools to call.

        Args:
            role: Chooses the model.
            messages: The conversation, in OpenAI's chat format.
            tools: The tools on offer; empty for a plan.
            timeout_s: Seconds until the whole answer must be there; the client's own limit if None.
            on_text: Called with each piece of text as it arrives.
            is_fallback: Ask the fallback model instead of the role's.

        Raises:
            ModelTimeoutError: No whole answer in time, or no connection.
            ModelError: The endpoint refused, or its answer cannot be read.
        """


class Toolbox(Protocol):
    """The tools of one user."""

    async def offered(self) -> Sequence[ToolSpec]:
        """Return the tools that the user's rights and the present mode allow."""

    async def run(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Run calls side by side and record each result.

        Raises:
            CriticalViolationError: A tool did what no tool may do; the session is locked.
        """


class Journal(Protocol):
    """Where a turn is recorded, one commit for each step."""

    async def mode(self) -> Mode:
        """Return the strictest mode that holds now. Raise TurnLostError if the turn is not ours any more."""

    async def record(self, context: ExecutionContext, step: OrchestratorStep, to: TaskState) -> None:
        """Store a step and everything that it changed, and move the turn. Raise TurnLostError."""

    async def abort(self, context: ExecutionContext, error: str) -> None:
        """End the turn as failed, if it is still ours, and tell operators."""

    async def alert(self, what: str, trace_id: str) -> None:
        """Tell operators of a defect."""

    def restart_stream(self) -> None:
        """Forget the pieces so far: the reply is written anew."""

    def stream(self, text: str) -> None:
        """Take a piece of the reply that is being written."""


@dataclass(frozen=True, kw_only=True)
class Ports:
    """What one turn runs with."""

    client: ModelClient
    toolbox: Toolbox
    journal: Journal
