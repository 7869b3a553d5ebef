"""Whether a step is tried again: a pure decision, bounded by its budgets (document 003, "Retry and Failure
Budget Policy")."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import partial

BACKOFF_FIRST_S, BACKOFF_CAP_S = 1, 30


class Code(StrEnum):
    """Why it was decided so: the reason codes of the trail."""

    SCHEDULED = "retry_scheduled"
    ATTEMPTS_EXHAUSTED = "attempt_budget_exhausted"
    FAILURES_EXHAUSTED = "failure_budget_exhausted"
    SUCCEEDED = "retry_succeeded"
    OVER = "retry_state_terminal"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """`max_attempts`: tries that may end without a result, by an error or with their worker; `max_failures`:
    those that may end in an error."""

    max_attempts: int = 3
    max_failures: int = 3


@dataclass(frozen=True, kw_only=True)
class Decision:
    """`delay`: how long to wait before the next try; None where there is none. `attempts` and `failures` are
    those that were counted, `budget` what they were held against."""

    code: Code
    attempts: int
    failures: int
    budget: Budget
    delay: timedelta | None = None

    @property
    def again(self) -> bool:
        return self.delay is not None

    def as_event(self) -> dict[str, int | float]:
        """The metadata of an event of this decision; `delay_s`, in seconds, where it is tried again."""
        told: dict[str, int | float] = {
            "attempts": self.attempts,
            "failures": self.failures,
            "max_attempts": self.budget.max_attempts,
            "max_failures": self.budget.max_failures,
        }
        return told if self.delay is None else {**told, "delay_s": self.delay.total_seconds()}


def decide(*, attempts: int, failures: int, budget: Budget, over: bool = False) -> Decision:
    """What follows when a try has ended without a result, `attempts` in all, `failures` of them in an error.

    `over`: the step has ended already; it is never tried again.
    """
    decided = partial(Decision, attempts=attempts, failures=failures, budget=budget)
    if over:
        return decided(code=Code.OVER)
    if attempts >= budget.max_attempts:
        return decided(code=Code.ATTEMPTS_EXHAUSTED)
    if failures >= budget.max_failures:
        return decided(code=Code.FAILURES_EXHAUSTED)
    seconds = min(BACKOFF_FIRST_S * 2.0 ** min(max(failures - 1, 0), 10), BACKOFF_CAP_S)
    return decided(code=Code.SCHEDULED, delay=timedelta(seconds=seconds))
