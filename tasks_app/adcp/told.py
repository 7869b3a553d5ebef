"""An answer taken apart, nothing judged: its envelope, its result, and the facts that both tell.

A reply has its envelope and its result in one; what tells of a task (a poll, an item of a list, a webhook, a
reply that is a task's own record) holds the result in its envelope. Either may stand under `payload`, as the
specification draws the envelope, or in an MCP tool result that was handed on as it came. What is said in any
of these layers counts: an error outside the result as one within.

Sources: AdCP core/protocol-envelope ("Transport serialization"), protocol/get-task-status,
core/mcp-webhook-payload, L3/task-lifecycle "Response Structure". Shapes of live sellers (`response_data`,
`associated_objects`, `error_message`, a task's record with the result's fields in it) are read too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import extraction
from .extraction import Json
from .meaning import CHANGE, NONE, OF_A_TASK, PURCHASE, About, Facts, is_removed, plain_word
from .types import BUY_GONE, ENDED_BADLY, MEDIA_BUY_STATUSES, WireError
from .values import identity_of, text_of

# Fields of the protocol envelope: they are the wire's, not the task's result.
ENVELOPE_FIELDS = frozenset(
    {
        "status",
        "task_id",
        "message",
        "context_id",
        "context",
        "timestamp",
        "replayed",
        "adcp_error",
        "adcp_version",
        "adcp_major_version",
        "push_notification_config",
        "governance_context",
    }
)
# What may stand beside errors, or beside a nested `payload`, and is no result by itself.
_BESIDE = ENVELOPE_FIELDS | {"error", "errors", "ext", "isError", "sandbox"}
# Where what tells of a task has its result; and what only such an answer has: a failed call may repeat the
# task's id and say "failed" of itself.
_RESULTS = ("result", "response_data", "payload")
_OF_A_TASK_ONLY = frozenset(
    {"task_type", "tool_name", "created_at", "updated_at", "completed_at", "result", "response_data", "error"}
    | {"associated_objects", "error_message", "progress", "protocol", "domain"}
)
_OF_A_WEBHOOK = frozenset({"idempotency_key", "notification_id", "operation_id", "token", "payload"})
_NO_RESULT = _BESIDE | _OF_A_TASK_ONLY | _OF_A_WEBHOOK
_OF_A_BUY = frozenset({"media_buy_id", "packages"})
_MCP = frozenset({"content", "structuredContent", "isError", "_meta"})
_DEEPEST = 4  # layers that are taken apart
# A media buy's words, in a place where they may be the task's as well; "completed" says nothing there.
_LIKELY_A_BUYS = MEDIA_BUY_STATUSES - {"completed"}
_UNREADABLE = "unreadable"


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What a transport carried, already cleaned: the AdCP object, what came whole, the text for people.

    `is_error`: the transport says that the call failed. `state`: its own state of the task (A2A). `error`: an
    AdCP error that stands elsewhere than in the object. `extracts`: an `adcp_error` in the object may be read
    as the call's; MCP's only where the call, or by its own word the task, failed, as it may be part of a
    result otherwise.
    """

    data: Json
    raw: Json
    text: str | None = None
    is_error: bool = False
    state: str | None = None
    error: WireError | None = None
    extracts: bool = True


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One object of an answer, out of what it was wrapped in. `broken`: `isError` stands with it; `words`:
    the text that an MCP result has beside it. `nested`: what stood under `payload`. `named_only`: no result,
    but which media buy it would be about."""

    data: Json
    broken: bool = False
    words: str | None = None
    nested: Json | None = None
    named_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Told:
    """An answer in its layers: the envelope first, the result last; of a reply they are one. `known`: the
    type of the task, as we asked for it."""

    carried: Carried
    about: About
    layers: tuple[Layer, ...]
    known: str

    @property
    def outer(self) -> Json:
        return self.layers[0].data

    @property
    def result(self) -> Json:
        return self.layers[-1].data

    @property
    def of_a_task(self) -> bool:
        return self.about in OF_A_TASK

    @property
    def has_result(self) -> bool:
        """Whether a result is told, an empty one too."""
        return not self.of_a_task or bool(self.result) or isinstance(self.layers[-2].data.get("result"), dict)

    @property
    def is_whole(self) -> bool:
        """Whether the result itself is told, and not only which media buy it is about."""
        return bool(self.result) and not self.layers[-1].named_only

    @property
    def state(self) -> str | None:
        """The transport's state of the task; that of a poll is the poll's own."""
        return self.carried.state if self.about in ("call", "task") else None

    @property
    def raw_word(self) -> str | None:
        return text_of(self.outer.get("status")) or self.state

    @property
    def word(self) -> str:
        """The status told, in AdCP's spelling; what is there and no text is no status of AdCP's. That the
        transport completed says nothing of the task (L3/async-identity-and-convergence)."""
        told = self.outer.get("status")
        own = plain_word(told) if isinstance(told, str) or told is None else _UNREADABLE
        return own or (plain_word(self.state) if self.state != "completed" else NONE)

    @property
    def inner(self) -> str:
        """The bad end that the result tells of itself."""
        words = (plain_word(layer.data.get("status")) for layer in self.layers[1:])
        return next((word for word in words if word in ENDED_BADLY), NONE)

    @property
    def task_type(self) -> str | None:
        """Of which task it says that it tells."""
        return text_of(self.outer.get("task_type")) if self.of_a_task else None

    @property
    def names_buy(self) -> bool:
        return identity_of(self.result.get("media_buy_id")) is not None

    @property
    def buy(self) -> str | None:
        """The media buy's status: in its own place, or, in a task's result, as 3.0 and 3.1 put it."""
        own, old = text_of(self.result.get("media_buy_status")), text_of(self.result.get("status"))
        removed = is_removed(self.result.get("adcp_version")) or not self.names_buy
        return own or (old if self.of_a_task and old in _LIKELY_A_BUYS and not removed else None)

    @property
    def failed(self) -> bool:
        """Whether the call itself did."""
        if self.about == "poll":
            return self._tells_of_the_poll()
        if self.about not in ("call", "task"):
            return False
        ended = self.carried.state in ENDED_BADLY
        return self.carried.is_error or ended or self.layers[0].broken or bool(self.outer.get("adcp_error"))

    @property
    def broken(self) -> bool:
        """Whether it says `isError` anywhere."""
        return any(layer.broken for layer in self.layers)

    @property
    def refusal(self) -> Any:
        """The `adcp_error` there is, readable or not."""
        return next((found for found in self._in_layers("adcp_error") if found), None)

    @property
    def reasons(self) -> list[Any]:
        """Where it may say why it ended badly: beside the result, as in document 000, in it, or in its
        place."""
        inside = self.layers[-1].data if self.of_a_task else {}
        beside = [layer.data.get(n) for layer in self.layers[:-1] for n in ("adcp_error", "error", "errors")]
        own = [self.result.get(name) for name in ("errors", "error")]
        words = [layer.words for layer in self.layers if layer.broken]
        place = self.layers[-2].data.get("result") if self.of_a_task else None
        return [inside.get("adcp_error"), *beside, *own, *words, None if isinstance(place, dict) else place]

    @property
    def errors(self) -> str:
        """Whether errors stand alone: without the media buy where one was asked for, else without any
        result."""
        if not any((*self._in_layers("errors"), *self._in_layers("error"))):
            return "none"
        if self.known in (PURCHASE, CHANGE) or self.result.keys() & _OF_A_BUY:
            return "beside" if self.names_buy else "alone"
        told = {name for name, value in self.result.items() if value is not None}
        return "beside" if told - _NO_RESULT else "alone"

    @property
    def lists_of_errors(self) -> list[Any]:
        """Each `errors[]`, the result's first."""
        return [layer.data.get("errors") for layer in reversed(self.layers)]

    def _in_layers(self, name: str) -> Iterator[Any]:
        return (layer.data.get(name) for layer in self.layers)

    def _tells_of_the_poll(self) -> bool:
        """Whether a poll's answer is about the poll itself, which failed, and not about the task."""
        outer, carried = self.outer, self.carried
        refused = carried.is_error or self.layers[0].broken or bool(outer.get("adcp_error"))
        if refused or identity_of(outer.get("task_id")) is None:
            return True
        if carried.state in ENDED_BADLY and text_of(outer.get("status")) is None:
            return True
        tells = any(outer.get(name) is not None for name in _OF_A_TASK_ONLY)
        return bool(outer.get("errors")) and not tells and not self.names_buy


