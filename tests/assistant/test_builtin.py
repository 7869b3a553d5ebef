"""The built-in planner: from a question to a tool, and to a question back."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tasks_app.assistant.clients.builtin import BuiltInPlanner
from tasks_app.assistant.prompts import OPEN_PAGE
from tasks_app.assistant.types import Message, ModelResponse, ModelRole, ToolSpec

_NAMES = """
find_objects my_queue recent_events explain_object object_history compare_offers compare_sellers
open_differences upcoming_deals campaign_money seller_spend deal_money campaign_progress list_deals
list_campaigns
"""
TOOLS = _NAMES.split()
#: Question to tool and arguments.
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Why is Halvorsen's TV deal not booked?": ("find_objects", {"text": "Halvorsen TV", "kinds": ["deal"]}),
    "What is the status of DEAL-2026-000012?": ("explain_object", {"reference": "DEAL-2026-000012"}),
    "who can decide apr-2026-000003": ("explain_object", {"reference": "APR-2026-000003"}),
    "What waits for me?": ("my_queue", {}),
    "Who changed CMP-2026-000001?": ("object_history", {"reference": "CMP-2026-000001"}),
    "What happened since 2026-11-02?": ("recent_events", {"since": "2026-11-02"}),
    "How much is left of CMP-2026-000001?": ("campaign_money", {"campaign": "CMP-2026-000001"}),
    "What did DEAL-2026-000001 cost?": ("deal_money", {"deal": "DEAL-2026-000001"}),
    "Compare the offers for CMP-2026-000001": ("compare_offers", {"campaign": "CMP-2026-000001"}),
    "Which seller is the fastest?": ("compare_sellers", {}),
    "Any conflicts?": ("open_differences", {}),
    "Which deals end within 3 weeks?": ("upcoming_deals", {"what": "ends", "within_days": 21}),
    "Which deals need creatives this week?": ("upcoming_deals", {"what": "creatives", "within_days": 7}),
    "Which deals are booked?": ("list_deals", {"status": "booked"}),
    "List our campaigns": ("list_campaigns", {}),
}


def respond(*messages: Message, tools: list[str] = TOOLS) -> ModelResponse:
    specs = [ToolSpec(name=name, description="", parameters={}) for name in tools]
    return asyncio.run(BuiltInPlanner().respond(ModelRole.ANSWERER, messages, specs))


def asked(question: str) -> Message:
    return {"role": "user", "content": question}


def found(*candidates: tuple[str, str, int, int]) -> Message:
    content = {
        "summary": "Nothing that you may see is called that.",
        "candidates": [
            {
                "kind": kind,
                "reference": reference,
                "title": f"Title of {reference}",
                "score": score,
                "coverage": coverage,
            }
            for kind, reference, score, coverage in candidates
        ],
    }
    return {"role": "tool", "name": "find_objects", "tool_call_id": "1", "content": json.dumps(content)}


def test_each_question_leads_to_its_tool() -> None:
    wrong = {}
    for question, expected in QUESTIONS.items():
        called = [(call.name, dict(call.arguments)) for call in respond(asked(question)).tool_calls]
        if called != [expected]:
            wrong[question] = called
    assert wrong == {}


def test_a_name_that_means_one_object_leads_on() -> None:
    question = asked("What did we spend with Cobalt Bay?")
    (call,) = respond(
        question, found(("deal", "DEAL-1", 100, 40), ("seller", "cobalt-bay", 98, 100))
    ).tool_calls
    assert (call.name, call.arguments) == ("seller_spend", {"seller": "cobalt-bay"}), "before its deals"


def test_it_asks_back_when_a_name_is_ambiguous_and_takes_the_answer() -> None:
    question = asked("Why is Halvorsen's deal waiting?")
    both = found(("deal", "DEAL-2026-000001", 100, 50), ("deal", "DEAL-2026-000002", 97, 50))
    back = respond(question, both).content
    assert back.splitlines()[1:] == [
        "1. DEAL-2026-000001 – Title of DEAL-2026-000001",
        "2. DEAL-2026-000002 – Title of DEAL-2026-000002",
    ]
    for choice in ("2", "the second", "DEAL-2026-000002", "number 2."):
        (call,) = respond(question, {"role": "assistant", "content": back}, asked(choice)).tool_calls
        assert (call.name, call.arguments) == ("explain_object", {"reference": "DEAL-2026-000002"}), choice
    (call,) = respond(
        question, {"role": "assistant", "content": back}, asked("What waits for me?")
    ).tool_calls
    assert call.name == "my_queue", "another question is no choice"


def test_this_is_the_object_on_the_page() -> None:
    page: Message = {"role": "system", "content": f"Rules.\n{OPEN_PAGE}deal DEAL-2026-000007."}
    (call,) = respond(page, asked("Why is this not booked?")).tool_calls
    assert call.arguments == {"reference": "DEAL-2026-000007"}


def test_what_it_cannot_do_it_says_with_examples() -> None:
    said = respond(asked("Write a poem about rain")).content
    assert "I do not understand" in said
    assert "What waits for me?" in said
    assert "no right" in respond(asked("What waits for me?"), tools=[]).content
    assert "not about OP-2026-000001" in respond(asked("What did OP-2026-000001 cost?")).content


def test_a_failed_tool_is_told() -> None:
    failed = {"role": "tool", "name": "my_queue", "tool_call_id": "1", "content": '{"error": "It failed."}'}
    assert respond(asked("What waits for me?"), failed).content == "It failed."
