"""News has an order: what is older moves nothing back, whichever channel brings it, and is asked again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.adcp.types import TERMINAL_STATUSES, Seen
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.dispatch import claim_polls, claim_sends, finish
from tasks_app.operations.lease import CallLease
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller, SellerBreaker
from tests.operations.making import (
    answer,
    ask,
    crashed,
    failed,
    fresh,
    garbled,
    not_sent,
    see,
    silent,
    unknown,
)
from tests.support import undone

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
START = datetime(2026, 9, 1, 12, tzinfo=UTC)
PENDING = ("submitted", "working", "input_required", "auth_required")
QUESTIONS = ("input_required", "auth_required")
ENDS = tuple(sorted(TERMINAL_STATUSES))
# What the first and what comes later tell of the time, in seconds after START.
TIMES = {"none": (None, None), "older": (50, 10), "newer": (50, 90), "first": (50, None), "later": (None, 10)}
FLOOR_S = 6  # sellers/timing.py, repeat_floor_s
_tasks = count()


def told(status: str, at: int | None, **more: Any) -> Seen:
    moment = None if at is None else START + timedelta(seconds=at)
    made = unknown(**more) if status == "unknown" else answer(status, **more)
    return replace(made, at=moment, message=f"{status}.")


def sent(*before: Seen) -> Operation:
    """A purchase whose call is out, after earlier ones that came to `before`."""
    # Of those before, whose answers were undone, nothing is out, due or held against the seller.
    CallLease.objects.all().delete()
    SellerBreaker.objects.all().delete()
    Operation.objects.update(send_at=None, next_poll_at=None)
    operation = ask()
    for seen in before:
        finish([(out(operation), seen)])
    operation.call = out(operation)  # type: ignore[attr-defined]
    return operation


def out(operation: Operation) -> Any:
    """Its call, that is out from now on."""
    Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
    (call,) = claim_sends(limit=1)
    return call


def answered(*before: Seen) -> Operation:
    """A purchase whose seller asked something; our answer is out, after calls with it that came to
    `before`."""
    operation, task = sent(), f"t-{next(_tasks)}"
    Seller.objects.update(protocol="a2a")
    asks = told("input_required", None, task_id=task, continuation={"task_id": "native"})
    finish([(operation.call, asks)])  # type: ignore[attr-defined]
    pause = Continuation.objects.get(operation=operation)
    pause.request_text, pause.answer = "{}", {"text": "Sweden."}
    pause.answered_at = pause.released_at = clock.now()
    pause.save()
    for seen in before:
        finish([(out(operation), seen)])
    operation.call = out(operation)  # type: ignore[attr-defined]
    return operation


def refused_for_now() -> Seen:
    return failed("RATE_LIMITED", "transient")


# The first call that the seller can have had, however often it was tried before.
FIRST_CALLS: dict[str, Callable[[], Operation]] = {
    "none left before": lambda: sent(not_sent()),
    "refused before": lambda: sent(refused_for_now(), not_sent()),
    "turned away before": lambda: sent(told("auth_required", None)),
    "an answer": answered,
    "an answer that had not left": lambda: answered(not_sent()),
    "an answer refused before": lambda: answered(refused_for_now()),
}
# Calls that were made before, and may have arrived.
MADE_AGAIN: dict[str, Callable[[], Seen]] = {"silent": silent, "garbled": garbled, "crashed": crashed}


def moved(status: str, later: str) -> str:
    return later.replace("-", "_") if later != "unknown" else status


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Our clock: seconds after START."""
    now = {"at": START}

    def turn(seconds: float) -> None:
        now["at"] = START + timedelta(seconds=seconds)

    with clock.injected(lambda: now["at"]):
        yield turn


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("first_by", ["webhook", "poll"])
def test_the_first_answer_to_a_call_is_older_than_whatever_came_besides(
    first_by: str, times: str, at: Any
) -> None:
    """First × later, by reply: one that is no end moves nothing, an end does."""
    first_at, later_at = TIMES[times]
    for first in PENDING:
        at(0)
        operation, task = sent(), f"t-{next(_tasks)}"
        at(60)
        see(operation, told(first, first_at, task_id=task), first_by)
        assert fresh(operation).status == first
        at(61)
        for later in [*PENDING, "unknown", *ENDS]:
            with undone():
                finish([(operation.call, told(later, later_at, task_id=task))])  # type: ignore[attr-defined]
                stands = fresh(operation)
                if later in ENDS:
                    assert stands.status == later, (first, later)
                    continue
                assert (stands.status, stands.message) == (first, f"{first}."), (first, later)
                assert operation.observations.latest("id").outcome == "stale"
                assert stands.next_poll_at == clock.now() + timedelta(seconds=FLOOR_S), (first, later)