def told_of(carried: Carried, about: About, task_type: str) -> Told:
    """What was carried, taken apart. A reply that is a task's own record is read as one."""
    first = _layer(carried.data)
    if about == "call" and not _is_of_a_task(first.data):
        return Told(carried=carried, about=about, layers=(first,), known=task_type)
    layers = [first, _within(first)]
    while len(layers) < _DEEPEST and _is_of_a_task(layers[-1].data):
        layers.append(_within(layers[-1]))
    known = task_type or text_of(first.data.get("task_type")) or ""
    of: About = "task" if about == "call" else about
    return Told(carried=carried, about=of, layers=tuple(layers), known=known)


def facts_of(told: Told) -> Facts:
    """What an answer tells, as the table asks it."""
    return Facts(
        about=told.about,
        failed=told.failed,
        refused=bool(told.refusal) or told.broken,
        word=told.word,
        inner=told.inner,
        names_buy=told.names_buy,
        names_task=identity_of(told.outer.get("task_id")) is not None,
        buy=_standing(told.buy),
        errors=told.errors,
        removed=is_removed(told.outer.get("adcp_version")),
        task=told.known,
    )


def _standing(state: str | None) -> str:
    """What a media buy's status says of it."""
    if state is None or state in BUY_GONE:
        return state or "none"
    return "runs" if state in MEDIA_BUY_STATUSES else "unclear"


