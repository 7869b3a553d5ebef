"""The orchestrator's steps, each by itself, and its loop (document 004, sections 2.1 and 2.4)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tasks_app.assistant import errors
from tasks_app.assistant.errors import CriticalViolationError, ModelError, ModelTimeoutError
from tasks_app.assistant.executor import (
    MOST_ROUNDS,
    execute_task,
    execute_task_safe,
    step_init,
    step_llm_call,
    step_planning,
    step_synthesis,
    step_tool_execution,
)
from tasks_app.assistant.types import Mode, ModelRole, TaskState, ToolCall
from tests.assistant.fakes import (
    MemoryJournal,
    MemoryToolbox,
    ScriptedModel,
    calls,
    make_context,
    make_span,
    text,
)

S = TaskState


def take(step, context):
    return asyncio.run(step(context, make_span(context)))


def test_init_takes_the_question_and_plans_only_what_changes_something() -> None:
    simple, change = make_context(), make_context(question="Move USD 10,000 to audio")
    assert (take(step_init, simple), take(step_init, change)) == (S.LLM_CALL, S.PLANNING)
    assert simple.messages == [{"role": "user", "content": "How are we?"}]


def test_planning_stores_the_planners_answer() -> None:
    model = ScriptedModel(text("1. Look"))
    context = make_context(model, messages=[{"role": "user", "content": "?"}])
    assert take(step_planning, context) == S.LLM_CALL
    assert context.current_plan == "1. Look"
    assert (model.requests[0][0], model.requests[0][2]) == (ModelRole.PLANNER, [])


def test_a_call_of_the_model_leads_to_tools_or_to_a_reply() -> None:
    context = make_context(ScriptedModel(calls("look", "look"), text("All is well.")))
    assert take(step_llm_call, context) == S.TOOL_EXECUTION
    assert [call.id for call in context.pending_calls] == ["call_1", "call_2"], "the model's ids repeat"
    context.pending_calls = []
    assert take(step_llm_call, context) == S.SYNTHESIS
    assert context.final_reply == "All is well."


def test_tools_run_and_their_results_follow_their_calls() -> None:
    call = ToolCall(id="call_1", name="look", arguments={})
    context = make_context(pending_calls=[call])
    assert take(step_tool_execution, context) == S.LLM_CALL
    (message,) = context.messages
    assert (message["role"], message["tool_call_id"]) == ("tool", "call_1")
    assert json.loads(message["content"]) == {"summary": "look"}
    assert context.pending_calls == []


def test_synthesis_never_leaves_a_turn_without_a_reply() -> None:
    said, silent = make_context(final_reply=" Well. "), make_context()
    assert (take(step_synthesis, said), take(step_synthesis, silent)) == (S.COMPLETED, S.COMPLETED)
    assert (said.final_reply, silent.final_reply) == ("Well.", errors.NO_ANSWER)


def test_a_whole_turn_with_a_tool_is_recorded_step_by_step() -> None:
    journal, toolbox = MemoryJournal(), MemoryToolbox()
    model = ScriptedModel(calls("look"), text("Done."))
    result = asyncio.run(execute_task_safe(make_context(model, journal=journal, toolbox=toolbox)))
    assert (result.reply, result.error) == ("Done.", "")
    assert [frm for frm, _ in journal.recorded] == [
        S.INIT,
        S.LLM_CALL,
        S.TOOL_EXECUTION,
        S.LLM_CALL,
        S.SYNTHESIS,
    ]
    assert journal.recorded[-1][1] == S.COMPLETED
    assert [step.tokens_used for step in result.steps] == [0, 11, 0, 7, 0]
    assert [call.name for call in toolbox.ran] == ["look"]


def test_a_model_that_never_stops_calling_tools_has_to_answer() -> None:
    model = ScriptedModel(*[calls("look")] * MOST_ROUNDS, text("Enough."))
    result = asyncio.run(execute_task_safe(make_context(model)))
    assert result.reply == "Enough."
    assert model.requests[-1][2] == [], "no tools are offered any more"


class TestErrorClasses:
    """One test for each row of document 004, section 2.4."""

    def test_llm_timeout_is_retried_once_with_30_seconds_then_by_a_smaller_model(self, settings: Any) -> None:
        settings.ASSISTANT_FALLBACK_MODEL = "small"
        retried = ScriptedModel(ModelTimeoutError(), text("Late."))
        assert asyncio.run(execute_task_safe(make_context(retried))).reply == "Late."
        assert [limit for *_, limit in retried.requests] == [None, 30]
        smaller = ScriptedModel(ModelTimeoutError(), ModelTimeoutError(), text("Small."))
        assert asyncio.run(execute_task_safe(make_context(smaller))).reply == "Small."

    def test_llm_timeout_for_good_is_the_documents_reply(self) -> None:
        model = ScriptedModel(ModelTimeoutError(), ModelTimeoutError())
        context = make_context(model)
        assert asyncio.run(execute_task_safe(context)).error == "Model timeout, please try again"
        assert context.state == S.FAILED

    def test_an_endpoint_that_refuses_is_told_without_its_text(self) -> None:
        model = ScriptedModel(*[ModelError("key sk-1 is wrong")] * 2)
        result = asyncio.run(execute_task_safe(make_context(model)))
        assert result.error == errors.MODEL_ERROR
        assert "sk-1" not in str(result)

    def test_a_critical_safety_violation_aborts_the_task(self) -> None:
        class Wrong(MemoryToolbox):
            async def run(self, calls):
                raise CriticalViolationError("It wrote.")

        journal = MemoryJournal()
        context = make_context(ScriptedModel(calls("look")), journal=journal, toolbox=Wrong())
        assert asyncio.run(execute_task_safe(context)).error == errors.LOCKED
        assert journal.aborted == [], "locking the session ended the turn"

    def test_a_bug_in_a_step_is_logged_alerted_and_generic(self) -> None:
        journal = MemoryJournal()
        model = ScriptedModel(RuntimeError("secret of the house"))
        result = asyncio.run(execute_task_safe(make_context(model, journal=journal)))
        assert result.error == "Internal error occurred"
        assert journal.alerts
        assert "secret" not in f"{result} {journal.alerts}"

    def test_a_bug_of_the_orchestrator_is_a_result_all_the_same(self) -> None:
        class Broken(MemoryJournal):
            async def record(self, context, step, to):
                raise RuntimeError("the disk is full")

        journal = Broken()
        result = asyncio.run(execute_task_safe(make_context(ScriptedModel(text("Hm.")), journal=journal)))
        assert result.error == errors.CRITICAL
        assert journal.aborted == [errors.CRITICAL]


@pytest.mark.parametrize("state", [state for state in S if state not in (S.COMPLETED, S.FAILED, S.CANCELLED)])
def test_lockdown_fails_a_turn_from_any_state(state: TaskState) -> None:
    journal = MemoryJournal(holds=Mode.LOCKDOWN)
    context = asyncio.run(execute_task(make_context(journal=journal, state=state)))
    assert (context.state, context.error) == (S.FAILED, errors.LOCKED)
