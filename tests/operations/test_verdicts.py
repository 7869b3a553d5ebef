"""What one answer leads to, as a table without a database: the verdict, and every column that it writes."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.adcp.types import Seen, WireError
from tasks_app.operations.judging import judge, kind_of, why_of
from tasks_app.operations.matching import MAX_IDENTITY, identities, mismatch, unusable_task
from tasks_app.operations.models import PENDING, SETTLED, UNKNOWN_TYPE, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Account, Seller
from tests.operations.making import TASK, answer, crashed, failed, silent, unknown
from tests.tables import each_case
from tests.unsaved import unsaved

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
LATER = ("poll", "webhook")
ACCOUNT = unsaved(Account, reference={"account_id": "acc-1"})
ANOTHERS = {"account": {"account_id": "acc-2"}}
OF_A_BRAND = {"account": {"brand": {"domain": "lindqvist-coffee.com"}}}
BY_BRAND = unsaved(Account, reference=OF_A_BRAND["account"])


@pytest.fixture(autouse=True)
def _at_noon(settings: Any) -> Any:
    settings.POLL_SCALE = 1.0
    with clock.injected(lambda: NOW):
        yield


def stands(status: str = S.SUBMITTED, **columns: Any) -> Operation:
    """An operation as it is read, never saved; the seller does what it is asked at once, without jitter."""
    seller = Seller(slug="norrland", name="Norrland", timing={"jitter": 0})
    told = {"task_id": TASK, "task_type": "create_media_buy", "request": {}, "reference": "OP-1", **columns}
    return Operation(seller=seller, status=status, sent_at=NOW, **told)


def verdict(operation: Operation, seen: Seen, channel: str = "poll") -> Any:
    return judge(operation, seen, channel, "digest", {})


def wire(status: str) -> str:
    return status.replace("_", "-")


# --- whether it is about this operation ---------------------------------------------------------------


def seen(**told: Any) -> Seen:
    return Seen(kind="answer", status="working", **told)


@pytest.mark.parametrize(
    ("columns", "told", "why"),
    [
        ({}, {}, ""),
        ({}, {"task_id": TASK}, ""),
        ({}, {"task_id": "task-2"}, f"task_id changed from {TASK} to task-2"),
        ({"task_id": ""}, {"task_id": "task-2"}, ""),
        ({}, {"task_type": "create_media_buy"}, ""),
        ({}, {"task_type": "update_media_buy"}, "tells of update_media_buy, not create_media_buy"),
        ({"task_type": UNKNOWN_TYPE}, {"task_type": "update_media_buy"}, ""),
        ({"request": {"context": {"operation_id": "a"}}}, {"context": {"operation_id": "a"}}, ""),
        ({"request": {"context": {"operation_id": "a"}}}, {"context": {}}, ""),
        ({"request": {"context": {"operation_id": "a"}}}, {"context": {"operation_id": 7}}, ""),
        ({"request": {"context": ["a"]}}, {"context": {"operation_id": "b"}}, ""),
        (
            {"request": {"context": {"operation_id": "a"}}},
            {"context": {"operation_id": "b"}},
            "echoes the context of another operation, b",
        ),
        ({"account": ACCOUNT}, {"account": {"account_id": "acc-1"}}, ""),
        ({"account": ACCOUNT}, {"account": {"account_id": ""}}, ""),
        ({"account": ACCOUNT}, {"account": {"account_id": 7}}, "tells of account 7, not acc-1"),
        ({"account": ACCOUNT}, ANOTHERS, "tells of account acc-2, not acc-1"),
        ({}, ANOTHERS, ""),
        # Sent under one name, which the seller has changed since: either is ours.
        ({"account": ACCOUNT, "request": ANOTHERS}, ANOTHERS, ""),
        ({"account": ACCOUNT, "request": ANOTHERS}, {"account": {"account_id": "acc-1"}}, ""),
        (
            {"account": ACCOUNT, "request": ANOTHERS},
            {"account": {"account_id": "acc-3"}},
            "tells of account acc-3, not acc-2 or acc-1",
        ),
        ({"account": BY_BRAND, "request": ANOTHERS}, ANOTHERS, ""),
        ({"account": ACCOUNT, "request": {"account": BY_BRAND.reference}}, OF_A_BRAND, ""),
        (
            {"account": BY_BRAND},
            {"account": {"brand": {"domain": "another.example"}}},
            "tells of an account of another.example, not lindqvist-coffee.com",
        ),
    ],
)  # fmt: skip
def test_what_speaks_against_its_being_about_this(
    columns: dict[str, Any], told: dict[str, Any], why: str
) -> None:
    assert mismatch(stands(**columns), seen(**told)) == why


@pytest.mark.parametrize("status", [S.CALLING_ADCP, *PENDING, S.TIMED_OUT, *SETTLED])
def test_what_tells_of_another_is_a_conflict_and_it_is_still_looked_at(status: str) -> None:
    told = verdict(stands(status), answer("completed", task_id="task-2"))

    assert (told.outcome, told.to, told.note) == ("conflict", None, f"task_id changed from {TASK} to task-2")
    waits = {"timed_out": 900, "submitted": 60, "working": 5, "input_required": 30, "auth_required": 30}
    looks = {"next_poll_at": NOW + timedelta(seconds=waits[status])} if status in waits else {}
    assert told.changes == looks


@pytest.mark.parametrize("channel", ["reply", "reconcile", *LATER])
def test_an_answer_to_the_call_about_something_else_is_a_persons(channel: str) -> None:
    """And so is what a look-up comes upon; news that nobody asked for is waited on."""
    stood = stands(S.CALLING_ADCP, task_id="", next_poll_at=NOW)
    told = verdict(stood, answer("working", task_type="sync_x"), channel)

    assert told.outcome == "conflict"
    why = "tells of sync_x, not create_media_buy"
    asked = {"send_at": None, "deadline_at": NOW, "message": why}
    shown = f"What the seller shows with our ids cannot be it: {why}"
    found = {**asked, "next_poll_at": None, "looked_up_at": NOW, "message": shown}
    assert told.changes == {"reply": asked, "reconcile": found}.get(channel, {})


@pytest.mark.parametrize("looked_at", [None, NOW + timedelta(seconds=1)])
def test_a_comparison_beside_a_call_that_is_out_ends_nothing(looked_at: datetime | None) -> None:
    stood = stands(S.CALLING_ADCP, task_id="", next_poll_at=looked_at)
    told = verdict(stood, answer("working", task_type="sync_x"), "reconcile")

    assert (told.outcome, told.changes) == ("conflict", {})


def test_nothing_is_about_what_was_not_sent() -> None:
    for status in ("working", "completed"):
        told = verdict(stands(S.REQUESTED), answer(status, task_id=TASK))
        assert (told.outcome, told.to, told.changes) == ("conflict", None, None)
        assert told.note == "nothing was sent yet"


@pytest.mark.parametrize("longer", [0, 1])
def test_each_of_the_sellers_names_is_bound_once_if_it_can_be_kept(longer: int) -> None:
    names = ("task_id", "a2a_task_id", "a2a_context_id", "context_id")
    told = {name: name[0] * (MAX_IDENTITY + longer) for name in names}
    bare = stands(task_id="")

    assert identities(bare, seen(**told)) == ({} if longer else told)
    assert identities(bare, seen()) == identities(bare, seen(**dict.fromkeys(names, ""))) == {}
    for name in names:
        bound = stands(**{"task_id": "", name: "bound"})
        rest = {other: value for other, value in told.items() if other != name}
        assert identities(bound, seen(**told)) == ({} if longer else rest)


def test_a_task_id_that_cannot_be_kept_is_not_bound() -> None:
    assert unusable_task(stands(), seen(task_id="x" * 300)) == "", "one is bound already"
    assert unusable_task(stands(task_id=""), seen()) == ""
    why = "the seller's task_id has 256 characters"
    assert unusable_task(stands(task_id=""), seen(task_id="x" * 256)) == why
    told = verdict(stands(S.CALLING_ADCP, task_id=""), answer("submitted", task_id="x" * 256), "reply")
    assert (told.outcome, told.note) == ("conflict", why)
    assert told.changes == {"send_at": None, "deadline_at": NOW, "message": why}


# --- news ---------------------------------------------------------------------------------------------


@each_case(status=PENDING, to=PENDING, channel=LATER)
def test_what_is_pending_moves_to_what_the_seller_says(status: str, to: str, channel: str) -> None:
    operation = stands(status, message="Before.", polls=0, seller_news_at=NOW - timedelta(minutes=1))
    wait = {"submitted": 60, "working": 5}.get(to, 30)
    changes = {
        "message": "Now.",
        "send_at": None,
        "next_poll_at": NOW + timedelta(seconds=wait),
        "seller_news_at": NOW,
        "context_id": "c-1",
    }

    told = verdict(operation, answer(wire(to), message="Now.", at=NOW, context_id="c-1"), channel)

    if to == status:
        assert asdict(told) == {"outcome": "duplicate", "to": None, "changes": changes, "note": ""}
    else:
        assert asdict(told) == {
            "outcome": "applied",
            "to": to,
            "changes": {**changes, "polls": 0},
            "note": "",
        }


def test_news_without_words_or_time_keeps_those_that_are_known() -> None:
    told = verdict(stands(message="Before.", seller_news_at=NOW), answer("working"))
    assert told.to == S.WORKING
    assert told.changes["message"] == "Before."
    assert "seller_news_at" not in told.changes


@pytest.mark.parametrize(("seconds", "outcome"), [(-1, "stale"), (0, "applied"), (1, "applied")])
def test_older_news_moves_nothing_and_what_it_names_is_bound(seconds: int, outcome: str) -> None:
    operation = stands(seller_news_at=NOW)
    told = verdict(operation, answer("working", at=NOW + timedelta(seconds=seconds), context_id="c-1"))
    assert told.outcome == outcome
    if outcome == "stale":
        look = {"context_id": "c-1", "next_poll_at": NOW + timedelta(seconds=60)}
        assert (told.to, told.note, told.changes) == (None, "older than what is known", look)


def test_what_is_overdue_stays_a_persons_and_is_looked_at_seldom() -> None:
    told = verdict(stands(S.TIMED_OUT), answer("working", context_id="c-1"))
    assert (told.outcome, told.to) == ("indeterminate", None)
    assert told.note == "overdue: a person decides whether to wait on"
    assert told.changes == {"context_id": "c-1", "next_poll_at": NOW + timedelta(seconds=900)}


@each_case(
    end=["completed", "canceled", "rejected"],
    status=[S.CALLING_ADCP, *PENDING, S.TIMED_OUT],
    channel=["reply", *LATER],
)
def test_the_first_end_settles_it(end: str, status: str, channel: str) -> None:
    error = None if end == "completed" else WireError(code="PRODUCT_UNAVAILABLE", message="Sold.")
    payload = {"media_buy_id": "mb-1"} if end == "completed" else None
    told = verdict(stands(status), answer(end, message="So.", payload=payload, error=error, at=NOW), channel)

    assert (told.outcome, told.to, told.note) == ("applied", end, "")
    assert told.changes == {
        "settled_by": channel,
        "settled_at": NOW,
        "message": "So.",
        "send_at": None,
        "next_poll_at": None,
        "publish_at": None,
        "seller_news_at": NOW,
        **({"result": payload} if payload else {"error": asdict(error)}),  # type: ignore[call-overload]
        **({"published_at": None} if status == S.TIMED_OUT else {}),
    }


def test_an_end_in_no_words_tells_the_error() -> None:
    assert verdict(stands(), failed("PRODUCT_UNAVAILABLE")).changes["message"] == (
        "PRODUCT_UNAVAILABLE: PRODUCT_UNAVAILABLE!"
    )
    assert verdict(stands(), answer("completed")).changes["message"] == ""
    assert len(verdict(stands(), answer("completed", message="x" * 3000)).changes["message"]) == 2000


@pytest.mark.parametrize("status", ["completed", "failed", "canceled", "rejected"])
def test_an_end_without_its_result_is_looked_at_again_before_it_is_told(status: str) -> None:
    told = verdict(stands(), Seen(kind="answer", status=status, raw_status=status, partial=True))  # type: ignore[arg-type]
    waits = status in ("completed", "failed")
    assert told.to == status
    assert told.changes["next_poll_at"] == (NOW + timedelta(seconds=60) if waits else None)
    assert told.changes["publish_at"] == (NOW + timedelta(seconds=300) if waits else None)


def test_credentials_that_a_purchase_waits_for_are_tried_again_and_a_read_ends() -> None:
    refused = answer("auth-required", message="Sign in.")
    told = verdict(stands(S.CALLING_ADCP, task_id="", attempts=1), refused, "reply")
    assert (told.outcome, told.to) == ("applied", S.AUTH_REQUIRED)
    assert told.changes["send_at"] == NOW + timedelta(seconds=45)
    slow = verdict(stands(S.CALLING_ADCP, task_id=""), answer("auth-required", retry_after=70.0), "reply")
    assert slow.changes["send_at"] == NOW + timedelta(seconds=70)
    own = stands(S.CALLING_ADCP, task_id="")
    own.seller.timing = {"jitter": 0, "input_first_s": 11}
    assert verdict(own, refused, "reply").changes["send_at"] == NOW + timedelta(seconds=11)
    assert "next_poll_at" not in told.changes
    assert verdict(stands(), refused).changes["send_at"] is None, "a task is polled instead"

    read = stands(S.CALLING_ADCP, task_id="", task_type="get_products")
    told = verdict(read, refused, "reply")
    assert (told.outcome, told.to, told.changes["message"]) == ("applied", S.FAILED, "Sign in.")
    assert told.changes["settled_by"] == "reply"


@pytest.mark.parametrize("asked", [None, 7.0])
def test_the_sellers_own_wait_is_kept(asked: float | None) -> None:
    told = verdict(stands(), answer("submitted", retry_after=asked))
    assert told.changes["next_poll_at"] == NOW + timedelta(seconds=asked or 60)
    error = WireError(code="RATE_LIMITED", retry_after=9.0)
    told = verdict(stands(), answer("submitted", retry_after=asked, error=error))
    assert told.changes["next_poll_at"] == NOW + timedelta(seconds=asked or 9)


@pytest.mark.django_db
def test_what_has_no_task_id_is_looked_up_by_our_context_soon() -> None:
    told = verdict(stands(S.CALLING_ADCP, task_id=""), answer("submitted", replayed=True), "reply")
    assert NOW < told.changes["next_poll_at"] <= NOW + timedelta(minutes=1)


def test_a_replayed_answer_is_as_old_as_the_first_so_it_is_looked_at_once() -> None:
    told = verdict(stands(S.CALLING_ADCP), answer("submitted", replayed=True), "reply")
    assert told.changes["next_poll_at"] == NOW


# --- what cannot be read ------------------------------------------------------------------------------


@pytest.mark.parametrize("channel", LATER)
@pytest.mark.parametrize("status", [*PENDING, S.TIMED_OUT])
def test_no_answer_to_a_look_moves_nothing(status: str, channel: str) -> None:
    told = verdict(stands(status), silent(), channel)
    assert (told.outcome, told.to) == ("indeterminate", None)
    assert told.note == "X_FLIGHTDECK_NO_ANSWER: no answer in time"
    assert told.changes.keys() == {"next_poll_at"}


@pytest.mark.parametrize("status", SETTLED)
def test_no_answer_after_the_end_is_stale(status: str) -> None:
    told = verdict(stands(status), silent())
    assert (told.outcome, told.to, told.changes) == ("stale", None, None)
    assert told.note == "X_FLIGHTDECK_NO_ANSWER: no answer in time"


@pytest.mark.parametrize("word", ["pending_manual", "pending_approval", "requires_approval", "perhaps"])
def test_a_word_outside_the_statuses_keeps_looking(word: str) -> None:
    note = f"the seller says {word!r}, which is not a task status"
    told = verdict(stands(S.CALLING_ADCP), unknown(word, context_id="c-1"), "reply")
    assert (told.outcome, told.to, told.note) == ("applied", S.SUBMITTED, note)
    assert told.changes == {
        "context_id": "c-1",
        "message": note,
        "send_at": None,
        "next_poll_at": NOW + timedelta(seconds=60),
    }

    for channel, wait in (("poll", 5), ("webhook", 0)):
        told = verdict(stands(S.WORKING, message="Before."), unknown(word), channel)
        assert (told.outcome, told.to, told.note) == ("indeterminate", None, note)
        look = NOW + timedelta(seconds=wait)
        assert told.changes == {"message": "Before.", "send_at": None, "next_poll_at": look}


def test_a_look_that_failed_tells_why_and_moves_nothing() -> None:
    error = WireError(code="RATE_LIMITED", message="Later.")
    told = verdict(stands(S.WORKING), unknown("", error=error))
    assert (told.outcome, told.to, told.note) == ("indeterminate", None, "RATE_LIMITED: Later.")
    assert told.changes["message"] == "RATE_LIMITED: Later."


@pytest.mark.django_db
@pytest.mark.parametrize("word", ["pending_manual", "pending_approval", "requires_approval"])
def test_what_a_person_at_the_seller_decides_is_out_even_without_a_task(word: str) -> None:
    told = verdict(stands(S.CALLING_ADCP, task_id=""), unknown(word), "reply")
    assert (told.outcome, told.to) == ("applied", S.SUBMITTED)
    assert told.changes["send_at"] is None


def test_why_something_failed_in_words() -> None:
    assert why_of(answer("failed")) == ""
    assert why_of(answer("failed", message="No.")) == "No."
    assert why_of(failed("RATE_LIMITED")) == "RATE_LIMITED: RATE_LIMITED!"
    error = WireError(code="INVALID", message="too much", field="budget")
    assert why_of(answer("failed", message="No.", error=error)) == "INVALID (budget): too much"
    assert why_of(answer("failed", error=WireError(code="INVALID"))) == "INVALID"


def test_what_kind_of_attempt_it_was() -> None:
    assert kind_of(crashed()) == "garbled", "it broke down: it may have been made"
    assert kind_of(failed("INVALID")) == "answer"
    assert kind_of(silent()) == "no_answer"
    assert kind_of(Seen(kind="no_answer", request_left=False)) == "not_sent"
