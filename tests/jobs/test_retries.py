"""Document 003, "Retry Decision Matrix", as a table."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks_app.jobs.retries import BACKOFF_CAP_S, Budget, Code, decide

OVER = (Code.ATTEMPTS_EXHAUSTED, Code.FAILURES_EXHAUSTED, Code.OVER)


@pytest.mark.parametrize(
    ("attempts", "failures", "over", "code", "seconds"),
    [
        (1, 1, False, Code.SCHEDULED, 1),
        (2, 2, False, Code.SCHEDULED, 2),
        (2, 0, False, Code.SCHEDULED, 1),
        (3, 1, False, Code.ATTEMPTS_EXHAUSTED, None),
        (3, 3, False, Code.ATTEMPTS_EXHAUSTED, None),
        (1, 1, True, Code.OVER, None),
        (9, 9, True, Code.OVER, None),
    ],
)
def test_the_matrix(attempts: int, failures: int, over: bool, code: Code, seconds: int | None) -> None:
    decision = decide(attempts=attempts, failures=failures, budget=Budget(), over=over)
    delay = timedelta(seconds=seconds) if seconds is not None else None
    assert (decision.code, decision.delay) == (code, delay)
    assert (decision.attempts, decision.failures, decision.budget) == (attempts, failures, Budget())
    counted = {"attempts": attempts, "failures": failures, "max_attempts": 3, "max_failures": 3}
    assert decision.as_event() == (counted if seconds is None else {**counted, "delay_s": seconds})


def test_failures_have_a_budget_of_their_own() -> None:
    budget = Budget(max_attempts=9, max_failures=2)
    assert decide(attempts=2, failures=2, budget=budget).code == Code.FAILURES_EXHAUSTED
    assert decide(attempts=8, failures=1, budget=budget).again


def test_the_codes_are_the_documents() -> None:
    assert [str(code) for code in Code][:4] == [
        "retry_scheduled",
        "attempt_budget_exhausted",
        "failure_budget_exhausted",
        "retry_succeeded",
    ]


numbers = st.integers(0, 50)


@given(numbers, numbers, st.integers(1, 20), st.integers(1, 20), st.booleans())
def test_it_is_bounded_and_deterministic(
    attempts: int, failures: int, most: int, worst: int, over: bool
) -> None:
    budget = Budget(max_attempts=most, max_failures=worst)
    first = decide(attempts=attempts, failures=failures, budget=budget, over=over)
    assert first == decide(attempts=attempts, failures=failures, budget=budget, over=over)
    within = attempts < most and failures < worst and not over
    assert first.again == within == (first.code not in OVER)
    if first.delay is not None:
        assert timedelta(seconds=1) <= first.delay <= timedelta(seconds=BACKOFF_CAP_S)
