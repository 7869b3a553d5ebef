"""Turns as rows: asked, answered, stopped, continued, and what is on record about them."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from tasks_app.assistant.errors import AssistantRefusedError, TurnLostError, UnknownSessionError
from tasks_app.assistant.executor import execute_task
from tasks_app.assistant.leases import claim_turns, release_leases
from tasks_app.assistant.models import AssistantStep, AssistantToolCall, AssistantTurn
from tasks_app.assistant.runner import load_context
from tasks_app.assistant.selectors import turns_before
from tasks_app.assistant.services import MOST_WAITING, ask, stop
from tasks_app.assistant.threads import in_thread
from tasks_app.assistant.turns import clear_stale_turns
from tasks_app.assistant.types import Channel, TaskState
from tasks_app.lifecycle.models import AuditEntry
from tests.assistant.fakes import ScriptedModel, calls, converse, text
from tests.clocks import Clock
from tests.factories import make_deal, make_team, make_user

pytestmark = pytest.mark.django_db


def question(user, said="What waits for me?", **fields) -> AssistantTurn:
    return ask(user=user, question=said, channel=Channel.API, **fields)


def test_a_conversation_goes_on_and_keeps_what_was_said(inline: None) -> None:
    user = make_user("Buyer")
    model = ScriptedModel(text("Well."), text("As before."))
    first = converse(user, "How are we?", model=model)
    second = converse(user, "And now?", model=model, session_id=first.session_id)
    assert [message["content"] for message in model.requests[1][1][1:]] == [
        "How are we?",
        "Well.",
        "And now?",
    ]
    assert (second.number, second.session.title) == (2, "How are we?")
    assert len(second.session.messages) == 4


def test_a_second_question_waits_until_the_first_has_ended(inline: None) -> None:
    user = make_user("Buyer")
    first = question(user)
    second = question(user, session_id=first.session_id)
    other = question(make_user("Buyer"))
    assert turns_before(second) == 1
    assert {*claim_turns(limit=10)} == {first.pk, other.pk}
    stop(user=user, turn_id=first.pk)
    assert {*claim_turns(limit=10)} == {second.pk}


def test_a_stopped_turn_takes_no_late_result(inline: None) -> None:
    user = make_user("Buyer")
    turn = question(user)
    ((_, holder),) = claim_turns(limit=1).items()

    class Late(ScriptedModel):
        async def respond(self, *args, **kwargs):
            await in_thread(stop, user=user, turn_id=turn.pk, reason="Wrong question")
            return text("Too late.")

    context = load_context(turn.pk, holder, Late())
    with pytest.raises(TurnLostError):
        asyncio.run(execute_task(context))
    turn.refresh_from_db()
    assert (turn.status, turn.reply) == (TaskState.CANCELLED, "")
    assert AssistantStep.objects.filter(turn=turn).latest("id").stale
    assert AuditEntry.objects.filter(entity_id=turn.pk).latest("seq").reason == "Wrong question"
    with pytest.raises(AssistantRefusedError):
        stop(user=user, turn_id=turn.pk)


def test_a_turn_whose_lease_ran_out_goes_on_elsewhere_and_the_first_run_changes_nothing(
    inline: None, still: Clock
) -> None:
    turn = question(make_user("Buyer"), "How are we?")
    ((_, first),) = claim_turns(limit=1).items()
    context = load_context(turn.pk, first, ScriptedModel(text("From the first.")))
    assert claim_turns(limit=1) == {}, "it is leased"
    still.forward(seconds=60)
    assert clear_stale_turns() == 1
    ((_, second),) = claim_turns(limit=1).items()
    with pytest.raises(TurnLostError):
        asyncio.run(execute_task(context))
    again = load_context(turn.pk, second, ScriptedModel(text("From the second.")))
    asyncio.run(execute_task(again))
    turn.refresh_from_db()
    assert turn.reply == "From the second."


def test_after_a_crash_between_tools_only_the_rest_runs(inline: None) -> None:
    user = make_user("Buyer")
    turn = question(user, "How are we?")
    ((_, holder),) = claim_turns(limit=1).items()
    model = ScriptedModel(calls("my_queue", "my_queue"), text("Done."))
    context = load_context(turn.pk, holder, model)

    class CrashError(Exception):
        pass

    async def crash(calls):
        await in_thread(context.ports.toolbox.run_one, calls[0])
        raise CrashError

    context.ports.toolbox.run = crash
    before = context.ports.journal.record

    async def record(context, step, to):
        if to == TaskState.FAILED:
            raise CrashError  # the process died before it could say so
        await before(context, step, to)

    context.ports.journal.record = record
    with pytest.raises(CrashError):
        asyncio.run(execute_task(context))
    release_leases([holder])
    ended = AssistantToolCall.objects.get(turn=turn, call_id="call_1").ended_at
    ((_, holder),) = claim_turns(limit=1).items()
    asyncio.run(execute_task(load_context(turn.pk, holder, model)))
    turn.refresh_from_db()
    assert turn.reply == "Done."
    assert AssistantToolCall.objects.get(turn=turn, call_id="call_1").ended_at == ended, (
        "it did not run again"
    )


def test_bad_questions_are_refused_and_leave_nothing() -> None:
    user, other = make_user("Buyer"), make_user("Buyer")
    theirs = question(other)
    wrong = [
        {"question": "  "},
        {"question": "x" * 4001},
        {"question": "a\x00b"},
        {"session_id": theirs.session_id},
        {"session_id": uuid.uuid4()},
    ]
    for fields in wrong:
        with pytest.raises(AssistantRefusedError):
            ask(**{"user": user, "question": "Hm?", "channel": Channel.API, **fields})
    with pytest.raises(UnknownSessionError):
        question(user, session_id=theirs.session_id)
    with pytest.raises(AssistantRefusedError):
        stop(user=user, turn_id=theirs.pk)
    with pytest.raises(AssistantRefusedError):
        question(make_user("Integration"))
    for _ in range(MOST_WAITING - 1):
        question(other, session_id=theirs.session_id)
    with pytest.raises(AssistantRefusedError):
        question(other, session_id=theirs.session_id)
    assert AssistantTurn.objects.exclude(session__user=other).count() == 0


def test_the_open_object_is_known_only_if_the_person_may_see_it() -> None:
    deal = make_deal()
    stranger = make_user("Buyer", team=make_team("Elsewhere"))
    assert question(make_user("Buyer"), opened=("deal", deal.pk)).opened["reference"] == deal.reference
    for opened in (("deal", uuid.uuid4()), ("nothing", deal.pk)):
        assert question(make_user("Buyer"), opened=opened).opened is None
    assert question(stranger, opened=("deal", deal.pk)).opened is None


def test_a_turn_that_nobody_finishes_is_given_up(still: Clock) -> None:
    turn = question(make_user("Buyer"))
    claim_turns(limit=1)
    still.forward(seconds=1)
    assert clear_stale_turns() == 0
    still.forward(minutes=16)
    assert clear_stale_turns() == 2, "its lease is freed, and it is failed"
    turn.refresh_from_db()
    assert (turn.status, turn.lease_holder) == (TaskState.FAILED, None)
    assert "15 minutes" in turn.error
