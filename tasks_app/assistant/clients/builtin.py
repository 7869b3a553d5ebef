"""The built-in planner: a model client without a model.

It recognises the questions of `intents`, looks objects up by name with the tools, asks back when a name is
ambiguous, and replies with what a tool says. Like any model it sees only messages and tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from rapidfuzz import fuzz

from tasks_app import days
from tasks_app.assistant.clients.intents import INTENTS, Intent, intent_of
from tasks_app.assistant.clients.slots import iso_day
from tasks_app.assistant.ports import OnText
from tasks_app.assistant.prompts import OPEN_PAGE, TODAY
from tasks_app.assistant.tools.names import FIND
from tasks_app.assistant.types import Message, ModelResponse, ModelRole, ToolCall, ToolSpec

NAME = "built-in planner"
_WHICH = "Which one do you mean?"
_PROPOSED = "Nothing has changed yet. It happens only if you confirm the proposal."
_REFERENCE = re.compile(r"\b[A-Z]{2,5}-\d{4}-\d{1,12}\b", re.IGNORECASE)
_QUOTED = re.compile(r"[\"“']([^\"”']{2,80})[\"”']")
_LISTED = re.compile(r"^(\d+)\. (\S+) – (.*)$", re.MULTILINE)
_CLOSE = 5.0  # scores that differ by no more mean the same
_LIKE = 85  # how like a title the answer to "which one" has to be
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": -1}
_KINDS = {
    "campaign": "campaign", "campaigns": "campaign", "brief": "campaign",
    "deal": "deal", "deals": "deal", "order": "deal", "buy": "deal", "booking": "deal",
    "seller": "seller", "sellers": "seller", "agent": "seller",
}  # fmt: skip
_PREFIXES = {"CMP": "campaign", "DEAL": "deal"}
# Words that are part of no name.
_COMMON_WORDS = """
a about all also an and any anything approval approve approved are as at audit be been before best
blocked booked budget by can cancelled change changed check committed compare conflict conflicts
contradict cost costs could days decide decided delivering did differ differences do does down end ends
explain fail failed failing fails far fast fastest for forward from get gets give go goes going got had happen
happened happening happens has have here history holding how i if in is issue issues it its just know
last left list long many me media mine miss money month more most moved much must my need needs new next no
not of offer offered offers on only or other others our out pending please problem problems progress put
really remaining run running runs s said say says should show since slow slowest so some something spend
spending spent stand stands start starts state status still stuck tell than that the their them there
these they this those to today too trail up us wait waiting waits was we week were what what's when where
which who whom why will with within won't would wrong yesterday yet you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_HERE = re.compile(r"\b(this|it|its|here|that)\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """The question, the open object and the results of this turn, as read from the messages."""

    question: str
    chosen: str  # the reference that answers an earlier "which one"
    opened: tuple[str, str] | None  # kind and reference
    today: date
    results: Sequence[tuple[str, Mapping[str, Any]]]  # tool and content


class BuiltInPlanner:
    """Answers without any model. It never times out."""

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
        """Return a tool to call, or the reply."""
        conversation = read_conversation(messages)
        if role == ModelRole.PLANNER:
            intent = intent_of(conversation.question)
            return ModelResponse(content=intent.name if intent else "Say what is possible.", model=NAME)
        response = _answer(conversation, {tool.name for tool in tools})
        if response.content and on_text is not None:
            on_text(response.content)
        return response


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """Return the conversation that the messages hold."""
    asked = max(place for place, message in enumerate(messages) if message["role"] == "user")
    question, chosen = str(messages[asked]["content"]), ""
    earlier = [message for message in messages[:asked] if message["role"] in ("user", "assistant")]
    if len(earlier) > 1 and str(earlier[-1]["content"]).startswith(_WHICH):
        chosen = _choice(question, str(earlier[-1]["content"]))
        question = str(earlier[-2]["content"]) if chosen else question
    results = [
        (str(message["name"]), json.loads(message["content"]))
        for message in messages[asked:]
        if message["role"] == "tool"
    ]
    system = next((str(one["content"]) for one in messages if one["role"] == "system"), "")
    return Conversation(
        question=question, chosen=chosen, opened=_opened(system), today=_today(system), results=results
    )


def _answer(conversation: Conversation, tools: set[str]) -> ModelResponse:
    intent = intent_of(conversation.question)
    if intent is None:
        if not _reference_of(conversation) and not _name_in(conversation.question)[1]:
            return _say(_unknown())
        intent = INTENTS[-1]  # whoever only names an object wants to know how it stands
    if not conversation.results:
        return _first_call(intent, conversation, tools)
    tool, content = conversation.results[-1]
    if tool == FIND and "error" not in content:
        return _after_find(intent, conversation, content, tools)
    answer = str(content.get("error") or content["summary"])
    return _say(f"{answer}\n{_PROPOSED}" if "proposal" in content else answer)


def _first_call(intent: Intent, conversation: Conversation, tools: set[str]) -> ModelResponse:
    """Return the call that answers, if the object is known or none is needed; else look it up by name."""
    reference = _reference_of(conversation)
    if reference:
        kind = _PREFIXES.get(reference.split("-")[0].upper(), "")
        return _call_about(intent, kind, reference, conversation, tools)
    name, kinds = _name_in(conversation.question, intent)
    if name and any(kind for kind in intent.tools):
        wanted = [kind for kind in kinds if kind in intent.tools] or [kind for kind in intent.tools if kind]
        return _call(FIND, {"text": name, "kinds": wanted}, tools)
    if "" in intent.tools:
        return _call_with_slots(intent, intent.tools[""][0], {}, conversation, tools)
    if conversation.opened:
        return _call_about(intent, conversation.opened[0], conversation.opened[1], conversation, tools)
    return _say(f"Of what? Name a {' or '.join(kind for kind in intent.tools if kind)}, or give a reference.")


