"""What an answer means: each row of the table by every way it can come; null, absent and empty told apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tasks_app.adcp import errors
from tasks_app.adcp.answers import read_bought
from tasks_app.adcp.envelopes import seen_a2a, seen_data, seen_mcp
from tasks_app.adcp.meaning import ONLY_A_BUYS, ROWS, Facts, Row, meaning, plain_word
from tasks_app.adcp.tasks import task_item
from tasks_app.adcp.types import ENDED_BADLY, MEDIA_BUY_STATUSES, TASK_STATUSES, Seen
from tasks_app.adcp.webhook_body import read_webhook
from tests.operations.wire import as_floats
from tests.tables import each_case

Body = dict[str, Any]
CREATE, UPDATE = "create_media_buy", "update_media_buy"
ERROR = {"code": "BUDGET_TOO_LOW", "message": "too low", "recovery": "correctable"}
BUY = {"media_buy_id": "mb", "packages": []}


def _mcp(data: Body, task: str) -> Seen:
    return seen_mcp({"structuredContent": data}, task_type=task)


def _mcp_text(data: Body, task: str) -> Seen:
    return seen_mcp({"content": [{"type": "text", "text": json.dumps(data)}]}, task_type=task)


def _a2a_body(data: Body, state: str = "TASK_STATE_COMPLETED") -> Body:
    artifacts = [{"artifactId": "1", "parts": [{"data": as_floats(data)}]}]
    return {"task": {"id": "a", "contextId": "c", "status": {"state": state}, "artifacts": artifacts}}


def _a2a(data: Body, task: str) -> Seen:
    return seen_a2a(_a2a_body(data), task_type=task)


def _a2a_0_3(data: Body, task: str) -> Seen:
    parts = [{"kind": "data", "data": data}]
    bare = {"kind": "task", "id": "a", "contextId": "c", "status": {"state": "completed"}}
    return seen_a2a({**bare, "artifacts": [{"artifactId": "1", "parts": parts}]}, task_type=task)


def _native(data: Body, task: str) -> Seen:
    """An A2A push of the reply: nothing in it says which task it is of."""
    return read_webhook(_a2a_body(data), task_type=task)[1]


def _whole(data: Body, task: str) -> Seen:
    """An MCP tool result, handed on as it came in an A2A artifact."""
    return seen_a2a(_a2a_body({"content": [], "structuredContent": data}), task_type=task)


def _nested(data: Body, task: str) -> Seen:
    """Under `payload`, as the specification draws the envelope; a 3.0 word of the buy would stand outside."""
    outside = {"status", "adcp_version", "adcp_error", "context"}
    inner = {name: value for name, value in data.items() if name not in outside}
    outer = {name: value for name, value in data.items() if name in outside}
    return seen_data({**outer, "payload": inner}, task_type=task)


CALLS: dict[str, Callable[[Body, str], Seen]] = {
    "mcp": _mcp,
    "mcp text": _mcp_text,
    "a2a": _a2a,
    "a2a 0.3": _a2a_0_3,
    "nested": _nested,
    "native push": _native,
    "an MCP result in A2A": _whole,
}


def _poll_body(status: Any, result: Body | None, task: str) -> Body:
    head = {"task_id": "t", "task_type": task, "status": status, "updated_at": "2026-09-01T10:00:00Z"}
    return head if result is None else {**head, "result": result}


def _poll_mcp(body: Body, task: str) -> Seen:
    return seen_mcp({"structuredContent": body}, about="poll", task_type=task)


def _poll_a2a(body: Body, task: str) -> Seen:
    return seen_a2a(_a2a_body(body), about="poll", task_type=task)


def _item(body: Body, task: str) -> Seen:
    item = task_item(body, task_type=task)
    assert item is not None
    return item.seen


def _hook(body: Body, task: str) -> Seen:
    whole = {**body, "idempotency_key": "k" * 20, "timestamp": "2026-09-01T10:00:00Z"}
    return read_webhook(whole, task_type=task, old=True, any_status=True)[1]


# Ways of an envelope that tells of a task, read as of a task whose type we know or (empty) do not.
WAYS: dict[str, Callable[[Body, str], Seen]] = {
    "poll mcp": _poll_mcp,
    "poll a2a": _poll_a2a,
    "list item": _item,
    "webhook": _hook,
    "native push": _native,
    "reply mcp": _mcp,
    "reply a2a": _a2a,
}
Way = Callable[[Any, Body | None, str], Seen]


def _named_there(read: Callable[[Body, str], Seen]) -> Way:
    """The seller names the task's type, and we do not know it."""
    return lambda status, result, task: read(_poll_body(status, result, task), "")


def _named_here(read: Callable[[Body, str], Seen]) -> Way:
    """No task type is told: it is the operation's own."""

    def told(status: Any, result: Body | None, task: str) -> Seen:
        body = _poll_body(status, result, task)
        return read({name: value for name, value in body.items() if name != "task_type"}, task)

    return told


