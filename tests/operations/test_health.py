"""A seller's health: from what was observed of its calls and operations, and a bounded number of rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from tasks_app import clock
from tasks_app.ids import first_id_at
from tasks_app.operations import health
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.models import READS, UNKNOWN_TYPE, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers import health as seams
from tasks_app.sellers.health import Breaker, SellerHealth, WebhookState
from tasks_app.sellers.models import Seller, SellerBreaker
from tests.adcp.raw_server import serve
from tests.clocks import Clock
from tests.factories import make_seller
from tests.operations.making import answer, ask, failed, fresh, hours, not_sent, see, silent, stand
from tests.operations.sweeping import answering, sweep

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


@pytest.fixture
def time(still: Clock) -> Clock:
    still.now = NOON
    return still


@pytest.fixture
def seller() -> Seller:
    return make_seller(slots=3)


def health_of(seller: Seller) -> SellerHealth:
    return seams.health_of([seller])[seller.pk]


def called(operation: Operation, ms: int, **told: Any) -> None:
    """A poll that took so long."""
    see(operation, answer("submitted", task_id=operation.task_id, duration_ms=ms, **told), "poll")


def test_a_seller_that_was_never_called_has_no_figures(seller: Seller) -> None:
    found = health_of(seller)
    assert (found.calls.count, found.calls.error_share, found.calls.median_ms) == (0, None, None)
    assert (found.outcomes, found.share("completed"), found.out.open) == ((), None, 0)
    assert (found.webhooks.state, found.webhooks.share) == (WebhookState.NONE, None)


def test_calls_times_and_errors_by_code(seller: Seller) -> None:
    operation = stand(S.SUBMITTED, seller=seller, task_id="a")
    for ms in (100, 200, 300, 400, 1000):
        called(operation, ms)
    see(operation, answer("working", task_id="a"), "webhook")  # no call of ours
    unanswered = stand(S.SUBMITTED, seller=seller, task_id="b")
    for seen in (silent(), silent(), not_sent(), failed("RATE_LIMITED", "transient")):
        see(unanswered, replace(seen, duration_ms=2000), "poll")
    calls = health_of(seller).calls
    assert (calls.count, calls.errors, calls.error_share) == (9, 4, 4 / 9)
    assert (calls.median_ms, calls.slowest_ms) == (1000, 2000)
    assert calls.codes == (("X_FLIGHTDECK_NO_ANSWER", 2), ("RATE_LIMITED", 1), ("X_FLIGHTDECK_NOT_SENT", 1))


def test_calls_of_the_last_day_and_the_latest_thousand_only(
    seller: Seller, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = stand(S.SUBMITTED, seller=seller, task_id="a")
    for ms in (100, 200, 300):
        called(operation, ms)
    old = Observation(
        id=first_id_at(clock.now() - timedelta(hours=25)),
        operation=operation,
        seller=seller,
        channel="poll",
        kind="answer",
        status="submitted",
        outcome="duplicate",
        digest="",
        duration_ms=9000,
    )
    old.save(force_insert=True)
    assert health_of(seller).calls.slowest_ms == 300
    monkeypatch.setattr(health, "CALLS_LATEST", 2)
    assert (health_of(seller).calls.count, health_of(seller).calls.median_ms) == (2, 250)


def test_how_operations_ended_by_task(seller: Seller, time: Clock) -> None:
    for number, (status, channel, took) in enumerate(
        (("completed", "webhook", 2), ("completed", "poll", 4), ("rejected", "poll", 6))
    ):
        time.now = NOON - hours(took)
        operation = stand(S.SUBMITTED, seller=seller, task_id=f"t-{number}")
        time.now = NOON
        see(operation, answer(status, task_id=f"t-{number}"), channel)
    late = stand(S.TIMED_OUT, seller=seller, task_id="late")
    see(late, answer("completed", task_id="late"), "poll")
    see(stand(S.CALLING_ADCP, "get_products", seller=seller), answer("completed"))
    found = health_of(seller)
    bought, read = found.outcomes
    assert (bought.task, bought.count, bought.completed, bought.rejected, bought.overdue) == (
        "create_media_buy",
        4,
        3,
        1,
        1,
    )
    assert (bought.median, bought.success, bought.webhook_percent) == (hours(3), 75, 25)
    assert (read.task, read.count, read.median) == ("get_products", 1, timedelta(0))
    assert (found.settled, found.share("rejected"), found.share("overdue")) == (4, 0.25, 0.25)
    assert (bought.is_change, read.is_change) == (True, False)


@pytest.mark.parametrize("task", [*sorted(READS), "update_media_buy", "sync_creatives", UNKNOWN_TYPE])
def test_rates_are_of_changes_and_no_read_dilutes_them(
    seller: Seller, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    monkeypatch.setattr(health, "SETTLED_LATEST", 4)
    seller.tools = []  # which it has, nobody knows: it is asked whatever it is
    seller.save(update_fields=["tools"])
    rejected = stand(S.SUBMITTED, seller=seller, task_id="no")
    see(rejected, answer("rejected", task_id="no"), "poll")
    for number in range(5):  # later than the change, and more than are looked at
        operation = stand(S.SUBMITTED, task, seller=seller, task_id=f"t-{number}")
        see(operation, answer("completed", task_id=f"t-{number}"), "poll")
    found = health_of(seller)
    is_read = task in READS
    assert (found.settled, found.share("rejected")) == ((1, 1.0) if is_read else (4, 0.0))


def test_what_is_overdue_now_counts_among_the_late(seller: Seller, time: Clock) -> None:
    for status, task in (("completed", "a"), ("rejected", "b")):
        see(stand(S.SUBMITTED, seller=seller, task_id=task), answer(status, task_id=task), "poll")
    assert health_of(seller).share("overdue") == 0
    stand(S.TIMED_OUT, seller=seller, task_id="c")
    stand(S.SUBMITTED, seller=seller, task_id="d", deadline_at=time.now)  # no sweep has seen it yet
    stand(S.SUBMITTED, seller=seller, task_id="e", deadline_at=time.now + hours(1))
    stand(S.SUBMITTED, "get_products", seller=seller, task_id="f", deadline_at=time.now)
    found = health_of(seller)
    assert (found.out.overdue, found.share("overdue"), found.share("rejected")) == (2, 0.5, 0.5)


def test_a_seller_that_answers_nothing_is_late_with_all(seller: Seller) -> None:
    stand(S.TIMED_OUT, seller=seller, task_id="a")
    assert (health_of(seller).share("overdue"), health_of(seller).share("rejected")) == (1.0, None)


def test_what_never_left_is_no_outcome_of_the_seller(seller: Seller) -> None:
    Seller.objects.update(active=False)
    operation = ask(seller=seller)
    Operation.objects.filter(pk=operation.pk).update(settled_at=clock.now())
    assert health_of(seller).outcomes == ()


def test_what_never_left_is_not_late(seller: Seller) -> None:
    """Held for people or stopped by the kill switch, it waits for us."""
    operation = ask(seller=seller)
    Operation.objects.filter(pk=operation.pk).update(deadline_at=clock.now() - hours(1))
    found = health_of(seller)
    assert (found.out.open, found.out.overdue, found.share("overdue")) == (1, 0, None)


# What became of our answer to what the seller asked, and whether it is the seller that is late.
_ANSWERS: dict[str, tuple[tuple[str, ...], bool]] = {
    "nobody has answered": ((), True),
    "people decide on it": (("answered_at",), False),
    "let go, and stopped": (("answered_at", "released_at"), False),
    "it left": (("answered_at", "released_at", "dispatched_at"), True),
    "the seller has it": (("answered_at", "released_at", "dispatched_at", "consumed_at"), True),
    "overtaken": (("answered_at", "stale_at"), True),
}


@pytest.mark.parametrize("what", _ANSWERS)
def test_a_seller_that_waits_for_our_answer_is_not_late(what: str, seller: Seller, time: Clock) -> None:
    done, late = _ANSWERS[what]
    operation = stand(S.INPUT_REQUIRED, seller=seller, deadline_at=time.now)
    moments = dict.fromkeys(done, time.now)
    Continuation.objects.create(
        operation=operation,
        generation=1,
        kind="input",
        descriptor="{}",
        expires_at=time.now + hours(9),
        **moments,
    )
    found = health_of(seller)
    assert (found.out.open, found.out.overdue, found.share("overdue")) == (1, late, 1.0 if late else None)
    held = Operation.objects.filter(Continuation.held())
    assert held.exists() is not late, "one rule, in either tongue"


def test_what_is_out_now(seller: Seller, time: Clock) -> None:
    oldest = stand(S.SUBMITTED, seller=seller, task_id="a")
    time.now = NOON + hours(1)
    stand(S.CALLING_ADCP, seller=seller, out_until=time.now + timedelta(seconds=5))
    stand(S.CALLING_ADCP, seller=seller, out_until=time.now - timedelta(seconds=5))
    stand(S.TIMED_OUT, seller=seller, task_id="b")
    stand(S.COMPLETED, seller=seller, task_id="c")
    stand(S.SUBMITTED, seller=make_seller("Other"), task_id="d")
    out = health_of(seller).out
    assert (out.open, out.overdue, out.calling, out.oldest_at) == (4, 1, 1, fresh(oldest).sent_at)


def test_sellers_are_told_apart_in_as_many_queries_as_one(django_assert_num_queries: Any) -> None:
    one, two = make_seller("One"), make_seller("Two")
    called(stand(S.SUBMITTED, seller=one, task_id="a"), 100)
    called(stand(S.SUBMITTED, seller=two, task_id="b"), 900)
    with django_assert_num_queries(6):
        found = seams.health_of([one, two])
    assert (found[one.pk].calls.median_ms, found[two.pk].calls.median_ms) == (100, 900)
    assert seams.health_of([]) == {}


def test_a_breaker_is_shown_once_the_seller_has_failed(seller: Seller) -> None:
    assert health_of(seller).breaker is None
    row = SellerBreaker.objects.create(seller=seller, state="open", failures=5, probe_at=clock.now())
    assert health_of(seller).breaker == Breaker(
        state="open", failures=5, since=row.since, next_probe_at=row.probe_at
    )


def test_real_calls_leave_how_long_they_took_whose_they_were_and_their_error() -> None:
    gone = {"code": "PRODUCT_UNAVAILABLE", "message": "gone", "recovery": "terminal"}
    wrong = {"status": "failed", "errors": [gone]}
    with serve(answering({"status": "completed", "products": []}, wrong)) as server:
        seller = make_seller(url=f"{server.url}/mcp")
        ask("get_products", seller=seller)
        sweep()
        ask("get_products", seller=seller)
        sweep()
    fine, bad = Observation.objects.order_by("id")
    for seen in (fine, bad):
        assert seen.seller == seller
        assert seen.duration_ms is not None
        assert seen.duration_ms >= 0
    assert (fine.error_code, bad.error_code) == ("", "PRODUCT_UNAVAILABLE")
    assert health_of(seller).calls.codes == (("PRODUCT_UNAVAILABLE", 1),)


@pytest.mark.parametrize("statement", ["_CALLS", "_CODES", "_OUTCOMES"])
def test_what_grows_for_ever_is_read_by_its_index(seller: Seller, statement: str) -> None:
    names = {
        "_CALLS": "observation_of_call",
        "_CODES": "observation_of_call",
        "_OUTCOMES": "operation_changes_settled",
    }
    now = clock.now()
    given = {"sellers": [seller.pk], "first": first_id_at(now), "since": now, "latest": 9}
    with connection.cursor() as cursor:
        cursor.execute("set local enable_seqscan = off")
        cursor.execute("explain " + getattr(health, statement), given)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert statement != "_OUTCOMES" or "operation_settled" in plan, "reads, by theirs"
    assert f"using {names[statement]}" in plan or f"on {names[statement]}" in plan, plan
