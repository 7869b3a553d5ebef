"""What an answer leads to after what was seen before it: another end, calling again, a lost key.

As a table, without a database: what was observed before is told by `Before`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tasks_app.adcp.types import Seen, WireError
from tasks_app.operations.judging import why_of
from tasks_app.operations.lookup import NOT_FOUND
from tasks_app.operations.models import SETTLED, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tests.operations.making import TASK, answer, crashed, failed, garbled, not_sent, silent, unknown
from tests.operations.test_verdicts import NOW, _at_noon, stands, verdict

pytestmark = pytest.mark.deep

__all__ = ["_at_noon"]


class Before:
    """What was observed before, as the table of observations tells it, the oldest first."""

    def __init__(self, rows: list[Observation]) -> None:
        self.rows = rows

    def filter(self, **wanted: Any) -> Before:
        return Before(
            [row for row in self.rows if all(getattr(row, name) == value for name, value in wanted.items())]
        )

    def order_by(self, order: str) -> Before:
        assert order == "-id"
        return Before(self.rows[::-1])

    def first(self) -> Observation | None:
        return self.rows[0] if self.rows else None

    def count(self) -> int:
        return len(self.rows)


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> list[Observation]:
    """What was seen of every operation before; empty, to be filled."""
    rows: list[Observation] = []
    monkeypatch.setattr(Operation, "observations", Before(rows))
    return rows


def observed(times: int = 1, **columns: Any) -> list[Observation]:
    told = {"channel": "reply", "outcome": "indeterminate", "digest": "another", **columns}
    return [Observation(**told) for _ in range(times)]


@pytest.mark.parametrize("end", SETTLED)
def test_after_the_end_another_answer_is_the_same_or_a_contradiction(
    before: list[Observation], end: str
) -> None:
    operation = stands(end)
    told = verdict(operation, answer("working"))
    assert (told.outcome, told.to, told.note, told.changes) == ("stale", None, "already settled", None)

    conflict = ("conflict", None, f"settled as {end}, now told {end} differently", None)
    told = verdict(operation, answer(end))
    assert (told.outcome, told.to, told.note, told.changes) == conflict, "nobody knows what ended it"
    before += observed(outcome="applied", status="working", digest="digest")
    assert verdict(operation, answer(end)).outcome == "conflict", "that was no end"
    before += observed(outcome="applied", status=end)
    before += observed(outcome="conflict", status=end, digest="digest")
    told = verdict(operation, answer(end))
    assert (told.outcome, told.to, told.note, told.changes) == conflict
    other = "failed" if end != "failed" else "canceled"
    assert verdict(operation, answer(other)).note == f"settled as {end}, now told {other} differently"
    before += observed(outcome="applied", status=end, digest="digest")
    told = verdict(operation, answer(end))
    assert (told.outcome, told.to, told.note, told.changes) == ("duplicate", None, "", None)


def test_an_end_without_its_result_and_one_with_it_are_one_end(before: list[Observation]) -> None:
    operation = stands(S.COMPLETED, result={"media_buy_id": "mb-1"})
    before += observed(outcome="applied", status="completed")
    told = verdict(operation, answer("completed", partial=True))
    assert (told.outcome, told.note, told.changes) == ("indeterminate", "completed, without the result", None)

    before[-1].partial = True
    told = verdict(operation, answer("completed"))
    assert (told.outcome, told.to, told.note) == ("applied", None, "the result that was missing")
    assert told.changes == {
        "next_poll_at": None,
        "publish_at": None,
        "result": {"media_buy_id": "mb-1", "packages": []},
    }
    assert verdict(operation, answer("completed", payload={"media_buy_id": "mb-2"})).outcome == "conflict"
    assert verdict(operation, answer("failed", partial=True)).outcome == "conflict"


@pytest.fixture
def acted(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Whether an earlier attempt may have had an effect."""
    told = {"it": False}

    def may_have_acted(operation: Operation, *, observing: bool = False) -> bool:
        assert (isinstance(operation, Operation), observing) == (True, True)
        return told["it"]

    monkeypatch.setattr("tasks_app.operations.judging.may_have_acted", may_have_acted)
    return told


READ, PURCHASE = "get_products", "create_media_buy"
BUSY, FLYING = failed("SERVICE_UNAVAILABLE", "transient"), failed("IDEMPOTENCY_IN_FLIGHT", "transient")