@pytest.mark.parametrize("call", FIRST_CALLS)
def test_it_is_the_first_call_that_can_have_left(call: str, at: Any) -> None:
    """What surely never had an effect there does not count, and our answer to a question is a call anew."""
    for first in PENDING:
        at(0)
        operation = FIRST_CALLS[call]()
        task = fresh(operation).task_id or f"t-{next(_tasks)}"
        at(60)
        see(operation, told(first, None, task_id=task), "webhook")
        assert fresh(operation).status == first
        at(61)
        for later in [*PENDING, *ENDS]:
            with undone():
                finish([(operation.call, told(later, None, task_id=task))])  # type: ignore[attr-defined]
                stands = fresh(operation)
                if later in ENDS:
                    assert stands.status == later, (first, later)
                    continue
                assert (stands.status, stands.message) == (first, f"{first}."), (first, later)
                assert operation.observations.latest("id").outcome == "stale"


@pytest.mark.parametrize("call", FIRST_CALLS)
def test_news_from_before_it_left_is_not_newer(call: str, at: Any) -> None:
    for first in PENDING:
        at(0)
        operation = FIRST_CALLS[call]()
        task = fresh(operation).task_id or f"t-{next(_tasks)}"
        at(1)
        see(operation, told(first, None, task_id=task), "webhook")
        call_out = operation.call  # type: ignore[attr-defined]
        route = replace(call_out.route, claimed_at=START + timedelta(seconds=30))
        left = replace(call_out, route=route)
        at(61)
        for later in PENDING:
            with undone():
                finish([(left, told(later, None, task_id=task))])
                assert fresh(operation).status == later, (first, later)


@pytest.mark.parametrize("before", MADE_AGAIN)
@pytest.mark.parametrize("times", TIMES)
def test_an_answer_to_a_call_made_again_is_judged_by_its_time(times: str, before: str, at: Any) -> None:
    first_at, later_at = TIMES[times]
    for first in PENDING:
        at(0)
        operation, task = sent(MADE_AGAIN[before]()), f"t-{next(_tasks)}"
        at(60)
        see(operation, told(first, first_at, task_id=task), "webhook")
        at(61)
        for later in [*PENDING, *ENDS]:
            with undone():
                finish([(operation.call, told(later, later_at, task_id=task))])  # type: ignore[attr-defined]
                held = times == "older" and later not in ENDS
                assert fresh(operation).status == (first if held else later), (first, later)


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("asked", ["before", "after"])
@pytest.mark.parametrize(
    ("by", "first_by"), [("poll", "webhook"), ("poll", "poll"), ("reconcile", "webhook")]
)
def test_a_look_is_as_new_as_its_question(by: str, first_by: str, asked: str, times: str, at: Any) -> None:
    """First × later, by poll or reconciliation: asked before the newest news was applied it moves nothing
    back, unless both tell their time, and the seller is asked again."""
    first_at, later_at = TIMES[times]
    for first in PENDING:
        at(0)
        operation, task = sent(), f"t-{next(_tasks)}"
        see(operation, told("submitted", None, task_id=task), "reply")
        if asked == "before":
            at(30)
            poll, looked_at = _polled(operation), clock.now()
        at(60)
        # What says what is known already is news of that moment too.
        see(operation, told(first, first_at, task_id=task), first_by)
        if asked == "after":
            at(70)
            poll, looked_at = _polled(operation), clock.now()
        at(80)
        held = times == "older" or (asked == "before" and times != "newer")
        for later in [*PENDING, "unknown", *ENDS]:
            with undone():
                if by == "poll":
                    finish([(poll, told(later, later_at, task_id=task))])
                else:
                    seen = told(later, later_at, task_id=task)
                    see(operation, replace(seen, asked_at=looked_at), by)
                stands = fresh(operation)
                if later in ENDS:
                    assert stands.status == later, (first, later)
                    continue
                assert stands.status == (first if held else moved(first, later)), (first, later)
                if asked == "before" and times not in ("older", "newer"):
                    assert stands.message == f"{first}."
                    assert stands.next_poll_at == clock.now() + timedelta(seconds=FLOOR_S)


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("first_by", ["reply", "webhook", "poll"])
def test_a_webhook_that_may_be_older_takes_back_no_question(first_by: str, times: str, at: Any) -> None:
    """First × later, by webhook: what it tells since stands, by the seller's times where both tell one. Else
    nobody knows when it was made: it moves all but a question of the seller's, and that is asked about."""
    first_at, later_at = TIMES[times]
    for first in PENDING:
        at(0)
        operation, task = sent(), f"t-{next(_tasks)}"
        if first_by == "reply":
            finish([(operation.call, told(first, first_at, task_id=task))])  # type: ignore[attr-defined]
        else:
            see(operation, told("submitted", None, task_id=task), "reply")
            at(60)
            see(operation, told(first, first_at, task_id=task), first_by)
        at(80)
        for later in [*PENDING, "unknown", *ENDS]:
            with undone():
                see(operation, told(later, later_at, task_id=task), "webhook")
                stands, case = fresh(operation), (first, later)
                if later in ENDS:
                    assert stands.status == later, case
                    continue
                asks = first in QUESTIONS and later not in QUESTIONS
                held = times == "older" or (asks and times != "newer")
                assert stands.status == (first if held else moved(first, later)), case
                if asks and times not in ("older", "newer") and later != "unknown":
                    assert stands.message == f"{first}.", case
                    assert operation.observations.latest("id").outcome == "stale", case
                    assert stands.next_poll_at is not None, case
                    assert stands.next_poll_at <= clock.now() + timedelta(seconds=FLOOR_S), case