def _in_mcp(read: Callable[[Body, str], Seen]) -> Way:
    """The result stands in an MCP tool result that was handed on as it came."""

    def told(status: Any, result: Body | None, task: str) -> Seen:
        wrapped = {"content": [], "structuredContent": result} if result else result
        return read(_poll_body(status, wrapped, task), task)

    return told


def _twice(read: Callable[[Body, str], Seen]) -> Way:
    """The task's record stands in a task's record."""

    def told(status: Any, result: Body | None, task: str) -> Seen:
        body = _poll_body(status, result, task)
        return read({**body, "result": body} if result else body, task)

    return told


def _told_of(result: Body | None) -> Body:
    """A purchase's result as it is kept: a numbered media buy is text."""
    told = {name: value for name, value in (result or {}).items() if name != "adcp_version"}
    return {**told, "media_buy_id": str(told["media_buy_id"])}


# A reply that is a task's record has a result: without one it is a plain reply.
TOLD: dict[str, Way] = {
    **{way: _named_there(read) for way, read in WAYS.items()},
    **{f"{way}, no task_type": _named_here(read) for way, read in WAYS.items()},
    **{f"{way}, in MCP": _in_mcp(read) for way, read in WAYS.items()},
    **{f"{way}, twice": _twice(read) for way, read in WAYS.items()},
}

