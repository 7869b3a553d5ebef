"""observe(): what is seen of an operation, and what it leads to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations, product
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations import converge
from tasks_app.operations.models import PENDING, SETTLED, Operation
from tasks_app.operations.models import OperationStatus as S
from tests.factories import make_seller
from tests.operations.making import (
    BOUGHT,
    TASK,
    answer,
    ask,
    crashed,
    failed,
    fresh,
    leased_until,
    not_sent,
    see,
    silent,
    stand,
    unknown,
)

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
WITH_THE_SELLER = (S.CALLING_ADCP, *PENDING)


@pytest.mark.parametrize("channel", ["reply", "poll", "webhook"])
@pytest.mark.parametrize("told", ["completed", "failed", "canceled", "rejected"])
@pytest.mark.parametrize("before", [*WITH_THE_SELLER, S.TIMED_OUT])
def test_the_first_end_is_the_end_whatever_brought_it(before: str, told: str, channel: str) -> None:
    operation = stand(before)

    observation = see(operation, answer(told, task_id=TASK, message="So it is."), channel)

    operation = fresh(operation)
    assert (observation.outcome, operation.status) == ("applied", told)
    assert (operation.settled_by, operation.message) == (channel, "So it is.")
    assert operation.settled_at is not None
    assert operation.published_at is None
    assert (operation.next_poll_at, operation.send_at, leased_until(operation)) == (None, None, None)
    assert operation.result == (BOUGHT if told == "completed" else None)
    assert verify_entity("operation", operation.pk).ok


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize(
    ("before", "told", "channel"),
    [
        (before, told, channel)
        for before, told, channel in product(PENDING, PENDING, ("poll", "webhook"))
        # What tells no time may be older than a question: see test_news_order.
        if not (channel == "webhook" and before.endswith("_required") and told in ("submitted", "working"))
    ],
)
def test_pending_follows_what_the_seller_says(before: str, told: str, channel: str) -> None:
    operation = stand(before, polls=7)

    observation = see(operation, answer(told, task_id=TASK, message="Moving on."), channel)

    operation = fresh(operation)
    assert operation.status == told
    assert observation.outcome == ("duplicate" if told == before else "applied")
    assert operation.message == "Moving on."
    assert operation.next_poll_at > clock.now()
    assert operation.polls == ((8 if channel == "poll" else 7) if told == before else 0)


@pytest.mark.parametrize("told", PENDING)
def test_a_reply_binds_the_task_and_ends_the_sending(told: str) -> None:
    operation = stand(S.CALLING_ADCP, send_at=clock.now(), out_until=clock.now())

    see(operation, answer(told, task_id=TASK, a2a_task_id="a-1", a2a_context_id="c-1"))

    operation = fresh(operation)
    assert operation.status == told
    assert (operation.task_id, operation.a2a_task_id, operation.a2a_context_id) == (TASK, "a-1", "c-1")
    assert (operation.send_at, leased_until(operation)) == (None, None)
    assert operation.next_poll_at is not None


@pytest.mark.parametrize("channel", ["reply", "poll", "webhook"])
@pytest.mark.parametrize("end", SETTLED)
def test_after_the_end_the_same_is_a_duplicate_and_another_a_conflict(end: str, channel: str) -> None:
    operation = stand(end)
    end_of = operation.observations.get()
    before = _stored(operation)
    error = None if end == "completed" else failed("PRODUCT_UNAVAILABLE").error
    same = answer(end, task_id=TASK, payload=BOUGHT, error=error and _as_made(error))
    other = answer("completed", payload={"media_buy_id": "mb-2", "packages": []}, task_id=TASK)

    assert see(operation, same, channel).outcome == "duplicate"
    assert see(operation, other, channel).outcome == "conflict"
    assert (
        see(operation, answer("canceled" if end != "canceled" else "failed"), channel).outcome == "conflict"
    )
    assert see(operation, answer("working", task_id=TASK), channel).outcome == "stale"
    assert see(operation, unknown(), channel).outcome == "stale"
    assert see(operation, silent(), channel).outcome == "stale"
    assert _stored(operation) == before
    assert operation.observations.count() == 7
    assert operation.observations.order_by("id").first() == end_of


@pytest.mark.parametrize("channel", ["reply", "poll", "webhook"])
@pytest.mark.parametrize("told", ["submitted", "working", "completed", "unknown"])
@pytest.mark.parametrize("before", PENDING)
def test_a_bound_task_id_never_changes(before: str, told: str, channel: str) -> None:
    operation = stand(before)

    observation = see(operation, answer(told, task_id="task-2"), channel)

    operation = fresh(operation)
    assert observation.outcome == "conflict"
    assert TASK in observation.note
    assert "task-2" in observation.note
    assert (operation.status, operation.task_id, operation.result) == (before, TASK, None)
    assert operation.next_poll_at is not None, "it is still looked at"


def test_a_task_of_another_operation_is_not_taken_over() -> None:
    first = stand(S.SUBMITTED)
    second = stand(S.CALLING_ADCP, send_at=clock.now())

    observation = see(second, answer("completed", task_id=TASK))

    second = fresh(second)
    assert observation.outcome == "conflict"
    assert first.reference in second.message
    assert (second.status, second.task_id, second.send_at) == (S.CALLING_ADCP, "", None)
    assert second.deadline_at <= clock.now(), "a person is asked at once"
    assert fresh(first).status == S.SUBMITTED


def test_the_same_task_id_at_another_seller_is_another_task() -> None:
    stand(S.SUBMITTED)
    other = ask(seller=make_seller("Elsewhere"))
    Operation.objects.filter(pk=other.pk).update(attempts=1)
    claimed = stand(S.CALLING_ADCP)
    Operation.objects.filter(pk=claimed.pk).update(seller=other.seller)

    assert see(claimed, answer("submitted", task_id=TASK)).outcome == "applied"


def test_identities_that_cannot_be_kept_lose_nothing() -> None:
    operation = stand(S.CALLING_ADCP)
    kept = answer("submitted", task_id="t" * 255, a2a_task_id="a" * 256)

    assert see(stand(S.CALLING_ADCP), answer("submitted", task_id="t" * 256)).outcome == "conflict"
    assert see(operation, kept).outcome == "applied"
    assert (fresh(operation).task_id, fresh(operation).a2a_task_id) == ("t" * 255, "")


@pytest.mark.parametrize("channel", ["reply", "poll", "webhook"])
def test_a_status_outside_the_enum_keeps_observing(channel: str) -> None:
    operation = stand(S.SUBMITTED)

    observation = see(operation, unknown("requires_approval", task_id=TASK), channel)

    operation = fresh(operation)
    assert (observation.outcome, operation.status) == ("indeterminate", S.SUBMITTED)
    assert "requires_approval" in observation.note
    assert operation.next_poll_at is not None


def test_an_unknown_first_answer_with_a_task_is_looked_at() -> None:
    operation = stand(S.CALLING_ADCP, send_at=clock.now())

    see(operation, unknown("requires_approval", task_id=TASK))

    operation = fresh(operation)
    assert (operation.status, operation.task_id, operation.send_at) == (S.SUBMITTED, TASK, None)
    assert "requires_approval" in operation.message
    assert operation.next_poll_at is not None


@pytest.mark.parametrize("word", ["pending_manual", "pending_approval", "requires_approval"])
def test_a_first_answer_that_a_person_at_the_seller_decides_is_out_even_without_a_task(word: str) -> None:
    operation = stand(S.CALLING_ADCP, send_at=clock.now())

    assert see(operation, unknown(word)).outcome == "applied"

    operation = fresh(operation)
    assert (operation.status, operation.send_at) == (S.SUBMITTED, None)
    assert word in operation.message


def test_the_sellers_context_is_kept_bound_once() -> None:
    operation = stand(S.CALLING_ADCP)
    see(operation, answer("input-required", task_id=TASK, context_id="ctx-1"))
    see(operation, answer("working", task_id=TASK, context_id="ctx-2"), "poll")
    assert fresh(operation).context_id == "ctx-1"


@pytest.mark.usefixtures("still")
def test_an_unknown_first_answer_without_a_task_is_asked_again() -> None:
    operation = stand(S.CALLING_ADCP)

    for _ in range(5):
        assert see(operation, unknown("approved")).outcome == "indeterminate"

    operation = fresh(operation)
    assert operation.status == S.CALLING_ADCP
    assert operation.send_at > clock.now()
    assert "approved" in operation.message


def test_older_news_is_stale_and_an_older_end_is_not() -> None:
    operation = stand(S.SUBMITTED)
    late, early = NOW, NOW - timedelta(minutes=5)

    see(operation, answer("working", task_id=TASK, at=late), "webhook")
    assert see(operation, answer("submitted", task_id=TASK, at=early), "webhook").outcome == "stale"
    assert fresh(operation).status == S.WORKING
    assert see(operation, answer("completed", task_id=TASK, at=early), "webhook").outcome == "applied"
    assert fresh(operation).status == S.COMPLETED


@pytest.mark.parametrize("channel", ["poll", "webhook"])
@pytest.mark.parametrize(("first", "second"), list(permutations(PENDING, 2)))
def test_of_one_moment_what_is_told_later_is_the_news(first: str, second: str, channel: str) -> None:
    """A seller whose clock tells seconds says two things in one: the second is no older than the first."""
    operation = stand(S.CALLING_ADCP)
    see(operation, answer(first, task_id=TASK, at=NOW), "webhook")

    assert see(operation, answer(second, task_id=TASK, at=NOW), channel).outcome == "applied"
    assert (fresh(operation).status, fresh(operation).seller_news_at) == (second, NOW)


@pytest.mark.usefixtures("still")
def test_a_stale_poll_is_followed_by_another() -> None:
    operation = stand(S.WORKING, seller_news_at=NOW, next_poll_at=NOW, out_until=clock.now())

    assert see(operation, answer("submitted", at=NOW - timedelta(hours=1)), "poll").outcome == "stale"
    assert fresh(operation).next_poll_at > clock.now()
    assert leased_until(operation) is None


@pytest.mark.parametrize("clock_of_the_seller", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"])
def test_a_mad_seller_clock_neither_poisons_the_row_nor_silences_the_seller(clock_of_the_seller: str) -> None:
    operation = stand(S.SUBMITTED)
    mad = datetime.fromisoformat(clock_of_the_seller)

    see(operation, answer("working", task_id=TASK, at=mad), "webhook")

    assert fresh(operation).seller_news_at is None, "and it can be read at all"
    assert see(operation, answer("submitted", task_id=TASK, at=NOW), "webhook").outcome == "applied"


def test_a_seller_clock_far_ahead_is_not_believed() -> None:
    operation = stand(S.SUBMITTED)

    see(operation, answer("working", task_id=TASK, at=clock.now() + timedelta(days=300)), "webhook")
    assert see(operation, answer("submitted", task_id=TASK, at=clock.now()), "webhook").outcome == "applied"


@pytest.mark.parametrize("told", PENDING)
def test_overdue_stays_a_persons_until_the_end_comes(told: str) -> None:
    operation = stand(S.TIMED_OUT)

    assert see(operation, answer(told, task_id=TASK), "poll").outcome == "indeterminate"
    assert fresh(operation).status == S.TIMED_OUT
    assert fresh(operation).next_poll_at is not None


def test_an_end_after_giving_up_is_published_again() -> None:
    operation = stand(S.TIMED_OUT, settled_at=NOW, published_at=NOW)

    see(operation, answer("completed", task_id=TASK), "webhook")

    operation = fresh(operation)
    assert (operation.status, operation.published_at) == (S.COMPLETED, None)
    assert operation.overdue_at is not None, "so that it goes to a person"


def test_a_reply_that_fails_after_the_deadline_is_not_sent_again() -> None:
    operation = stand(S.TIMED_OUT, task_id="")

    assert see(operation, silent()).outcome == "indeterminate"
    assert fresh(operation).send_at is None


def test_a_webhook_faster_than_the_reply_is_not_undone_by_it() -> None:
    operation = stand(S.CALLING_ADCP, send_at=clock.now())
    see(operation, answer("working", task_id=TASK), "webhook")

    for seen in (silent(), failed("SERVICE_UNAVAILABLE", "transient"), crashed()):
        assert see(operation, seen).outcome == "indeterminate"

    operation = fresh(operation)
    assert (operation.status, operation.send_at) == (S.WORKING, None)
    assert operation.next_poll_at is not None


@pytest.mark.parametrize("channel", ["reply", "poll", "webhook"])
@pytest.mark.parametrize("seen", [answer("completed"), silent(), not_sent(), unknown()])
def test_nothing_moves_what_was_not_sent(seen: Seen, channel: str) -> None:
    operation = ask(held=True)

    assert see(operation, seen, channel).outcome == "conflict"
    assert (fresh(operation).status, fresh(operation).send_at) == (S.REQUESTED, None)


def test_who_is_told_that_a_task_was_bound_and_when(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str]] = []
    operation = stand(S.CALLING_ADCP)
    monkeypatch.setattr(converge, "_bound", [])
    converge.on_bound(lambda bound: told.append((bound.reference, bound.task_id)))

    see(operation, answer("submitted", task_id=TASK))
    see(operation, answer("working", task_id=TASK), "poll")

    assert told == [(operation.reference, TASK)]


def test_a_long_message_is_cut_and_kept_whole_in_the_observation() -> None:
    operation = stand(S.CALLING_ADCP)
    told = "x" * 100_000

    observation = see(operation, answer("completed", message=told, raw={"message": told}))

    assert len(fresh(operation).message) == 2000
    assert observation.body == {"message": told}


def _stored(operation: Operation) -> dict[str, Any]:
    return Operation.objects.filter(pk=operation.pk).values().get()


def _as_made(error: Any) -> Any:
    """The error that `stand` settles with."""
    return type(error)(code=error.code, recovery=error.recovery)
