"""What the storey above knows of an answer to a seller: whether it can be sent, and what people are asked.

An answer sends the whole request anew, with what was changed: it may buy as much as the first one did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks_app.approvals.question import Question
from tasks_app.operations.models import Operation

Request = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class AnswerRule:
    """One rule about answers of operations that the storey above knows; of others it says nothing.

    `problem(operation, request)`: why `request` cannot be sent as an answer, in words; empty where it can.
    `question(operation, request, question)`: what is asked of people then, from what is asked of any answer.
    `stands(operation, request)`: whether it is what people approved already.
    `released(operation, request)`: what follows, in the commit that releases it.
    """

    problem: Callable[[Operation, Request], str]
    question: Callable[[Operation, Request, Question], Question]
    stands: Callable[[Operation, Request], bool]
    released: Callable[[Operation, Request], None]


_rules: list[AnswerRule] = []


def answer_rule_register(rule: AnswerRule) -> None:
    """Called when the application starts."""
    if rule not in _rules:
        _rules.append(rule)


def answer_problem(operation: Operation, request: Request) -> str:
    """Why an answer cannot be sent; empty where it can."""
    return next((why for rule in _rules if (why := rule.problem(operation, request))), "")


def answer_question(operation: Operation, request: Request, question: Question) -> Question:
    """What people are asked about an answer, with what the storeys above know of it."""
    for rule in _rules:
        question = rule.question(operation, request, question)
    return question


def answer_released(operation: Operation, request: Request) -> None:
    """Tell the storeys above that an answer was released, in its commit."""
    for rule in _rules:
        rule.released(operation, request)


def answer_stands(operation: Operation, request: Request) -> bool:
    """Whether people have approved what it sends."""
    return all(rule.stands(operation, request) for rule in _rules)