# What is told, which task, what it means for the task and for the buy. Of a reply.
REPLIES: dict[str, tuple[Body, str, str, str | None]] = {
    "3.2": ({"status": "completed", **BUY, "media_buy_status": "active"}, CREATE, "completed", "active"),
    "3.0, the buy's word": ({**BUY, "status": "pending_creatives"}, CREATE, "completed", "pending_creatives"),
    "3.1, both names": (
        {**BUY, "status": "pending_start", "media_buy_status": "pending_start", "adcp_version": "3.1"},
        CREATE,
        "completed",
        "pending_start",
    ),
    "3.1, the new name wins": (
        {**BUY, "status": "active", "media_buy_status": "paused", "adcp_version": "3.1"},
        UPDATE,
        "completed",
        "paused",
    ),
    "3.2 with the word removed": (
        {**BUY, "status": "active", "adcp_version": "3.2"},
        CREATE,
        "completed",
        "active",
    ),
    "a buy's word without a buy": ({"status": "active"}, CREATE, "unknown", None),
    "3.0, no status": (BUY, CREATE, "completed", None),
    "null status": ({**BUY, "status": None}, CREATE, "completed", None),
    "empty status": ({**BUY, "status": ""}, CREATE, "completed", None),
    "unreadable status": ({**BUY, "status": ["completed"]}, CREATE, "unknown", None),
    "another word": ({**BUY, "status": "requires_approval"}, CREATE, "unknown", None),
    "upper case": ({**BUY, "status": "COMPLETED"}, CREATE, "completed", None),
    "3.0, cancelled by a change": (
        {"media_buy_id": "mb", "status": "canceled"},
        UPDATE,
        "completed",
        "canceled",
    ),
    "3.1, cancelled, old name": (
        {"media_buy_id": "mb", "status": "canceled", "adcp_version": "3.1"},
        UPDATE,
        "completed",
        "canceled",
    ),
    "3.1, cancelled, both names": (
        {"media_buy_id": "mb", "status": "canceled", "media_buy_status": "canceled"},
        UPDATE,
        "completed",
        "canceled",
    ),
    "3.2, a canceled change": (
        {"media_buy_id": "mb", "status": "canceled", "adcp_version": "3.2"},
        UPDATE,
        "canceled",
        None,
    ),
    "a canceled change of an active buy": (
        {"media_buy_id": "mb", "status": "canceled", "media_buy_status": "active"},
        UPDATE,
        "canceled",
        "active",
    ),
    "a canceled change with a reason": (
        {"media_buy_id": "mb", "status": "canceled", "errors": [ERROR]},
        UPDATE,
        "canceled",
        None,
    ),
    "a canceled purchase, or a cancelled buy": ({**BUY, "status": "canceled"}, CREATE, "unknown", None),
    "a canceled task": ({"status": "canceled", "task_id": "t"}, UPDATE, "canceled", None),
    "a rejected purchase": ({**BUY, "status": "rejected"}, CREATE, "rejected", None),
    "a rejected purchase, both names": (
        {**BUY, "status": "rejected", "media_buy_status": "rejected"},
        CREATE,
        "rejected",
        "rejected",
    ),
    "a purchase completed as rejected": (
        {**BUY, "status": "completed", "media_buy_status": "rejected"},
        CREATE,
        "rejected",
        "rejected",
    ),
    "a change of a rejected buy, both names": (
        {"media_buy_id": "mb", "status": "rejected", "media_buy_status": "rejected"},
        UPDATE,
        "completed",
        "rejected",
    ),
    "a rejected change": ({"media_buy_id": "mb", "status": "rejected"}, UPDATE, "rejected", None),
    "3.0 error": ({"errors": [ERROR]}, CREATE, "failed", None),
    "errors and nulls": (
        {"media_buy_id": None, "packages": None, "errors": [ERROR]},
        CREATE,
        "failed",
        None,
    ),
    "errors and no buy": (
        {"media_buy_id": None, "packages": [], "creative_deadline": None, "errors": [ERROR]},
        CREATE,
        "failed",
        None,
    ),
    "completed, errors alone": (
        {"status": "completed", "errors": [ERROR], "context": {"x": 1}},
        CREATE,
        "failed",
        None,
    ),
    "completed, a read's errors alone": (
        {"status": "completed", "media_buys": None, "errors": [ERROR]},
        "get_media_buys",
        "failed",
        None,
    ),
    "a read with warnings": ({"products": [], "errors": [ERROR]}, "get_products", "completed", None),
    "a purchase with warnings": ({**BUY, "errors": [ERROR]}, CREATE, "completed", None),
    "null errors": ({**BUY, "errors": None}, CREATE, "completed", None),
    "empty errors": ({**BUY, "errors": []}, CREATE, "completed", None),
    "null adcp_error": ({**BUY, "adcp_error": None}, CREATE, "completed", None),
    "empty adcp_error": ({**BUY, "adcp_error": {}}, CREATE, "completed", None),
    "adcp_error beside a buy": ({**BUY, "status": "completed", "adcp_error": ERROR}, CREATE, "failed", None),
    "adcp_error beside a buy's word": (
        {**BUY, "status": "active", "adcp_error": ERROR},
        CREATE,
        "failed",
        None,
    ),
    "adcp_error and context": ({"adcp_error": ERROR, "context": {"x": 1}}, CREATE, "failed", None),
    "adcp_error and submitted": (
        {"status": "submitted", "task_id": "t", "adcp_error": ERROR},
        CREATE,
        "failed",
        None,
    ),
    "adcp_error of a rejected task": ({"status": "rejected", "adcp_error": ERROR}, CREATE, "rejected", None),
    "submitted with warnings": (
        {"status": "submitted", "task_id": "t", "errors": [ERROR], "media_buy_id": None},
        CREATE,
        "submitted",
        None,
    ),
    "a task and no status": ({"task_id": "t", "message": "queued"}, CREATE, "unknown", None),
    "a read of a task and no status": ({"task_id": "t"}, "get_products", "unknown", None),
    "a purchase that names nothing": ({"message": "done"}, CREATE, "unknown", None),
    "completed, a purchase that names nothing": ({"status": "completed"}, CREATE, "completed", None),
    "a numbered buy": ({**BUY, "media_buy_id": 58213}, CREATE, "completed", None),
    "a numbered buy with warnings": (
        {**BUY, "media_buy_id": 58213, "errors": [ERROR]},
        CREATE,
        "completed",
        None,
    ),
    "a numbered buy, 3.0": (
        {**BUY, "media_buy_id": 58213, "status": "active"},
        CREATE,
        "completed",
        "active",
    ),
    "one error alone": ({"error": ERROR}, CREATE, "failed", None),
    "completed, one error alone": ({"status": "completed", "error": ERROR}, CREATE, "failed", None),
    "null error": ({**BUY, "error": None}, CREATE, "completed", None),
    "empty error": ({**BUY, "error": {}}, CREATE, "completed", None),
    "isError in the data": ({**BUY, "isError": True, "errors": [ERROR]}, CREATE, "failed", None),
    "isError denied": ({**BUY, "isError": False}, CREATE, "completed", None),
    "errors, and a buy that runs": (
        {"media_buy_status": "active", "errors": [ERROR]},
        CREATE,
        "unknown",
        "active",
    ),
    "working": ({"status": "working", "task_id": "t"}, CREATE, "working", None),
    "input required": ({"status": "input-required", "reason": "BUDGET"}, CREATE, "input-required", None),
}


@each_case(case=REPLIES, way=CALLS)
def test_a_reply_means_the_same_by_every_transport(case: str, way: str) -> None:
    data, task, status, buy = REPLIES[case]
    seen = CALLS[way](data, task)
    assert (seen.kind, seen.status, seen.media_buy_status) == ("answer", status, buy)
    if status == "failed":
        assert seen.error is not None
        # MCP lets no code be read from an adcp_error without isError: it could be part of a result.
        hidden = "adcp_error" in data and data.get("status") != "failed"
        codes = {"BUDGET_TOO_LOW", errors.TOOL_ERROR} if hidden else {"BUDGET_TOO_LOW"}
        assert seen.error.code in codes
    if status == "completed":
        assert seen.error is None


