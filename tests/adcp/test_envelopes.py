"""Normalising: whatever the shape, one valid Seen; the traps seen live, one by one."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks_app.adcp import errors
from tasks_app.adcp.envelopes import seen_a2a, seen_data, seen_mcp, seen_rpc_error
from tasks_app.adcp.errors import clamp_retry_after, recovery_for
from tasks_app.adcp.hygiene import REDACTED, clean, token_matches
from tasks_app.adcp.meaning import About
from tasks_app.adcp.tasks import (
    NoCursorError,
    is_status_tool,
    next_cursor,
    task_item,
    task_list_tool,
    task_status_tool,
)
from tasks_app.adcp.types import TASK_STATUSES, Kind, Recovery, Seen
from tasks_app.adcp.values import parse_time
from tasks_app.adcp.webhook_body import EnvelopeError, read_webhook

SECRET = "a-secret-of-ours"

words = st.sampled_from(
    [
        "completed",
        "submitted",
        "working",
        "active",
        "requires_approval",
        "TASK_STATE_FAILED",
        SECRET,
        "",
        "\x00",
    ]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | words
KNOWN = """
status state task_id id taskId contextId message parts artifacts data text structuredContent content isError
adcp_error errors code recovery retry_after payload result task statusUpdate artifactUpdate response
percentage progress timestamp context media_buy_id media_buy_status replayed push_notification_config token
authentication tasks pagination cursor response_data associated_objects updated_at error type kind
"""
known = st.sampled_from(KNOWN.split())
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(known | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=25,
)


def check(seen: Seen) -> None:
    """What holds of every Seen."""
    assert seen.kind in get_args(Kind)
    assert seen.status in TASK_STATUSES
    if seen.kind != "answer":
        assert seen.status == "unknown"
        assert seen.error is not None
    for error in (seen.error, *seen.errors):
        if error is not None:
            assert error.code
            assert error.recovery in (None, *get_args(Recovery))
            assert error.retry_after is None or 1 <= error.retry_after <= 3600
    for name in ("raw_status", "task_id", "a2a_task_id", "a2a_context_id", "message", "media_buy_status"):
        assert isinstance(getattr(seen, name), str | None)
    assert isinstance(seen.payload, dict | None)
    assert isinstance(seen.context, dict | None)
    assert seen.at is None or seen.at.utcoffset() is not None
    kept = json.dumps([seen.raw, seen.payload, seen.context, seen.message], allow_nan=False)
    assert SECRET not in kept
    assert "\\u0000" not in kept


@given(anything)
def test_any_mcp_result_gives_a_valid_seen(value: Any) -> None:
    check(seen_mcp(value, secrets=[SECRET]))


@given(anything)
def test_any_a2a_answer_gives_a_valid_seen(value: Any) -> None:
    check(seen_a2a(value, secrets=[SECRET]))


@given(anything)
def test_any_data_gives_a_valid_seen(value: Any) -> None:
    for about in get_args(About):
        check(seen_data(value, secrets=[SECRET], about=about))
    item = task_item(clean(value, [SECRET])) if isinstance(value, dict) else None
    assert item is None or item.status in TASK_STATUSES
    with suppress(NoCursorError):
        assert isinstance(next_cursor(seen_data(value)), str | None)


@given(st.dictionaries(known | st.text(max_size=4), anything, max_size=5))
def test_any_rpc_error_gives_a_valid_seen(value: dict[str, Any]) -> None:
    check(seen_rpc_error(value, secrets=[SECRET]))


@given(st.dictionaries(known | st.text(max_size=4), anything, max_size=6))
def test_any_webhook_body_is_read_or_refused(value: dict[str, Any]) -> None:
    with suppress(EnvelopeError):
        _, seen = read_webhook(value, secrets=[SECRET])
        check(seen)


def test_deep_nesting_is_cut_not_fatal() -> None:
    deep: Any = 1
    for _ in range(500):
        deep = {"a": deep}
    check(seen_data({"status": "completed", "x": deep}))


@pytest.mark.parametrize("status", ["pending_creatives", "pending_start", "active", "paused"])
def test_a_media_buy_status_in_the_place_of_the_tasks_means_completed(status: str) -> None:
    seen = seen_data({"media_buy_id": "mb", "status": status, "packages": []})
    assert (seen.status, seen.media_buy_status, seen.raw_status) == ("completed", status, status)


def test_an_answer_of_3_0_without_status_is_completed_or_failed() -> None:
    assert seen_data({"products": []}).status == "completed"
    failed = seen_data({"errors": [{"code": "BUDGET_TOO_LOW", "message": "more"}]})
    assert failed.status == "failed"
    assert failed.error is not None
    assert (failed.error.code, failed.error.recovery) == ("BUDGET_TOO_LOW", "correctable")
    assert seen_data({"products": [], "errors": [{"code": "STALE_RESPONSE"}]}).status == "completed"


def test_cancelling_a_buy_of_3_0_completes_the_task() -> None:
    seen = seen_data({"media_buy_id": "mb", "status": "canceled"})
    assert (seen.status, seen.media_buy_status) == ("completed", "canceled")
    task = seen_data({"status": "canceled", "task_id": "t"})
    assert (task.status, task.media_buy_status) == ("canceled", None)


@pytest.mark.parametrize("inner", ["submitted", "rejected", "failed", "input-required", "working"])
def test_the_adcp_status_counts_never_the_transports(inner: str) -> None:
    task = {
        "id": "a-1",
        "contextId": "c-1",
        "status": {"state": "TASK_STATE_COMPLETED"},
        "artifacts": [{"parts": [{"data": {"status": inner, "task_id": "t-1", "revision": 1.0}}]}],
    }
    seen = seen_a2a({"task": task})
    assert (seen.status, seen.task_id, seen.a2a_task_id, seen.a2a_context_id) == (inner, "t-1", "a-1", "c-1")
    assert seen.payload == {"revision": 1}
    assert isinstance((seen.payload or {})["revision"], int)
    assert seen.continuation is None, "the transport's task has ended: it cannot be continued"


@pytest.mark.parametrize("state", ["input-required", "auth-required"])
def test_a_paused_transport_task_can_be_continued(state: str) -> None:
    native = f"TASK_STATE_{state.upper().replace('-', '_')}"
    paused = {"state": native, "message": {"parts": [{"text": "Which?"}]}}
    seen = seen_a2a({"task": {"id": "a-1", "contextId": "c-1", "status": paused}})
    assert seen.continuation == {"task_id": "a-1", "context_id": "c-1"}
    nameless = seen_a2a({"task": {"id": "a-1", "status": paused}})
    assert (nameless.status, nameless.continuation) == (state, None)


def test_progress_is_read() -> None:
    seen = seen_mcp({"structuredContent": {"status": "working", "percentage": 45, "current_step": "pricing"}})
    assert seen.progress is not None
    assert (seen.progress.percentage, seen.progress.current_step) == (45, "pricing")


def test_a_rejection_may_give_its_reason_only_in_words() -> None:
    assert seen_data({"status": "rejected", "reason": "No alcohol."}).message == "No alcohol."
    assert seen_data({"status": "failed", "error_message": "No."}).message == "No."


def test_a_nested_payload_is_the_result() -> None:
    seen = seen_data({"status": "completed", "task_id": "t", "payload": {"media_buy_id": "mb"}})
    assert seen.payload == {"media_buy_id": "mb"}


def test_a_tool_that_crashes_in_plain_text_has_failed() -> None:
    seen = seen_mcp({"isError": True, "content": [{"type": "text", "text": "Traceback …"}]})
    assert (seen.kind, seen.status, seen.message) == ("answer", "failed", "Traceback …")
    assert seen.error is not None
    assert (seen.error.code, seen.error.recovery) == (errors.TOOL_ERROR, None)


STATUS_REPLY = {
    "task_id": "t",
    "task_type": "create_media_buy",
    "status": "completed",
    "created_at": "2026-09-01T10:00:00Z",
    "updated_at": "2026-09-01T12:00:00Z",
}


def test_reply_poll_and_webhook_agree() -> None:
    result = {"media_buy_id": "mb", "media_buy_status": "active", "revision": 2, "context": {"deal": "d"}}
    reply = seen_data({"status": "completed", **result})
    poll = seen_data({**STATUS_REPLY, "result": {"status": "completed", **result}}, about="poll")
    body = {
        "idempotency_key": "whk_0123456789abcdef",
        "task_id": "t",
        "task_type": "create_media_buy",
        "status": "completed",
        "timestamp": "2026-09-01T12:00:00Z",
        "token": "token-of-ours-0123456789",
        "result": {**result, "revision": 2.0},
    }
    envelope, hook = read_webhook(body)
    assert reply.payload == poll.payload == hook.payload == envelope_without_context(envelope.result)
    assert {seen.media_buy_status for seen in (reply, poll, hook)} == {"active"}
    assert reply.context == poll.context == hook.context == {"deal": "d"}
    assert poll.at == hook.at == datetime(2026, 9, 1, 12, tzinfo=UTC)
    assert envelope.token == "token-of-ours-0123456789"
    assert "token-of-ours" not in repr(hook)
    assert "token-of-ours" not in repr(envelope)


def envelope_without_context(result: dict[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (result or {}).items() if key != "context"}


def test_a_webhook_that_speaks_of_a_media_buy_keeps_the_tasks_status() -> None:
    body = {
        "idempotency_key": "whk_0123456789abcdef",
        "task_id": "t",
        "task_type": "create_media_buy",
        "status": "completed",
        "timestamp": "2026-09-01T12:00:00Z",
        "result": {"media_buy_id": "mb", "status": "pending_start"},
    }
    _, seen = read_webhook(body)
    assert (seen.status, seen.media_buy_status) == ("completed", "pending_start")


def test_a_failed_task_names_its_error_wherever_it_stands() -> None:
    error = {"code": "PRODUCT_UNAVAILABLE", "message": "sold out"}
    replies: list[dict[str, Any]] = [
        {"result": {"errors": [error]}},
        {"result": {"adcp_error": error}},
        {"error": error},
        {"result": {"status": "failed", "errors": [error]}, "error": error},
    ]
    for reply in replies:
        seen = seen_data({**STATUS_REPLY, "status": "failed", **reply}, about="poll")
        assert seen.status == "failed"
        assert seen.error is not None
        assert (seen.error.code, seen.message) == ("PRODUCT_UNAVAILABLE", "sold out")


def test_the_older_shape_of_a_task_is_read() -> None:
    reply: dict[str, Any] = {
        "task_id": "step_1",
        "status": "completed",
        "tool_name": "create_media_buy",
        "response_data": {},
        "associated_objects": [{"type": "media_buy", "id": "mb_9", "action": "create"}],
        "error_message": None,
    }
    assert seen_data(reply, about="poll").payload == {"media_buy_id": "mb_9"}
    waiting = seen_data({**reply, "status": "requires_approval", "associated_objects": []}, about="poll")
    assert (waiting.status, waiting.raw_status, waiting.payload) == ("unknown", "requires_approval", None)
    refused = seen_data({**reply, "status": "failed", "error_message": "Budget too high"}, about="poll")
    assert (refused.status, refused.message) == ("failed", "Budget too high")


def test_a_failed_poll_says_nothing_of_the_task() -> None:
    reply = {
        "isError": True,
        "structuredContent": {"adcp_error": {"code": "REFERENCE_NOT_FOUND", "message": "?"}},
    }
    seen = seen_mcp(reply, about="poll")
    assert seen.status == "unknown"
    assert seen.error is not None
    assert seen.error.code == "REFERENCE_NOT_FOUND"


def test_tools_are_chosen_by_what_the_seller_declares() -> None:
    assert task_status_tool({"tasks_get", "get_task_status"}) == "get_task_status"
    assert task_status_tool({"tasks/get"}) == "tasks/get"
    assert task_status_tool({"get_products"}) is None
    assert task_list_tool(["tasks_list"]) == "tasks_list"


def test_list_items_may_say_domain_for_protocol() -> None:
    item = task_item({"task_id": 7, "status": "working", "domain": "media-buy"})
    assert item is not None
    assert (item.task_id, item.status, item.protocol) == ("7", "working", "media-buy")
    assert task_item({"status": "completed"}) is None


@pytest.mark.parametrize(
    ("pagination", "cursor"),
    [
        (None, None),
        ({"has_more": False, "cursor": "next"}, None),
        ({"has_more": False, "cursor": None}, None),
        ({"has_more": True, "cursor": "next"}, "next"),
        ({"next_cursor": "next"}, "next"),
        ({}, None),
    ],
)
def test_a_list_ends_where_it_says_so(pagination: object, cursor: str | None) -> None:
    assert next_cursor(seen_data({"media_buys": [], "pagination": pagination})) == cursor


@pytest.mark.parametrize(
    "pagination",
    [
        {"has_more": True},
        {"has_more": True, "cursor": None},
        {"has_more": True, "cursor": 100},
        {"cursor": 7},
    ],
)
def test_more_without_a_readable_cursor_is_no_end(pagination: object) -> None:
    with pytest.raises(NoCursorError):
        next_cursor(seen_data({"media_buys": [], "pagination": pagination}))


def test_echoed_registrations_are_redacted_wherever_they_stand() -> None:
    token, credentials = "t7h2m9q4x1z8w5v3k6y0", "c3p8r1s6d9f2g5j7" * 2
    config = {"url": "https://x", "token": token, "authentication": {"credentials": credentials}}
    text = json.dumps({"push_notification_config": config})
    value = clean({"result": {"push_notification_config": config}, "note": f"token {token}", "text": text})
    assert token not in json.dumps(value)
    assert credentials not in json.dumps(value)
    assert value["note"] == f"token {REDACTED}"


def test_tokens_are_compared_whole() -> None:
    assert token_matches("abcdefgh", "abcdefgh")
    assert not token_matches("abcdefgh", "abcdefg")
    assert not token_matches("", "")
    assert not token_matches("abc", None)
    assert not token_matches("é", "e")


def test_only_times_with_an_offset_are_times() -> None:
    assert parse_time("2026-09-01T12:00:00+02:00") == datetime(2026, 9, 1, 10, tzinfo=UTC)
    assert parse_time("2026-09-01T12:00:00.123Z") is not None
    for nonsense in ("2026-09-01T12:00:00", "yesterday", "", None, 7):
        assert parse_time(nonsense) is None


def test_recovery_is_what_the_seller_says_or_the_code_implies() -> None:
    assert recovery_for("RATE_LIMITED") == "transient"
    assert recovery_for("RATE_LIMITED", "terminal") == "terminal"
    assert recovery_for("RATE_LIMITED", "permanent") == "terminal"
    assert recovery_for("X_ACME_UNHEARD") == "terminal"
    assert recovery_for("X_ACME_UNHEARD", "transient") == "transient"


@pytest.mark.parametrize(
    ("given_value", "seconds"),
    [
        (0, 1),
        (0.2, 1),
        (5.2, 6),
        (10**400, 3600),
        (5, 5),
        (86400, 3600),
        (float("inf"), None),
        (float("nan"), None),
        ("5", None),
        (True, None),
    ],
)
def test_waits_are_clamped(given_value: object, seconds: float | None) -> None:
    assert clamp_retry_after(given_value) == seconds


SHORT, MASKED = "m", "********4711****"


@pytest.mark.parametrize("echo", [SHORT, MASKED, "completed", "xxxxxxxxxxxxxxxxxxxxxxxx"])
def test_an_echo_that_is_no_secret_is_hidden_in_its_place_alone(echo: str) -> None:
    registration = {"url": "https://x", "token": echo, "authentication": {"credentials": echo}}
    told = {
        "status": "completed",
        "media_buy_id": f"mb_{echo}",
        echo: 1,
        "push_notification_config": registration,
    }
    made = clean(told)
    assert {**made, "push_notification_config": None} == {**told, "push_notification_config": None}
    assert echo not in json.dumps(made["push_notification_config"]).replace("credentials", "")


def test_an_echoed_secret_is_hidden_in_values_and_names_stay() -> None:
    echo = "k7h2m9q4x1z8w5v3"
    made = clean({"push_notification_config": {"token": echo}, echo: f"is {echo}"})
    assert made == {"push_notification_config": {"token": REDACTED}, echo: f"is {REDACTED}"}


@pytest.mark.parametrize(
    "token", ["abc/def+ghi=jkl/mnopqrst", 'quo"ted-and\\more-of-it', "grün-und-länger-als-16"]
)
def test_a_secret_is_hidden_as_json_escapes_it_too(token: str) -> None:
    for text in (json.dumps({"echo": token}), json.dumps({"echo": token}).replace("/", "\\/")):
        assert clean({"text": text}, [token]) == {"text": json.dumps({"echo": REDACTED})}


@pytest.mark.parametrize(
    ("name", "tells"),
    [
        *((name, True) for name in ("get_task_status", "get_task", "tasks/get", "tasks_get")),
        *((name, True) for name in ("task_state", "tell_me", "look_at_task", "taskStatus", "getJobInfo")),
        *((name, True) for name in ("async_task_status", "jobs.get", "get_creative_task", "booking_status")),
        *((name, False) for name in ("get_products", "create_media_buy", "list_tasks", "get_media_buys")),
        *((name, False) for name in ("complete_task", "cancelTask", "tasks/cancel", "finish", "task", "x")),
        *(
            (name, False)
            for name in ("set_task_status", "get_and_complete_task", "updateTaskState", "task/resume")
        ),
        *((name, False) for name in ("CancelTaskStatus", "put.status", "force_task_status", "GET_CANCELLED")),
    ],
)
def test_a_status_tool_tells_by_its_name_that_it_only_tells(name: str, tells: bool) -> None:
    assert is_status_tool(name) is tells