def unwrapped(data: Json) -> Json:
    """An answer whose result stands nested under `payload`, as the specification draws it, flat: what the
    envelope says wins, and a media buy's status that it would cover goes to its own place. A task's record in
    it says itself how the task stands: the envelope then tells of the call that asked for it."""
    nested = data.get("payload")
    outer = {key: value for key, value in data.items() if key != "payload" and value is not None}
    if not isinstance(nested, dict) or not outer.keys() <= _BESIDE:
        return data
    state = text_of(nested.get("status"))
    if state and text_of(nested.get("task_type")):
        return {**nested, **outer, "status": state}
    told = {"media_buy_status": state} if state in _LIKELY_A_BUYS and "status" in outer else {}
    return {**told, **nested, **outer}


def _layer(data: Json) -> Layer:
    """An object out of what it is wrapped in."""
    broken, words = bool(data.get("isError")), None
    if _is_mcp(data):
        words = extraction.mcp_text(data)
        data = extraction.mcp_object(data) or {}
    flat = unwrapped(data)
    nested = data.get("payload") if flat is not data else None
    return Layer(data=flat, broken=broken or bool(flat.get("isError")), words=words, nested=nested)


def _is_mcp(data: Json) -> bool:
    """Whether it is an MCP tool result, which a seller may hand on as it came."""
    holds = isinstance(data.get("structuredContent"), dict) or isinstance(data.get("content"), list)
    return holds and data.keys() <= _MCP


def _is_of_a_task(data: Json) -> bool:
    """Whether it is a task's record with the result in it, and no result itself."""
    named = text_of(data.get("task_type")) or identity_of(data.get("task_id"))
    return bool(named) and any(data.get(name) is not None for name in (*_RESULTS, "associated_objects"))


def _within(layer: Layer) -> Layer:
    """The result in what tells of a task; empty objects say nothing."""
    found = (layer.data.get(name) for name in _RESULTS)
    whole = next((result for result in found if isinstance(result, dict) and result), None)
    if whole is None and layer.nested and not layer.nested.keys() & {"task_id", "task_type"}:
        whole = layer.nested
    if whole is not None:
        return _layer(whole)
    if identity_of(layer.data.get("media_buy_id")) is not None:
        return Layer(data={name: value for name, value in layer.data.items() if name not in _NO_RESULT})
    return Layer(data=_associated_buy(layer.data.get("associated_objects")), named_only=True)


def _associated_buy(objects: object) -> Json:
    for entry in objects if isinstance(objects, list) else []:
        if not isinstance(entry, dict):
            continue
        kind = entry.get("type") or entry.get("object_type")
        identity = identity_of(entry.get("id") or entry.get("object_id"))
        if kind == "media_buy" and identity is not None:
            return {"media_buy_id": identity}
    return {}