EXPLAINED = {
    **ERROR,
    "field": "packages[0].budget",
    "suggestion": "Ask for 500 or more",
    "details": {"min": 500},
}
# Why a task ended, where its status says that it did: an `adcp_error` beside that is no part of a result.
REASONS: dict[str, Body] = {
    "alone": {"adcp_error": EXPLAINED},
    "with errors": {"adcp_error": EXPLAINED, "errors": [EXPLAINED]},
    "with other errors": {"adcp_error": EXPLAINED, "errors": [{"code": "ANOTHER", "message": "besides"}]},
    "of a task": {"adcp_error": EXPLAINED, "task_id": "t", "message": "It did not work"},
    "with nulls": {"adcp_error": EXPLAINED, "media_buy_id": None, "packages": None, "errors": []},
}
EMPTY: dict[str, Any] = {"absent": {}, "null": {"adcp_error": None}, "empty": {"adcp_error": {}}}


@each_case(case=REASONS, status=sorted(ENDED_BADLY), way=CALLS)
def test_why_a_task_ended_is_read_by_every_transport(case: str, status: str, way: str) -> None:
    seen = CALLS[way]({"status": status, **REASONS[case]}, CREATE)
    assert (seen.kind, seen.status) == ("answer", status)
    assert seen.error is not None
    told = (seen.error.code, seen.error.message, seen.error.field, seen.error.suggestion, seen.error.recovery)
    assert told == ("BUDGET_TOO_LOW", "too low", "packages[0].budget", "Ask for 500 or more", "correctable")
    assert seen.error.details == {"min": 500}


@each_case(status=sorted(ENDED_BADLY), way=TOLD)
def test_why_a_task_ended_is_read_by_every_channel(status: str, way: str) -> None:
    seen = TOLD[way](status, {"adcp_error": EXPLAINED}, CREATE)
    assert seen.status == status
    assert seen.error is not None
    told = (seen.error.code, seen.error.message, seen.error.field, seen.error.suggestion)
    assert told == ("BUDGET_TOO_LOW", "too low", "packages[0].budget", "Ask for 500 or more")


@pytest.mark.parametrize("way", ["list item", "webhook", "native push", "reply mcp", "reply a2a"])
@pytest.mark.parametrize("status", sorted(ENDED_BADLY))
def test_why_a_task_ended_is_read_beside_its_result(status: str, way: str) -> None:
    body = {**_poll_body(status, {"packages": []}, CREATE), "adcp_error": EXPLAINED}
    seen = WAYS[way](body, CREATE)
    assert seen.status == status
    assert seen.error is not None
    assert (seen.error.code, seen.error.field) == ("BUDGET_TOO_LOW", "packages[0].budget")


@pytest.mark.parametrize("way", CALLS)
@pytest.mark.parametrize("case", EMPTY)
def test_no_reason_is_read_where_none_is_told(case: str, way: str) -> None:
    seen = CALLS[way]({"status": "rejected", **EMPTY[case]}, CREATE)
    assert (seen.status, seen.error) == ("rejected", None)


@pytest.mark.parametrize("status", ["submitted", "working", "completed", None, "requires_approval"])
def test_mcp_reads_no_code_beside_any_other_status(status: str | None) -> None:
    """It could be part of a result (operating/transport-errors)."""
    for call in (_mcp, _mcp_text):
        seen = call({"status": status, "adcp_error": EXPLAINED, "context": {"x": 1}}, CREATE)
        assert seen.error is not None
        assert seen.error.code == errors.TOOL_ERROR


@pytest.mark.parametrize("data", [{**BUY, "status": "completed"}, {**BUY, "status": "active"}, BUY, {}])
def test_a_call_that_failed_is_never_success(data: Body) -> None:
    told = {"isError": True, "content": [{"type": "text", "text": "ad server down"}]}
    mcp = seen_mcp({**told, "structuredContent": data}, task_type=CREATE)
    a2a = seen_a2a(_a2a_body(data, "TASK_STATE_FAILED"), task_type=CREATE)
    for seen in (mcp, a2a):
        assert (seen.kind, seen.status) == ("answer", "failed")
        assert seen.error is not None
        assert seen.error.code == errors.TOOL_ERROR, "nobody knows what became of it"


@pytest.mark.parametrize("status", ["submitted", "working", "input-required"])
def test_a_call_that_failed_began_no_task(status: str) -> None:
    seen = seen_mcp(
        {"isError": True, "structuredContent": {"status": status, "task_id": "t"}}, task_type=CREATE
    )
    assert (seen.kind, seen.status) == ("answer", "failed")


@pytest.mark.parametrize("state", ["submitted", "working", "input-required", "auth-required", "canceled"])
def test_the_transports_state_speaks_where_the_data_is_silent(state: str) -> None:
    native = {"task": {"id": "a", "contextId": "c", "status": {"state": state}}}
    assert seen_a2a(native, task_type=CREATE).status == state


