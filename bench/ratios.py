"""What every ratio must hold, and whether it does.

Machines differ by a factor of three from day to day, and one machine from hour to hour: a figure is compared
with something that ran beside it in the same rounds, and only that ratio has a limit. Milliseconds and rates
are printed too, as trends of one machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    """`least`: the ratio has to reach the bound, else it may not pass it. `what`: ours to what."""

    bound: float
    what: str
    least: bool = False

    def holds(self, value: float) -> bool:
        """As printed: two digits."""
        told = round(value, 2)
        return told >= self.bound if self.least else told <= self.bound

    def words(self) -> str:
        return f"{'at least' if self.least else 'at most'} {self.bound:g}"


def _least(bound: float, what: str) -> Limit:
    return Limit(bound=bound, what=what, least=True)


def _most(bound: float, what: str) -> Limit:
    return Limit(bound=bound, what=what)


_STOCK = "p95 of {}, to that of Django’s own list of 25 rows"
LIMITS: dict[str, Limit] = {
    # bench.transitions
    "ratio_1": _least(1, "moves a second, to psycopg’s that writes the same rows, 1 process"),
    "ratio_4": _least(1, "the same, 4 processes"),
    "ratio_changes_1": _least(1, "the same with other columns changed, 1 process"),
    "ratio_many": _least(15, "rows a second of transition_many, to the same reference’s moves"),
    "fsm_log_ratio_1": _least(2, "moves a second, to django-fsm-log’s, 1 process"),
    "verify_ratio": _least(0.5, "entries verified a second, to reading and hashing the same bytes"),
    # bench.operations
    "webhook_ratio": _least(0.7, "webhooks taken a second, to a view that checks the HMAC and inserts"),
    "poll_overhead": _most(1.2, "time of the polls, to a bare client’s of the same calls"),
    "claim_ratio": _most(2, "time of a claim, to a bare SKIP LOCKED claim of as many rows"),
    "flood_page_ratio": _most(2, "p95 of a page in a flood, to the same flood answered before Django"),
    "flood_webhook_ratio": _most(2, "the same of a webhook"),
    "hostile_body_ratio": _most(2, "p50 of a delivery full of our secrets, to that of one of as many bytes"),
    "hostile_growth": _most(1.5, "time of hiding a byte of a large body, to that of a sixteenth of it"),
    "stream_end_ratio": _most(1, "longest time from a login’s end to its stream’s, to the five seconds"),
    # bench.jobs
    "vs_best_durable_1": _least(2, "steps a second, to the best durable engine’s, 1 worker"),
    "vs_best_durable_4": _least(2, "the same, 4 workers"),
    "wakeup_ratio": _most(1, "p50 from commit to a step’s first line, to Procrastinate’s"),
    "fanout_ratio": _least(1.5, "the best durable engine’s time for a fan-out, one step a worker, to ours"),
    "linearity": _most(1.1, "time of a step of one job of 10,000, to that of a hundred jobs of 100"),
    "waiting_ratio": _least(0.95, "steps a second beside 100,000 jobs that wait, to without"),
    # bench.pages: the median of three runs × 1.25, in tenths, the rest left out
    "queue_ratio": _most(7.1, _STOCK.format("the approvals queue")),
    "dashboard_ratio": _most(9.9, _STOCK.format("today")),
    "search_ratio": _most(2.5, _STOCK.format("a search")),
    "campaign_ratio": _most(6.8, _STOCK.format("a campaign’s page")),
    "decide_ratio": _most(2.1, _STOCK.format("a decision")),
}


def broken(told: Mapping[str, float]) -> list[str]:
    """The names of those that do not hold, of what a bench told."""
    return [name for name, limit in LIMITS.items() if name in told and not limit.holds(told[name])]


def table(told: Mapping[str, float]) -> str:
    """Every ratio that was told, with its limit and whether it holds; one line each."""
    failed = broken(told)
    return "\n".join(
        f"{name:<22}{told[name]:>8.2f}   {limit.words():<14}"
        f"{'DOES NOT HOLD' if name in failed else 'holds':<15}{limit.what}"
        for name, limit in LIMITS.items()
        if name in told
    )
