"""The six acceptance criteria of document 004, section 8, one test for each."""

from __future__ import annotations

import dataclasses
import uuid

import pytest
from django.urls import reverse

from orders.questions import ask_deal
from tasks_app.assistant import types
from tasks_app.assistant.errors import INTERNAL, UnknownSessionError
from tasks_app.assistant.models import AssistantStep, AssistantToolCall
from tasks_app.assistant.selectors import turn_data
from tasks_app.assistant.sessions import MOST_MESSAGES, SessionManager
from tasks_app.assistant.types import Channel, TaskState
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.selectors import entries_visible
from tasks_app.lifecycle.verify import verify_entity
from tests.assistant.fakes import ScriptedModel, converse
from tests.assistant.test_pages import body, client_of
from tests.commands.running import call, run
from tests.database import Database
from tests.factories import make_deal, make_user


def test_core_orchestrator_types_are_defined() -> None:
    fields = {field.name for field in dataclasses.fields(types.ExecutionContext)}
    assert {"session_id", "trace_id", "user_message", "mode", "messages", "current_plan"} <= fields
    result = {field.name for field in dataclasses.fields(types.OrchestratorResult)}
    assert result == {"reply", "steps", "trace_id", "error"}
    assert {"state", "span_id"} <= {field.name for field in dataclasses.fields(types.OrchestratorStep)}
    assert {"init", "planning", "llm_call", "tool_execution", "synthesis"} <= {*types.TaskState}


def test_the_session_manager_creates_reads_updates_and_lists_the_sessions_of_one_person(db: None) -> None:
    mine, others = SessionManager(make_user("Buyer")), SessionManager(make_user("Buyer"))
    pk = mine.create_session(channel=Channel.COMMAND, preferences={"zone": "UTC"})
    mine.update_session(pk, [{"role": "user", "content": str(number)} for number in range(MOST_MESSAGES + 3)])
    session = mine.get_session(pk)
    assert session is not None
    assert (session.channel, session.preferences) == ("command", {"zone": "UTC"})
    assert len(session.messages) == MOST_MESSAGES
    assert session.messages[-1]["content"] == str(MOST_MESSAGES + 2)
    assert [one.pk for one in mine.list_active_sessions()] == [pk]
    assert others.get_session(pk) is None
    assert others.list_active_sessions() == []
    with pytest.raises(UnknownSessionError):
        others.update_session(pk, [])
    with pytest.raises(UnknownSessionError):
        mine.restore_session(uuid.uuid4())


def test_the_execution_loop_works_end_to_end_for_simple_questions(inline: None) -> None:
    turn = converse(make_user("Buyer"), "What can you do?")
    assert (turn.status, turn.error) == ("completed", "")
    assert "I can answer questions such as" in turn.reply


def test_a_flow_that_uses_a_tool_succeeds_with_telemetry(inline: None) -> None:
    approver = make_user("Approver")
    approval = ask_deal(make_deal())
    turn = converse(approver, "What waits for me?")
    assert turn.status == TaskState.COMPLETED
    assert "1 thing waits for you" in turn.reply
    data = turn_data(turn.pk)
    assert [step["state"] for step in data["steps"]] == [
        "init", "llm_call", "tool_execution", "llm_call", "synthesis",
    ]  # fmt: skip
    assert (data["steps"][2]["tool"], data["steps"][2]["arguments"]) == ("my_queue", {})
    call = AssistantToolCall.objects.get()
    assert [link["label"] for link in call.result["links"]] == [approval.reference]
    entries = list(AuditEntry.objects.filter(entity_id=turn.pk).order_by("seq"))
    assert [entry.to_status for entry in entries][-1] == TaskState.COMPLETED
    assert {entry.actor for entry in entries[1:]} == {"agent:assistant"}
    assert all(step.span_id for step in AssistantStep.objects.filter(turn=turn))
    assert verify_entity("assistant_turn", turn.pk).ok
    assert entries_visible(make_user("Buyer")).filter(entity_id=turn.pk).count() == 0, "nobody else's"


def test_errors_do_not_crash_and_reach_the_user_as_a_sentence(inline: None) -> None:
    buyer = make_user("Buyer")
    turn = converse(buyer, "Hm?", model=ScriptedModel(RuntimeError("the password is 1234")))
    shown = body(client_of(buyer).get(reverse("assistant_turn", args=[turn.pk])))
    assert INTERNAL in shown
    assert "1234" not in shown
    assert converse(buyer, "What waits for me?", session_id=turn.session_id).reply


def test_a_session_survives_the_end_of_its_process(committed_db: Database) -> None:
    user = make_user("Buyer", name="tomas")
    answered = run("ask", "What waits for me?", "--user", "tomas", "--json").json
    session = SessionManager(user).get_session(answered["session_id"])
    assert session is not None
    assert [message["content"] for message in session.messages] == ["What waits for me?", answered["reply"]]
    again = call("ask", "And now?", "--user", "tomas", "--session", answered["session_id"], "--json")
    assert again.json["session_id"] == answered["session_id"]