# The task's own word, its result, which task, what it means. Of polls, items and webhooks alike.
TASKS: dict[str, tuple[Any, Body | None, str, str, str | None]] = {
    "bought": ("completed", {**BUY, "media_buy_status": "active"}, CREATE, "completed", "active"),
    "bought, 3.0": ("completed", {**BUY, "status": "pending_start"}, CREATE, "completed", "pending_start"),
    "bought, the answer whole": (
        "completed",
        {"status": "completed", "ext": {}, "payload": {**BUY, "media_buy_status": "active"}},
        CREATE,
        "completed",
        "active",
    ),
    "canceled, naming the buy": ("canceled", {"media_buy_id": "mb"}, UPDATE, "canceled", None),
    "canceled, with the buy's word": (
        "canceled",
        {"media_buy_id": "mb", "status": "active"},
        UPDATE,
        "canceled",
        "active",
    ),
    "canceled, with a reason": (
        "canceled",
        {"media_buy_id": "mb", "errors": [ERROR]},
        UPDATE,
        "canceled",
        None,
    ),
    "completed, errors alone": ("completed", {"errors": [ERROR]}, CREATE, "failed", None),
    "completed, errors and nulls": (
        "completed",
        {"media_buy_id": None, "errors": [ERROR]},
        CREATE,
        "failed",
        None,
    ),
    "completed, adcp_error": ("completed", {**BUY, "adcp_error": ERROR}, CREATE, "failed", None),
    "completed with warnings": ("completed", {**BUY, "errors": [ERROR]}, CREATE, "completed", None),
    "completed as rejected": ("completed", {"status": "rejected", "reason": "no"}, CREATE, "rejected", None),
    "completed, the buy rejected": (
        "completed",
        {**BUY, "media_buy_status": "rejected"},
        CREATE,
        "rejected",
        "rejected",
    ),
    "completed, the buy rejected, 3.0": (
        "completed",
        {**BUY, "status": "rejected"},
        CREATE,
        "rejected",
        "rejected",
    ),
    "failed": ("failed", {"errors": [ERROR]}, CREATE, "failed", None),
    "failed, adcp_error": ("failed", {"adcp_error": ERROR}, CREATE, "failed", None),
    "working": ("working", {"percentage": 45}, CREATE, "working", None),
    "no result": ("completed", None, CREATE, "completed", None),
    "null result": ("completed", {}, CREATE, "completed", None),
    "another word": ("requires_approval", None, CREATE, "unknown", None),
}


@each_case(case=TASKS, way=TOLD)
def test_a_task_means_the_same_by_every_channel(case: str, way: str) -> None:
    word, result, task, status, buy = TASKS[case]
    seen = TOLD[way](word, result, task)
    assert (seen.status, seen.media_buy_status, seen.task_id) == (status, buy, "t")
    if status == "failed":
        assert seen.error is not None
        assert seen.error.code == "BUDGET_TOO_LOW"


# What a record tells beside a word that only a buy has, what that means, and the buy's status then.
BUYS_WORDS: dict[str, tuple[Body | None, str, str | None]] = {
    "the buy": (BUY, "completed", None),
    "a numbered buy": ({**BUY, "media_buy_id": 58213}, "completed", None),
    "both names": ({**BUY, "media_buy_status": "paused"}, "completed", "paused"),
    "the version echoed": ({**BUY, "adcp_version": "3.1"}, "completed", None),
    "warnings": ({**BUY, "errors": [ERROR]}, "completed", None),
    "no result": (None, "unknown", None),
    "null": ({"media_buy_id": None, "packages": []}, "unknown", None),
    "empty": ({"media_buy_id": "", "packages": []}, "unknown", None),
    "a result that failed": ({**BUY, "status": "failed"}, "unknown", None),
    "errors alone": ({"errors": [ERROR]}, "failed", None),
    "adcp_error": ({**BUY, "adcp_error": ERROR}, "failed", None),
    "the buy rejected": ({**BUY, "media_buy_status": "rejected"}, "rejected", "rejected"),
}


@each_case(case=BUYS_WORDS, way=TOLD)
def test_a_word_that_only_a_buy_has_says_that_the_task_completed(case: str, way: str) -> None:
    """Of a media buy that is named; a webhook's status is never the buy's: the seller is asked."""
    result, status, buy = BUYS_WORDS[case]
    for word in sorted(ONLY_A_BUYS):
        seen = TOLD[way](word, result, CREATE)
        if status == "completed" and way.startswith("webhook"):
            assert seen.status == "unknown"
        else:
            assert seen.status == status
        if seen.status == "completed":
            kept = {**_told_of(result), "media_buy_status": buy or word}
            assert (seen.media_buy_status, seen.task_id) == (buy or word, "t")
            assert (seen.partial, seen.payload) == (False, kept)


