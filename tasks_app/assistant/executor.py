"""The orchestrator: a state machine with one step function for each state (document 004, section 2.1)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError

from tasks_app.assistant import errors
from tasks_app.assistant.errors import CriticalViolationError, ModelError, ModelTimeoutError, TurnLostError
from tasks_app.assistant.prompts import PLAN_PROMPT, system_message, tool_message
from tasks_app.assistant.telemetry import StepSpan
from tasks_app.assistant.types import (
    TERMINAL,
    ExecutionContext,
    Message,
    Mode,
    ModelResponse,
    ModelRole,
    OrchestratorResult,
    TaskState,
    ToolCall,
    ToolSpec,
)

log = structlog.get_logger(__name__)
#: After so many rounds of tools the model has to answer with what it has.
MOST_ROUNDS = 8
MOST_CALLS = 10  # in one round
# Questions that change something, or that ask for several things, are worth a plan.
_CHANGES = re.compile(
    r"\b(move|shift|change|set|raise|lower|pause|cancel|stop|retry|draft|book)\b", re.IGNORECASE
)
_SEVERAL = re.compile(r"\b(and then|then|compare|as well as)\b", re.IGNORECASE)

StepFunction = Callable[[ExecutionContext, StepSpan], Awaitable[TaskState]]


async def execute_task(context: ExecutionContext) -> ExecutionContext:
    """Take steps until the turn has ended. Each step is one commit.

    Raises:
        TurnLostError: The turn was stopped, or another process has taken it over.
        CriticalViolationError: A tool did what no tool may do.
    """
    while context.state not in TERMINAL:
        context.mode = await context.ports.journal.mode()
        span = StepSpan(trace_id=context.trace_id, state=context.state)
        to = await _take_step(context, span)
        step = span.end(to)
        await context.ports.journal.record(context, step, to)
        context.steps.append(step)
        context.state = to
    return context


async def execute_task_safe(context: ExecutionContext) -> OrchestratorResult:
    """Run `execute_task`; whatever goes wrong becomes a result.

    Raises:
        TurnLostError: The turn was stopped, or another process has taken it over.
        OperationalError: The database is away (or InterfaceError); the turn goes on from its last step later.
    """
    try:
        await execute_task(context)
    except (TurnLostError, InterfaceError, OperationalError):
        raise
    except CriticalViolationError as error:
        log.critical("assistant_violation", trace_id=context.trace_id, error=str(error))
        context.error = errors.LOCKED  # locking the session ended the turn
    except Exception:
        log.critical("orchestrator_fatal_error", trace_id=context.trace_id, exc_info=True)
        await context.ports.journal.abort(context, errors.CRITICAL)
    return OrchestratorResult(
        reply=context.final_reply,
        steps=context.steps,
        trace_id=context.trace_id,
        error=context.error,
    )


async def _take_step(context: ExecutionContext, span: StepSpan) -> TaskState:
    """Return the state that follows; an error that a step could not handle leads to `failed`."""
    if context.mode == Mode.LOCKDOWN:
        context.error = errors.LOCKED
        return TaskState.FAILED
    try:
        return await STEP_FUNCTIONS[context.state](context, span)
    except (CriticalViolationError, TurnLostError, InterfaceError, OperationalError):
        raise
    except ModelTimeoutError:
        log.warning("llm_timeout", trace_id=context.trace_id)
        context.error = errors.MODEL_TIMEOUT
    except ModelError as error:
        log.warning("llm_error", trace_id=context.trace_id, error=str(error))
        context.error = errors.MODEL_ERROR
    except Exception:
        log.exception("unexpected_error", trace_id=context.trace_id)
        context.error = errors.INTERNAL
        await context.ports.journal.alert(f"A turn failed in the state {context.state}.", context.trace_id)
    return TaskState.FAILED


async def step_init(context: ExecutionContext, span: StepSpan) -> TaskState:
    """Take the question and decide whether it needs a plan."""
    context.messages.append({"role": "user", "content": context.user_message})
    return TaskState.PLANNING if needs_plan(context.user_message) else TaskState.LLM_CALL


async def step_planning(context: ExecutionContext, span: StepSpan) -> TaskState:
    """Ask the planner for a plan and store it."""
    messages = [{"role": "system", "content": PLAN_PROMPT}, *context.messages]
    response = await _ask_model(context, span, ModelRole.PLANNER, messages, ())
    context.current_plan = response.content
    return TaskState.LLM_CALL


async def step_llm_call(context: ExecutionContext, span: StepSpan) -> TaskState:
    """Ask the answerer; it replies, or names tools."""
    rounds = sum(1 for message in context.own_messages if message.get("tool_calls"))
    tools = await context.ports.toolbox.offered() if rounds < MOST_ROUNDS else ()
    messages = [system_message(context), *context.messages]
    response = await _ask_model(context, span, ModelRole.ANSWERER, messages, tools)
    if response.tool_calls and tools:
        context.pending_calls = _numbered(context, response.tool_calls)
        context.messages.append(tool_message(response.content, context.pending_calls))
        return TaskState.TOOL_EXECUTION
    context.final_reply = response.content
    return TaskState.SYNTHESIS


async def step_tool_execution(context: ExecutionContext, span: StepSpan) -> TaskState:
    """Run the tools that were named; failures are results, too."""
    results = await context.ports.toolbox.run(context.pending_calls)
    span.ran_tools(results)
    context.messages.extend(result.as_message() for result in results)
    context.pending_calls = []
    return TaskState.LLM_CALL


async def step_synthesis(context: ExecutionContext, span: StepSpan) -> TaskState:
    """Make the reply final."""
    context.final_reply = context.final_reply.strip() or errors.NO_ANSWER
    context.messages.append({"role": "assistant", "content": context.final_reply})
    return TaskState.COMPLETED


STEP_FUNCTIONS: dict[TaskState, StepFunction] = {
    TaskState.INIT: step_init,
    TaskState.PLANNING: step_planning,
    TaskState.LLM_CALL: step_llm_call,
    TaskState.TOOL_EXECUTION: step_tool_execution,
    TaskState.SYNTHESIS: step_synthesis,
}


def needs_plan(question: str) -> bool:
    """Return whether a question asks for a change, or for several things."""
    return bool(_CHANGES.search(question) or _SEVERAL.search(question))


async def _ask_model(
    context: ExecutionContext,
    span: StepSpan,
    role: ModelRole,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
) -> ModelResponse:
    """Return the model's answer: after an error once more with less time, then by the fallback model.

    Raises:
        ModelTimeoutError: The last of them did not answer in time.
        ModelError: The last of them refused, or its answer cannot be read.
    """
    client, limit = context.ports.client, settings.ASSISTANT_RETRY_TIMEOUT_S
    on_text = context.ports.journal.stream if role == ModelRole.ANSWERER else None
    try:
        response = await client.respond(role, messages, tools, on_text=on_text)
    except ModelError as error:
        log.warning("llm_retried", trace_id=context.trace_id, error=str(error))
        context.ports.journal.restart_stream()
        try:
            response = await client.respond(role, messages, tools, timeout_s=limit, on_text=on_text)
        except ModelError:
            if not settings.ASSISTANT_FALLBACK_MODEL:
                raise
            response = await client.respond(role, messages, tools, timeout_s=limit, is_fallback=True)
    span.answered(role, response)
    return response


def _numbered(context: ExecutionContext, calls: Sequence[ToolCall]) -> list[ToolCall]:
    """Return the calls with ids that are unique within the turn; models repeat theirs."""
    before = sum(len(message.get("tool_calls") or ()) for message in context.own_messages)
    return [
        ToolCall(id=f"call_{before + number}", name=call.name, arguments=call.arguments)
        for number, call in enumerate(calls[:MOST_CALLS], start=1)
    ]
