"""Whatever a seller says, in whatever order and by whatever channel: the operation stays sound."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks_app import clock
from tasks_app.adcp.types import TASK_STATUSES, Seen, WireError
from tasks_app.lifecycle.declarations import lifecycle
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import SETTLED, Operation
from tasks_app.operations.models import OperationStatus as S
from tests.operations.making import TASK, ask, fresh, leased_until, see, stand
from tests.rounds import rounds

pytestmark = pytest.mark.django_db
START = datetime(2026, 9, 1, 12, tzinfo=UTC)

CODES = (
    "IDEMPOTENCY_IN_FLIGHT",
    "IDEMPOTENCY_EXPIRED",
    "RATE_LIMITED",
    "VALIDATION_ERROR",
    "X_FLIGHTDECK_TOOL_ERROR",
)
PENDING_WORDS = ("submitted", "working", "input-required", "auth-required")
MAD_CLOCKS = ("9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00")


def error(rng: Random) -> WireError:
    return WireError(
        code=rng.choice(CODES),
        message=rng.choice(["", "no"]),
        recovery=rng.choice(["transient", "correctable", "terminal", None]),
        retry_after=rng.choice([None, 1.0, 3600.0]),
    )


def told_at(rng: Random) -> datetime | None:
    moments = [
        None,
        START + timedelta(seconds=rng.randint(-100, 100)),
        datetime.fromisoformat(rng.choice(MAD_CLOCKS)),
    ]
    return rng.choice(moments)


def answer(rng: Random, task: str) -> Seen:
    return Seen(
        kind="answer",
        status=rng.choice([*sorted(TASK_STATUSES), *PENDING_WORDS, *PENDING_WORDS]),
        raw_status="x" * rng.choice([1, 100]),
        task_id=rng.choice([None, task, task, task, "t-2", TASK, "t" * 300]),
        a2a_task_id=rng.choice([None, "a-1", "a" * 300]),
        message=rng.choice([None, "Wait.", "m" * 3000]),
        payload=rng.choice([None, {}, {"media_buy_id": "mb-1"}, {"n": 2**70}, {"n": 0.1}]),
        error=rng.choice([None, error(rng)]),
        at=told_at(rng),
        retry_after=rng.choice([None, 5.0]),
    )


def other(rng: Random) -> Seen:
    kind = rng.choice(["no_answer", "garbled", "not_sent"])
    left = kind != "not_sent" and rng.random() < 0.5
    return Seen(kind=kind, error=error(rng), request_left=left)  # type: ignore[arg-type]


def story(rng: Random, task: str) -> Iterator[Any]:
    """What happens to an operation: mostly it is sent, seen now and then, and time passes."""
    if rng.random() < 0.9:
        yield "send"
    for _ in range(rng.randint(4, 16)):
        what = rng.random()
        if what < 0.1:
            yield "time passes"
        elif what < 0.25:
            yield "send"
        else:
            seen = answer(rng, task) if rng.random() < 0.7 else other(rng)
            yield seen, rng.choice(["reply", "poll", "webhook"])


@settings(
    max_examples=rounds(16, 50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(task_type=st.sampled_from(["create_media_buy", "get_products"]), seed=st.integers(0, 2**32))
def test_any_story_keeps_the_operation_sound(task_type: str, seed: int) -> None:
    if not Operation.objects.filter(task_id=TASK).exists():
        stand(S.SUBMITTED)  # another operation's task, which the seller names too
    operation = ask(task_type)
    task = f"{operation.reference}-task"
    end: tuple[Any, ...] | None = None
    now = START
    with clock.injected(lambda: now):
        for step in story(Random(seed), task):  # noqa: S311 (no secret)
            now += timedelta(hours=30) if step == "time passes" else timedelta(seconds=1)
            _play(operation, step)
            found = fresh(operation)
            stands = (found.status, found.result, found.error, found.task_id, found.settled_by)
            assert end is None or stands == end, "an end never changes"
            end = stands if found.status in SETTLED else None
            _nothing_is_forgotten(found)
    _trail_is_declared(operation)


def _play(operation: Operation, step: Any) -> None:
    if step == "send":
        claim_one(operation_id=operation.pk)
    elif step == "time passes":
        time_out_due(limit=10)
    else:
        see(operation, *step)


def _nothing_is_forgotten(operation: Operation) -> None:
    """Whatever has not ended is due for something, or a person was asked."""
    if operation.status == S.REQUESTED:
        assert operation.send_at is not None
    elif operation.status not in (*SETTLED, S.TIMED_OUT):
        assert operation.deadline_at is not None
        looked_at = operation.next_poll_at is not None
        assert looked_at == bool(operation.task_id), "a known task is looked at, no other is"
        assert operation.send_at is None or not looked_at, "and no longer sent"
    elif operation.status in SETTLED:
        assert (operation.send_at, operation.next_poll_at, leased_until(operation)) == (None, None, None)


def _trail_is_declared(operation: Operation) -> None:
    edges = lifecycle("operation").edges
    for entry in AuditEntry.objects.filter(entity_type="operation", entity_id=operation.pk, seq__gt=1):
        assert (entry.from_status, entry.to_status) in edges
    assert verify_entity("operation", operation.pk).ok