@pytest.mark.parametrize("way", [way for way in WAYS if not way.startswith("native")])
@pytest.mark.parametrize("task", [CREATE, UPDATE])
def test_a_record_that_names_the_buy_in_itself_may_have_its_word(way: str, task: str) -> None:
    """Some answer for a task as they answered the call."""
    seen = WAYS[way]({**_poll_body("pending_start", None, task), **BUY}, task)
    told = (seen.status, seen.media_buy_status)
    assert told == (("unknown", None) if way == "webhook" else ("completed", "pending_start"))


@each_case(status=[None, "", 7], way=[way for way in TOLD if not way.startswith("webhook")])
def test_a_task_without_a_status_is_not_known(status: Any, way: str) -> None:
    assert TOLD[way](status, BUY, CREATE).status == "unknown"


# What stands beside the result, the result, what it means; a poll that says so was refused itself.
OUTSIDE: dict[str, tuple[Body, Body | None, str]] = {
    "adcp_error beside a buy": ({"adcp_error": ERROR}, BUY, "failed"),
    "isError beside a buy": ({"isError": True}, BUY, "failed"),
    "errors alone": ({"errors": [ERROR]}, None, "failed"),
    "errors and an empty result": ({"errors": [ERROR]}, {}, "failed"),
    "errors and no buy": ({"errors": [ERROR]}, {"packages": []}, "failed"),
    "error and no buy": ({"error": ERROR}, {"media_buy_id": None}, "failed"),
    "error alone": ({"error": ERROR}, None, "failed"),
    "errors within and no buy": ({}, {"errors": [ERROR], "packages": []}, "failed"),
    "isError within": ({}, {"isError": True, "structuredContent": {"adcp_error": ERROR}}, "failed"),
    "isError within, in words": (
        {},
        {"isError": True, "content": [{"type": "text", "text": json.dumps({"adcp_error": ERROR})}]},
        "failed",
    ),
    "isError within beside a buy": ({}, {**BUY, "isError": True, "errors": [ERROR]}, "failed"),
    "warnings beside a buy": ({"errors": [ERROR]}, BUY, "completed"),
    "null": ({"adcp_error": None, "errors": None, "error": None, "isError": None}, BUY, "completed"),
    "empty": ({"adcp_error": {}, "errors": [], "error": {}}, BUY, "completed"),
    "absent": ({}, BUY, "completed"),
}


@each_case(case=OUTSIDE, typed=["told", "known"], way=WAYS)
def test_errors_count_wherever_they_stand(case: str, typed: str, way: str) -> None:
    beside, result, status = OUTSIDE[case]
    body = {**_poll_body("completed", result, CREATE), **beside}
    if typed == "known":
        del body["task_type"]
    seen = WAYS[way](body, CREATE if typed == "known" else "")
    refused = way.startswith("poll") and (beside.get("adcp_error") or beside.get("isError"))
    assert seen.status == ("unknown" if refused else status)
    assert seen.status != "failed" or seen.error is not None


@pytest.mark.parametrize("word", [None, "completed", "pending_start", "canceled", "rejected", "failed"])
@pytest.mark.parametrize("named", [True, False], ids=["named", "nameless"])
@pytest.mark.parametrize("errors_told", [True, False], ids=["errors", "no errors"])
def test_no_purchase_ends_against_the_buys_own_status(
    word: str | None, named: bool, errors_told: bool
) -> None:
    """None is booked that the seller refused, none is lost whose buy it says runs."""
    for buy in (None, "draft", *sorted(MEDIA_BUY_STATUSES)):
        data: Body = {"status": word, "media_buy_id": "mb" if named else None, "media_buy_status": buy}
        for read in CALLS.values():
            status = read({**data, "errors": [ERROR] if errors_told else []}, CREATE).status
            if buy in MEDIA_BUY_STATUSES - {"rejected", "canceled"}:
                assert status in ("completed", "unknown"), (buy, status)
            if buy == "rejected" or word in ("rejected", "failed") or (errors_told and not named):
                assert status != "completed", (buy, status)
            if word == "canceled" and buy != "canceled":
                assert status != "completed", (buy, status)
            if word is None and not named:
                assert status != "completed", (buy, status)


def test_a_record_that_names_the_buy_in_itself_is_read() -> None:
    """Some answer for a task as they answered the call: without a result of its own."""
    flat = {**_poll_body("completed", None, ""), **BUY, "media_buy_status": "active", "message": "Booked."}
    nested = {"status": "completed", "task_id": "t", "payload": {**BUY, "media_buy_status": "active"}}
    for body in (flat, nested):
        for read in (_poll_mcp, _poll_a2a, _item, _hook):
            seen = read(body, CREATE)
            assert (seen.status, seen.partial) == ("completed", False)
            assert seen.payload == {**BUY, "media_buy_status": "active"}


def test_a_purchase_completed_that_its_result_calls_failed_is_not_decided() -> None:
    for read in WAYS.values():
        seen = read(_poll_body("completed", {**BUY, "status": "failed"}, CREATE), CREATE)
        assert seen.status == "unknown"