def _after_find(
    intent: Intent, conversation: Conversation, content: Mapping[str, Any], tools: set[str]
) -> ModelResponse:
    """Return the call about the one object that was found, or ask which of several is meant."""
    found = list(content["candidates"])
    if not found:
        return _say(str(content["summary"]))
    best = [one for one in found if one["score"] >= found[0]["score"] - _CLOSE]
    kind = max(best, key=lambda one: one["coverage"])["kind"]
    best = [one for one in best if one["kind"] == kind]
    if len(best) == 1:
        return _call_about(intent, kind, best[0]["reference"], conversation, tools)
    lines = [f"{number}. {one['reference']} – {one['title']}" for number, one in enumerate(best, start=1)]
    return _say("\n".join([_WHICH, *lines]))


def _call_about(
    intent: Intent, kind: str, reference: str, conversation: Conversation, tools: set[str]
) -> ModelResponse:
    """Return the call about an object. Of kinds that no intent knows, the general tools answer."""
    general = (one for one in intent.tools.values() if one[1] == "reference")
    tool, argument = intent.tools.get(kind) or next(general, ("", ""))
    if not tool:
        kinds = " or ".join(one for one in intent.tools if one)
        return _say(f"I can answer that about a {kinds}, not about {reference}.")
    return _call_with_slots(intent, tool, {argument: reference}, conversation, tools)


def _call_with_slots(
    intent: Intent, tool: str, known: Mapping[str, Any], conversation: Conversation, tools: set[str]
) -> ModelResponse:
    """Return a call with what the question states, or ask for what is missing."""
    arguments = {**known, **intent.slots(conversation.question, conversation.today)}
    missing = [sentence for name, sentence in intent.missing.items() if name not in arguments]
    return _say(missing[0]) if missing else _call(tool, arguments, tools)


def _call(tool: str, arguments: Mapping[str, Any], tools: set[str]) -> ModelResponse:
    if tool not in tools:
        return _say("You have no right to this, or the assistant may only read at the moment.")
    return ModelResponse(tool_calls=[ToolCall(id="call", name=tool, arguments=arguments)], model=NAME)


def _say(text: str) -> ModelResponse:
    return ModelResponse(content=text, model=NAME)


def _unknown() -> str:
    examples = "\n".join(f"- {intent.example}" for intent in INTENTS if intent.example)
    return f"I do not understand that. I can answer questions such as:\n{examples}"


def _reference_of(conversation: Conversation) -> str:
    """Return the reference that the question is about: chosen, written out, or of the open page."""
    found = _REFERENCE.search(conversation.question)
    if conversation.chosen or found:
        return conversation.chosen or (found[0].upper() if found else "")
    name, _ = _name_in(conversation.question)
    is_here = conversation.opened and not name and _HERE.search(conversation.question)
    return conversation.opened[1] if conversation.opened and is_here else ""


def _name_in(question: str, intent: Intent | None = None) -> tuple[str, list[str]]:
    """Return the words of a question that may be a name, and the kinds of objects that it mentions."""
    if intent is not None and intent.name_in:
        place = re.search(intent.name_in, question, re.IGNORECASE)
        question = place["name"] if place else ""
    words = [word.removesuffix("'s").removesuffix("’s").strip(".-") for word in _words(question)]
    kinds = [_KINDS[word.lower()] for word in words if word.lower() in _KINDS]
    if quoted := _QUOTED.search(question):
        return quoted[1].strip(), kinds
    name = [word for word in words if word.lower() not in _COMMON and word.lower() not in _KINDS]
    return " ".join(word for word in name if not word.isdigit()), kinds


def _words(question: str) -> list[str]:
    return re.findall(r"[^\W_][\w&.-]*(?:['’]s)?", question)


def _choice(answer: str, list_text: str) -> str:
    """Return the reference that a person chose from a list; empty if it is no choice."""
    listed = [(number, reference, title) for number, reference, title in _LISTED.findall(list_text)]
    lowered = answer.lower().strip(" .!")
    for number, reference, _ in listed:
        if lowered.removeprefix("number ").strip() == number or reference.lower() in lowered:
            return str(reference)
    ordinal = next((place for word, place in _ORDINALS.items() if word in lowered.split()), 0)
    if ordinal and abs(ordinal) <= len(listed):
        return str(listed[ordinal - 1 if ordinal > 0 else -1][1])
    scores = [(fuzz.partial_ratio(lowered, title.lower()), reference) for _, reference, title in listed]
    close = [reference for score, reference in scores if score >= _LIKE] if len(lowered) > 2 else []
    return str(close[0]) if len(close) == 1 else ""


def _opened(system: str) -> tuple[str, str] | None:
    kind, _, reference = _line(system, OPEN_PAGE).partition(" ")
    return (kind, reference) if reference else None


def _today(system: str) -> date:
    return iso_day(_line(system, TODAY)) or days.today()


def _line(system: str, begins: str) -> str:
    """Return the rest of the instructions' line that begins so, without its full stop."""
    line = next((line for line in system.splitlines() if line.startswith(begins)), "")
    return line.removeprefix(begins).rstrip(".")