@pytest.mark.parametrize(
    ("task_type", "told", "may_have", "ends"),
    [
        (READ, silent(), False, True),
        (READ, BUSY, True, True),
        (READ, not_sent(), True, True),
        (READ, FLYING, False, False),
        (PURCHASE, silent(), False, False),
        (PURCHASE, garbled(), False, False),
        (PURCHASE, crashed(), False, False),
        (PURCHASE, unknown("perhaps"), False, False),
        (PURCHASE, not_sent(), False, True),
        (PURCHASE, not_sent(), True, False),
        (PURCHASE, BUSY, False, True),
        (PURCHASE, BUSY, True, False),
        (PURCHASE, FLYING, False, False),
    ],
)  # fmt: skip
def test_a_call_is_made_again_and_fails_only_where_nothing_can_have_happened(
    before: list[Observation], acted: dict[str, bool], task_type: str, told: Seen, may_have: bool, ends: bool
) -> None:
    acted["it"] = may_have
    operation = stands(S.CALLING_ADCP, task_id="", task_type=task_type, attempts=3)
    why = why_of(told) if told.error else "the seller says 'perhaps', which is not a task status"
    assert verdict(operation, told, "reply").note == why
    again = {"send_at": NOW + timedelta(seconds=4), "message": why}
    for earlier in (0, 1):
        assert len(before) == earlier
        found = verdict(operation, told, "reply")
        assert (found.outcome, found.to, found.changes) == ("indeterminate", None, again)
        before += observed()
    before += observed(5, channel="poll") + observed(5, outcome="stale")

    found = verdict(operation, told, "reply")

    if not ends:
        assert (found.outcome, found.to, found.note, found.changes) == ("indeterminate", None, why, again)
        return
    assert (found.outcome, found.to, found.note) == ("applied", S.FAILED, "after 3 attempts")
    assert (found.changes["message"], found.changes["settled_by"]) == (why, "reply")
    assert (found.changes["send_at"], found.changes["error"]["code"]) == (None, told.error.code)  # type: ignore[union-attr]


def test_a_seller_says_when_to_call_again_and_how_often_is_its_own(
    before: list[Observation], acted: dict[str, bool]
) -> None:
    operation = stands(S.CALLING_ADCP, task_id="", task_type=READ, attempts=1)
    told = verdict(operation, failed("RATE_LIMITED", "transient", retry_after=40.0), "reply")
    assert told.changes["send_at"] == NOW + timedelta(seconds=40)
    operation.seller.timing = {"jitter": 0, "call_first_s": 7, "call_attempts": 1}
    assert verdict(operation, silent(), "reply").to == S.FAILED
    operation.task_type = PURCHASE
    assert verdict(operation, silent(), "reply").changes["send_at"] == NOW + timedelta(seconds=7)


@pytest.mark.parametrize(
    ("status", "task_id"), [(S.CALLING_ADCP, TASK), (S.TIMED_OUT, TASK), (S.TIMED_OUT, "")]
)
@pytest.mark.parametrize("told", [silent(), BUSY, crashed()])
def test_what_has_a_task_or_is_overdue_is_not_called_again(
    before: list[Observation], told: Seen, status: str, task_id: str
) -> None:
    found = verdict(stands(status, task_id=task_id), told, "reply")
    assert (found.outcome, found.to, found.note) == ("indeterminate", None, why_of(told))
    looks = {"next_poll_at": NOW + timedelta(seconds=900)} if task_id and status == S.TIMED_OUT else {}
    assert found.changes == {"send_at": None, **looks}


@pytest.mark.parametrize(
    "code", ["IDEMPOTENCY_EXPIRED", "IDEMPOTENCY_CONFLICT", "in words", "INVALID_REQUEST"]
)
@pytest.mark.parametrize("may_have", [True, False])
def test_a_lost_key_is_a_persons_where_it_may_have_been_bought(
    acted: dict[str, bool], code: str, may_have: bool
) -> None:
    acted["it"] = may_have
    details = {"in_words": True} if code == "in words" else {}
    error = WireError(code=code, message="No.", recovery="terminal", details=details)
    told = verdict(stands(S.CALLING_ADCP, task_id=""), answer("failed", error=error), "reply")
    if may_have and code != "INVALID_REQUEST":
        assert (told.outcome, told.to, told.note) == ("indeterminate", None, f"{code}: No.")
        assert told.changes == {"send_at": None, "deadline_at": NOW, "message": f"{code}: No."}
    else:
        assert (told.outcome, told.to) == ("applied", S.FAILED)
        assert told.changes["error"]["code"] == code


def test_looked_up_in_vain_it_stays_overdue() -> None:
    for found in (silent(), answer("unknown")):
        seen_there = Seen(kind=found.kind, status="unknown", raw_status=NOT_FOUND, error=found.error)
        told = verdict(stands(S.TIMED_OUT, task_id=""), seen_there, "reconcile")
        assert (told.outcome, told.to, told.note) == ("indeterminate", None, "nothing was found")
        assert told.changes == {"next_poll_at": None}
