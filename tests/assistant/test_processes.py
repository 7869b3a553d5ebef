"""The assistant's process and command: answers, kills at any moment, a stop, memory."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import timedelta

import pytest
from django.db.models import F

from tasks_app.assistant.models import AssistantProposal, AssistantStep, AssistantToolCall, AssistantTurn
from tasks_app.assistant.services import ask
from tasks_app.assistant.types import Channel, TaskState
from tasks_app.lifecycle.verify import verify_entity
from tests.commands.running import ROOT, call, started
from tests.database import Database
from tests.enforcement.mortal import lives
from tests.factories import make_user
from tests.orders.live import booked
from tests.rounds import kill_points
from tests.support import PATIENCE_S, until


def question(user, said="What waits for me?", **fields) -> AssistantTurn:
    return ask(user=user, question=said, channel=Channel.API, **fields)


def test_the_command_answers_with_json_and_goes_on_in_its_session(committed_db: Database) -> None:
    user = make_user("Buyer", name="tomas")
    first = call("ask", "What waits for me?", "--user", "tomas", "--json")
    assert first.code == 0, first.err
    told = first.json
    assert (told["reply"], told["mode"], told["error"]) == ("Nothing waits for you.", "normal", None)
    assert told["proposals"] == []
    assert [step["tool"] for step in told["steps"]] == [None, None, "my_queue", None, None]
    second = call("ask", "Any poems?", "--user", "tomas", "--session", told["session_id"], "--json").json
    assert second["session_id"] == told["session_id"]
    for wrong in (
        ("ask", "Hm?", "--user", "nobody"),
        ("ask", "", "--user", "tomas"),
        ("ask", "Hm?", "--user", "tomas", "--session", "12"),
        ("ask", "Hm?", "--user", "tomas", "--session", str(user.pk)),
    ):
        assert call(*wrong).code == 2, wrong
    assert AssistantTurn.objects.count() == 2


def test_the_process_answers_in_order_and_hands_back_at_sigterm(committed_db: Database) -> None:
    user = make_user("Buyer")
    first = question(user)
    turns = [first, question(user, "Any poems?", session_id=first.session_id), question(make_user("Buyer"))]
    with started("assistant") as process:
        until(lambda: not AssistantTurn.objects.filter(ended_at__isnull=True).exists(), "all are answered")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    for turn in turns:
        turn.refresh_from_db()
        assert (turn.status, turn.lease_holder) == (TaskState.COMPLETED, None)
    assert turns[0].ended_at < turns[1].ended_at


def test_killed_at_any_moment_the_turn_goes_on_and_ends_once(committed_db: Database) -> None:
    user, deal = make_user("Buyer"), booked()
    with lives("answer") as die:
        for number in kill_points(every=3):
            turn = question(user, f"Pause {deal.reference}")
            killed = die(number, turn.pk)
            AssistantTurn.objects.filter(lease_until__isnull=False).update(
                lease_until=F("lease_until") - timedelta(hours=1)
            )
            if killed:
                assert not die(10_000, turn.pk)
            turn.refresh_from_db()
            assert turn.status == TaskState.COMPLETED
            assert "Nothing has changed yet" in turn.reply
            assert AssistantToolCall.objects.filter(turn=turn).count() == 1
            assert AssistantProposal.objects.filter(turn=turn).count() == 1
            assert AssistantStep.objects.filter(turn=turn, stale=False).count() == 6
            assert [message["role"] for message in turn.messages] == [
                "user",
                "assistant",
                "tool",
                "assistant",
            ]
            assert verify_entity("assistant_turn", turn.pk).ok
            if not killed:
                break
    assert number > 9, "it was not killed in the middle"


@pytest.mark.executed  # a process of its own, not a fork of a larger one
def test_fifty_turns_at_once_take_less_than_250_mb(committed_db: Database) -> None:
    user = make_user("Buyer")
    for _ in range(50):
        question(user)
    program = [sys.executable, "-m", "tests.assistant.crowd", "50"]
    done = subprocess.run(program, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["running"], told["completed"]) == (50, 50)
    assert told["mb"] < 250
