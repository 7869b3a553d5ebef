"""Asking every question over a data set, and judging the answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction

from tasks_app.approvals.models import Approval
from tasks_app.assistant.models import AssistantToolCall
from tasks_app.assistant.ports import ModelClient
from tasks_app.assistant.runner import answer_turn
from tasks_app.assistant.selectors import turn_data
from tasks_app.assistant.services import ask
from tasks_app.assistant.tools.names import FIND
from tasks_app.assistant.types import Channel
from tasks_app.operations.models import Operation
from tests.assistant.evaluation.data_sets import DATA_SETS, DataSet
from tests.assistant.evaluation.questions import QUESTIONS, Question
from tests.assistant.fakes import shared_thread


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The judgement of one answer. `tool` is the one that answered, "" for none."""

    question: str
    tool: str
    tool_right: bool
    arguments_right: bool
    problems: tuple[str, ...]
    duration_ms: int

    @property
    def is_right(self) -> bool:
        return self.tool_right and self.arguments_right and not self.problems


def judge(question: Question, data_set: DataSet, client: ModelClient) -> Verdict:
    """Ask a question, judge the answer, and take back what it changed."""
    facts, user = data_set.facts, data_set.people[question.role]
    text = question.text.format_map(facts)
    opened = ("deal", data_set.deals[question.opened].pk) if question.opened else None
    with transaction.atomic():
        before = _effects()
        turn = ask(user=user, question=text, channel=Channel.API, opened=opened)
        began = time.monotonic()
        asyncio.run(answer_turn(turn, client))
        duration_ms = round((time.monotonic() - began) * 1000)
        data = turn_data(turn.pk)
        call = AssistantToolCall.objects.filter(turn=turn).exclude(tool=FIND).last()
        problems = [*_problems(question, facts, _reply_text(data))]
        if before != _effects():
            problems.append("it had an effect")
        if question.proposes != bool(data["proposals"]):
            problems.append("a proposal is missing" if question.proposes else "it proposed a change")
        transaction.set_rollback(True)
    tool, arguments = (call.tool, call.arguments) if call else ("", {})
    return Verdict(
        question=text,
        tool=tool,
        tool_right=tool == question.tool,
        arguments_right=all(
            str(arguments.get(name)) == wanted.format_map(facts)
            for name, wanted in question.arguments.items()
        ),
        problems=tuple(problems),
        duration_ms=duration_ms,
    )


def _problems(question: Question, facts: Mapping[str, str], reply: str) -> Iterator[str]:
    for wanted in question.must:
        if wanted.format_map(facts).lower() not in reply:
            yield f"does not say {wanted.format_map(facts)!r}"
    for unwanted in question.must_not:
        if unwanted.format_map(facts).lower() in reply:
            yield f"says {unwanted.format_map(facts)!r}"


def _reply_text(data: dict) -> str:
    """Return the reply and the cells of its table, in lower case."""
    rows = (data["table"] or {"rows": []})["rows"]
    summaries = [one["summary"] for one in data["proposals"]]
    return "\n".join([data["reply"], *summaries, *(cell for row in rows for cell in row)]).lower()


def _effects() -> tuple[int, int]:
    return Approval.objects.count(), Operation.objects.count()


def evaluate(
    client: ModelClient, names: Iterable[str] = tuple(DATA_SETS), questions: Sequence[Question] = QUESTIONS
) -> dict[str, list[Verdict]]:
    """Ask the questions over each data set; return its verdicts by name, in the order of the questions."""
    verdicts = {}
    for name in names:
        with transaction.atomic(), shared_thread():
            data_set = DATA_SETS[name]()
            verdicts[name] = [judge(question, data_set, client) for question in questions]
            transaction.set_rollback(True)
    return verdicts