def test_webhooks_that_may_be_older_put_the_look_off_no_further(at: Any) -> None:
    at(0)
    operation = sent()
    see(operation, told("input_required", None, task_id="t-many"), "reply")
    for seconds in (10, 12, 14):
        at(seconds)
        see(operation, told("working", None, task_id="t-many"), "webhook")
    assert fresh(operation).status == S.INPUT_REQUIRED
    assert fresh(operation).next_poll_at == START + timedelta(seconds=10 + FLOOR_S)


def _polled(operation: Operation) -> Any:
    """A look at it that is out."""
    Operation.objects.filter(pk=operation.pk).update(next_poll_at=clock.now())
    (call,) = [one for one in claim_polls(limit=5) if one.operation_id == operation.pk]
    return call


def test_what_the_seller_asks_is_not_lost_behind_the_answer_to_the_call(at: Any) -> None:
    """Seen live: a webhook asks, then the call's own "submitted" comes."""
    at(0)
    operation = sent()
    at(1)
    see(operation, told("input_required", 1, task_id="t-asks"), "webhook")
    at(2)
    finish([(operation.call, told("submitted", None, task_id="t-asks"))])  # type: ignore[attr-defined]

    stands = fresh(operation)
    assert (stands.status, stands.task_id, stands.send_at) == (S.INPUT_REQUIRED, "t-asks", None)


def test_the_first_answer_still_binds_what_it_alone_names(at: Any) -> None:
    at(0)
    operation = sent()
    see(operation, told("working", None), "webhook")
    finish([(operation.call, told("submitted", None, task_id="t-named"))])  # type: ignore[attr-defined]

    assert (fresh(operation).status, fresh(operation).task_id) == (S.WORKING, "t-named")


def test_a_look_that_was_overtaken_keeps_the_wait_the_seller_asks_for(at: Any) -> None:
    at(0)
    operation = sent()
    see(operation, told("submitted", None, task_id="t-wait"), "reply")
    poll = _polled(operation)
    at(5)
    see(operation, told("working", None, task_id="t-wait"), "webhook")
    finish([(poll, told("submitted", None, task_id="t-wait", retry_after=600.0))])

    assert fresh(operation).status == S.WORKING
    assert fresh(operation).next_poll_at == clock.now() + timedelta(seconds=600)
