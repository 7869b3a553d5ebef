"""How a job stands in one word, as a table; and the critical path, without a database."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from tasks_app.jobs.critical import CriticalPath, Span, critical_path
from tasks_app.jobs.progress import workflow_status

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("at_work", "waiting", "come", "over", "told"),
    [
        (0, 0, 0, True, None),
        (1, 1, 1, True, None),  # whatever stands there still, it has ended
        (1, 0, 0, False, "RUNNING"),
        (1, 1, 0, False, "RUNNING"),
        (1, 2, 1, False, "RUNNING"),
        (0, 0, 0, False, "RUNNING"),  # between two steps
        (0, 1, 0, False, "WAITING_SINGLE"),
        (0, 2, 0, False, "WAITING_PARALLEL"),
        (0, 9, 0, False, "WAITING_PARALLEL"),
        (0, 1, 1, False, "READY_TO_RESUME"),
        (0, 3, 1, False, "READY_TO_RESUME"),
    ],
)
def test_workflow_status(at_work: int, waiting: int, come: int, over: bool, told: str | None) -> None:
    assert workflow_status(at_work=at_work, waiting=waiting, come=come, over=over) == told


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def one(name: int) -> uuid.UUID:
    return uuid.UUID(int=name)


def done(name: int, began: float, ended: float, *before: int) -> Span:
    return Span(id=one(name), before=tuple(map(one, before)), started=at(began), ended=at(ended))


def still(name: int, *before: int, expected: float | None = None) -> Span:
    left = None if expected is None else timedelta(minutes=expected)
    return Span(id=one(name), before=tuple(map(one, before)), expected=left)


def path(*spans: Span) -> tuple[list[int], CriticalPath]:
    found = critical_path(spans, NOW)
    return [step.int for step in found.steps], found


def test_of_what_is_done_the_latest_decides() -> None:
    steps, found = path(done(1, -60, -50), done(2, -50, -10, 1), done(3, -50, -40, 1), done(4, -10, -5, 2, 3))
    assert steps == [1, 2, 4]
    assert (found.measured, found.expected, found.unknown) == (timedelta(minutes=55), timedelta(), 0)


def test_of_what_is_open_the_latest_estimate_decides() -> None:
    steps, found = path(
        done(1, -60, -50), still(2, 1, expected=30), still(3, 1, expected=90), still(4, 2, 3, expected=5)
    )
    assert steps == [1, 3, 4]
    assert (found.measured, found.expected, found.unknown) == (
        timedelta(minutes=10),
        timedelta(minutes=95),
        0,
    )


def test_without_estimates_the_longer_chain_decides() -> None:
    steps, found = path(done(1, -60, -50), still(2, 1), still(3, 1), still(4, 3), still(5, 4), still(6, 2, 5))
    assert steps == [1, 3, 4, 5, 6]
    assert (found.measured, found.unknown) == (timedelta(minutes=10), 4)


def test_what_is_open_comes_after_what_is_done() -> None:
    assert path(done(1, -60, -1), still(2))[0] == [2]
    assert path(still(2), done(1, -60, -1))[0] == [2]


def test_what_was_left_out_is_no_predecessor_and_nothing_is_no_path() -> None:
    assert path(done(2, -5, -1, 1))[0] == [2]
    assert path() == ([], CriticalPath())


def test_a_chain_of_ten_thousand_is_no_recursion() -> None:
    spans = [still(n, *([n - 1] if n > 1 else [])) for n in range(1, 10_001)]
    assert len(critical_path(spans, NOW).steps) == 10_000
