"""The built-in planner answers enough of the evaluation's questions."""

from __future__ import annotations

from tasks_app.assistant.clients.builtin import BuiltInPlanner
from tests.assistant.evaluation.questions import QUESTIONS
from tests.assistant.evaluation.running import evaluate


def test_a_third_of_the_questions_is_answered_right_in_one_data_set(db: None) -> None:
    """`make eval-assistant` asks all of them in both."""
    (verdicts,) = evaluate(BuiltInPlanner(), ["house"], QUESTIONS[::3]).values()
    assert len(QUESTIONS) == 60
    assert [one for one in verdicts if not one.is_right] == []
