"""The model, the tools and the journal that the steps of a turn use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tasks_app.assistant.types import Message, ModelResponse, ModelRole, ToolSpec

if TYPE_CHECKING:
    from tasks_app.assistant.journal import TurnJournal
    from tasks_app.assistant.toolbox import UserToolbox

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


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The model, the tools and the journal of one turn."""

    client: ModelClient
    toolbox: UserToolbox
    journal: TurnJournal
