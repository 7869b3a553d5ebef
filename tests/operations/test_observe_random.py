"""Whatever a seller says, in whatever order and by whatever channel: the operation stays sound."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
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
from tests.operations.making import ask, fresh, see

pytestmark = pytest.mark.django_db
START = datetime(2026, 9, 1, 12, tzinfo=UTC)

codes = st.sampled_from(
    [
        "IDEMPOTENCY_IN_FLIGHT",
        "IDEMPOTENCY_EXPIRED",
        "RATE_LIMITED",
        "VALIDATION_ERROR",
        "X_FLIGHTDECK_TOOL_ERROR",
    ]
)
wire_errors = st.builds(
    WireError,
    code=codes,
    message=st.text(max_size=5),
    recovery=st.sampled_from(["transient", "correctable", "terminal", None]),
    retry_after=st.sampled_from([None, 1.0, 3600.0]),
)
payloads = st.none() | st.dictionaries(
    st.sampled_from(["media_buy_id", "n"]), st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
told = {
    "task_id": st.sampled_from([None, "", "t-1", "t-1", "t-1", "t-2", "t" * 300]),
    "a2a_task_id": st.sampled_from([None, "a-1", "a" * 300]),
    "message": st.none() | st.text(alphabet=st.characters(exclude_characters="\x00"), max_size=20),
    "payload": payloads,
    "at": st.none()
    | st.integers(-100, 100).map(lambda s: START + timedelta(seconds=s))
    | st.sampled_from(
        [
            datetime.fromisoformat("9999-12-31T23:59:59-12:00"),
            datetime.fromisoformat("0001-01-01T00:00:00+14:00"),
        ]
    ),
    "retry_after": st.sampled_from([None, 5.0]),
}
answers = st.builds(
    Seen,
    kind=st.just("answer"),
    status=st.sampled_from([*sorted(TASK_STATUSES), *["submitted", "working", "input-required"] * 3]),
    raw_status=st.text(alphabet="abc", max_size=100),
    error=st.none() | wire_errors,
    **told,
)
others = st.builds(
    Seen,
    kind=st.sampled_from(["no_answer", "garbled", "not_sent"]),
    error=wire_errors,
    request_left=st.booleans(),
)
sightings = st.tuples(st.one_of(answers, answers, others), st.sampled_from(["reply", "poll", "webhook"]))
nothing_said = st.sampled_from(["send", "send", "time passes"])
steps = st.lists(st.one_of(*[sightings] * 7, nothing_said), min_size=6, max_size=14)
# Most begin with the call; before it nothing may move the operation.
stories = st.one_of(*[steps.map(lambda story: ["send", *story])] * 5, steps)


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(task_type=st.sampled_from(["create_media_buy", "get_products"]), story=stories)
def test_any_story_keeps_the_operation_sound(task_type: str, story: list[Any]) -> None:
    operation = ask(task_type)
    end: tuple[Any, ...] | None = None
    now = START
    with clock.injected(lambda: now):
        for step in story:
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
        assert (operation.send_at, operation.next_poll_at, operation.lease_until) == (None, None, None)


def _trail_is_declared(operation: Operation) -> None:
    edges = lifecycle("operation").edges
    for entry in AuditEntry.objects.filter(entity_type="operation", entity_id=operation.pk, seq__gt=1):
        assert (entry.from_status, entry.to_status) in edges
    assert verify_entity("operation", operation.pk).ok