@pytest.mark.parametrize("words", ["boom", {"text": "boom"}])
def test_a_reply_whose_one_error_bears_no_code_leaves_the_outcome_open(words: Any) -> None:
    for read in CALLS.values():
        seen = read({"error": words}, CREATE)
        assert seen.error is not None
        assert (seen.status, seen.error.code) == ("failed", errors.TOOL_ERROR)


def test_what_a_seller_numbers_is_text_in_every_channel() -> None:
    numbered: Body = {"media_buy_id": 58213, "account": {"account_id": 7}, "creative_ids": [1, 2]}
    numbered["packages"] = [{"package_id": 3, "product_id": 4, "targeting_overlay": {"a_id": 5}}]
    written: Body = {"media_buy_id": "58213", "account": {"account_id": "7"}, "creative_ids": ["1", "2"]}
    written["packages"] = [{"package_id": "3", "product_id": "4", "targeting_overlay": {"a_id": 5}}]
    for call in CALLS.values():
        assert call(numbered, CREATE).payload == written
    for read in WAYS.values():
        assert read(_poll_body("completed", numbered, CREATE), CREATE).payload == written
    assert read_bought({**numbered, "status": "active"}).payload == {**written, "status": "active"}


@pytest.mark.parametrize("status", [None, "failed", "completed", "working"])
def test_a_poll_that_failed_tells_nothing_of_the_task(status: str | None) -> None:
    refused = {"task_id": "t", "status": status, "adcp_error": {"code": "RATE_LIMITED", "retry_after": 30}}
    in_the_payload = {"task_id": "t", "status": "failed", "errors": [{"code": "RATE_LIMITED"}]}
    for seen in (
        seen_mcp({"isError": True, "structuredContent": refused}, about="poll"),
        seen_a2a(_a2a_body(refused, "TASK_STATE_FAILED"), about="poll"),
        seen_a2a(_a2a_body(refused), about="poll"),
        seen_data(in_the_payload, about="poll"),
    ):
        assert (seen.kind, seen.status, seen.task_id, seen.payload) == ("answer", "unknown", None, None)
        assert seen.error is not None
        assert seen.error.code == "RATE_LIMITED"


def test_the_error_beside_a_failed_task_is_the_tasks_reason() -> None:
    body = {**_poll_body("failed", None, CREATE), "error": ERROR}
    for seen in (seen_data(body, about="poll"), seen_a2a(_a2a_body(body, "TASK_STATE_FAILED"), about="poll")):
        assert seen.status == "failed"
        assert seen.error is not None
        assert (seen.error.code, seen.partial) == ("BUDGET_TOO_LOW", True)


def test_a_numbered_task_is_the_same_everywhere() -> None:
    body = {**_poll_body("completed", BUY, CREATE), "task_id": 42}
    hook = {**body, "idempotency_key": "k" * 20, "timestamp": "2026-09-01T10:00:00Z"}
    item = task_item(body)
    seen = [seen_data(body, about="poll"), seen_a2a(_a2a_body(body), about="poll"), read_webhook(hook)[1]]
    seen.append(seen_data({"status": "submitted", "task_id": 42.0}))
    assert item is not None
    assert {one.task_id for one in (*seen, item.seen)} == {"42"}


@pytest.mark.parametrize("word", sorted(MEDIA_BUY_STATUSES))
def test_a_buy_that_is_found_was_bought_unless_it_was_turned_down(word: str) -> None:
    for named in ({"status": word}, {"media_buy_status": word}):
        seen = read_bought({"media_buy_id": "mb", "context": {"x": 1}, **named})
        assert (seen.status, seen.media_buy_status, seen.partial) == (
            "rejected" if word == "rejected" else "completed",
            word,
            True,
        )


@pytest.mark.parametrize("huge", [10**400, -(10**400), 1e308, True, "45", None])
def test_a_percentage_that_is_none_is_absent(huge: object) -> None:
    seen = seen_data({"status": "working", "task_id": "t", "percentage": huge, "current_step": "x"})
    assert seen.status == "working"
    assert seen.progress is not None
    assert seen.progress.percentage in (None, 1e308)


def _examples(row: Row) -> Iterator[Facts]:
    """Facts that the row is for, by its own columns."""
    yield from (
        Facts(
            about=about,
            failed=bool(row.failed),
            refused=bool(row.refused),
            word=word,
            inner=inner,
            names_buy=bool(row.names_buy),
            names_task=bool(row.names_task),
            buy=buy,
            errors=next(iter(row.errors or {"none"})),
            removed=bool(row.removed),
            task=task,
        )
        for about in sorted(row.about or {"call"})
        for word in sorted(row.word or {"completed"})
        for inner in sorted(row.inner or {""})
        for buy in sorted(row.buy or {"none"})
        for task in sorted(row.task or {UPDATE})
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.why)
def test_every_row_decides_something(row: Row) -> None:
    """No row is covered by those before it."""
    decided = [facts for facts in _examples(row) if next(one for one in ROWS if one.fits(facts)) is row]
    assert decided
    assert all(meaning(facts).status in TASK_STATUSES for facts in decided)


_SPELLINGS = [
    *((word, word) for word in MEDIA_BUY_STATUSES | TASK_STATUSES),
    *((word, "") for word in (None, 7, ["x"])),
]


@pytest.mark.parametrize(("word", "plain"), sorted(_SPELLINGS, key=str))
def test_a_word_is_known_in_any_spelling_and_a_buys_stays_as_it_is(word: Any, plain: str) -> None:
    assert plain_word(word) == plain
    if plain and plain not in ONLY_A_BUYS:
        # As the transport spells its states (A2A 1.0, TaskState).
        assert plain_word(f"TASK_STATE_{plain.replace('-', '_').upper()}") == plain
        assert plain_word(plain.replace("-", "_")) == plain


@each_case(
    about=["call", "poll", "item", "webhook"],
    word=sorted(TASK_STATUSES | MEDIA_BUY_STATUSES | {"", "requires-approval"}),
)
def test_a_refused_or_failed_answer_is_never_success(about: Any, word: str) -> None:
    for facts in (
        Facts(about=about, failed=True, word=word, names_buy=True, task=CREATE),
        Facts(about=about, refused=True, word=word, names_buy=True, task=CREATE),
        Facts(about=about, errors="alone", word=word, task=CREATE),
        Facts(about=about, word=word, names_buy=True, buy="rejected", task=CREATE),
    ):
        assert meaning(facts).status != "completed"


@pytest.mark.parametrize("word", sorted(ENDED_BADLY))
@pytest.mark.parametrize("about", ["poll", "item", "webhook"])
def test_the_end_that_a_channel_tells_of_a_task_is_final(about: Any, word: str) -> None:
    for named in (True, False):
        assert meaning(Facts(about=about, word=word, names_buy=named, task=UPDATE)).status == word


@pytest.mark.parametrize("word", sorted(ENDED_BADLY))
def test_the_end_of_a_purchase_that_a_webhook_tells_is_final_though_its_result_names_a_buy(word: str) -> None:
    assert _hook(_poll_body(word, {"media_buy_id": "mb"}, CREATE), CREATE).status == word


OURS, ANOTHERS = {"account_id": "acc-1"}, {"account_id": "acc-2"}


@pytest.mark.parametrize(
    ("entry", "account"),
    [
        ({"account": OURS}, OURS),
        ({"account": {"account_id": 7}}, {"account_id": "7"}),
        ({"result": {**BUY, "account": OURS}}, OURS),
        ({"account": ANOTHERS, "result": {**BUY, "account": OURS}}, OURS),
        ({"account": OURS, "result": BUY}, OURS),
        ({"account": OURS, "result": {**BUY, "account": None}}, OURS),
        ({"account": None}, None),
        ({"account": {}}, None),
        ({"account": "acc-1"}, None),
        ({"account": {"number": "1"}}, None),
        ({"account": {"account_id": ["acc-1"]}}, None),
        ({"account": OURS, "result": {**BUY, "account": {"number": "1"}}}, OURS),
        ({"account": {"brand": {"domain": "a.example"}}}, {"brand": {"domain": "a.example"}}),
        ({}, None),
    ],
)
def test_whose_a_task_is_stands_in_its_result_or_beside_it(entry: Body, account: Body | None) -> None:
    item = task_item({"task_id": "t-1", "task_type": CREATE, "status": "completed", **entry})
    assert item is not None
    assert item.account == account


def test_whose_a_media_buy_is_that_was_found() -> None:
    assert read_bought({**BUY, "account": {"account_id": 7}}).account == {"account_id": "7"}


RECORDS: dict[str, Body] = {
    "working": {},
    "submitted": {},
    "input-required": {"message": "Which?"},
    "failed": {},
    "rejected": {"message": "No"},
    "canceled": {},
    "completed": {"result": BUY},
}


@pytest.mark.parametrize("outside", [{"status": "completed"}, {"status": "failed"}, {}], ids=str)
@pytest.mark.parametrize("status", RECORDS)
def test_a_tasks_record_in_the_envelope_of_the_poll_says_itself_how_it_stands(
    status: str, outside: Body
) -> None:
    record = {"task_id": "t", "task_type": CREATE, "status": status, **RECORDS[status]}
    body = {**outside, "message": "Task status", "payload": record}
    state = {"state": "TASK_STATE_COMPLETED"}
    parts = [{"parts": [{"data": body}]}]
    a2a = {"task": {"id": "a", "contextId": "c", "status": state, "artifacts": parts}}
    for seen in (
        seen_data(body, about="poll", task_type=CREATE),
        seen_mcp({"structuredContent": body}, about="poll", task_type=CREATE),
        seen_a2a(a2a, about="poll", task_type=CREATE),
    ):
        assert (seen.status, seen.task_id) == (status, "t")
