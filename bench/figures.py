"""The ratios that have a bound, and how the benches print and combine what they measure.

Machines differ threefold from day to day. Only a ratio to something that runs in the same minute has a
bound; other figures describe one machine.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

ROUNDS = int(os.environ.get("ROUNDS") or 3)


@dataclass(frozen=True)
class Bound:
    """A limit of one ratio.

    Attributes:
        least: The ratio has to reach it; None if it has an upper limit.
        most: The ratio must not exceed it; None if it has a lower limit.
        what: Ours to what.
    """

    what: str
    least: float | None = None
    most: float | None = None

    def holds(self, value: float) -> bool:
        """Return whether a value, as printed, is within the bound."""
        shown = round(value, 2)
        return shown >= self.least if self.least is not None else shown <= (self.most or 0)

    def __str__(self) -> str:
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"


_LIST = "95th percentile of {}, to that of a stock ModelAdmin list"
BOUNDS = {
    "bookings_cost_ratio": Bound("processor time per booked deal, to that of BEFORE", most=0.5),
    "ratio_1": Bound("status changes a second, to the same statements by psycopg", least=1),
    "fsm_log_ratio_1": Bound("status changes a second, to django-fsm with django-fsm-log", least=2),
    "vs_best_durable_1": Bound(
        "steps a second with 1 worker, to the better of DBOS and Procrastinate", least=1
    ),
    "vs_best_durable_4": Bound("the same with 4 workers", least=1),
    "webhook_ratio": Bound("webhooks taken in a second, to a view with HMAC and one insert", least=0.7),
    "poll_overhead": Bound("time of a poll, to a bare client's", most=1.5),
    "queue_ratio": Bound(_LIST.format("the approvals queue"), most=6),
    "today_ratio": Bound(_LIST.format("Today"), most=6),
    "campaign_ratio": Bound(_LIST.format("a campaign's page"), most=6),
    "search_ratio": Bound(_LIST.format("a search"), most=3),
    "decide_ratio": Bound(_LIST.format("a decision"), most=3),
}


class Figures:
    """What the rounds of a bench measure."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def add(self, name: str, value: float) -> None:
        """Keep and print one value of one round."""
        values = self._values.setdefault(name, [])
        values.append(value)
        print(f"   round {len(values)}: {name:<28}{value:>12,.2f}", flush=True)

    def last(self, name: str) -> float:
        """Return the value of the current round."""
        return self._values[name][-1]

    def tell(self, *names: str) -> None:
        """Print the median, least and greatest value of each name, then the medians as one line of JSON."""
        results = {name: round(statistics.median(self._values[name]), 2) for name in names}
        print(f"\n{'':<28}{'min':>12}{'median':>12}{'max':>12}")
        for name in names:
            values = self._values[name]
            print(f"{name:<28}{min(values):>12,.2f}{results[name]:>12,.2f}{max(values):>12,.2f}")
        print(table(results))
        print(json.dumps(results), flush=True)


def broken(results: Mapping[str, float]) -> list[str]:
    """Return the names of the ratios that are outside their bounds."""
    return [name for name, bound in BOUNDS.items() if name in results and not bound.holds(results[name])]


def table(results: Mapping[str, float]) -> str:
    """Return the ratios with their bounds, a line each."""
    return "\n".join(
        f"{name:<22}{results[name]:>8.2f}   {bound!s:<14}"
        f"{'holds' if bound.holds(results[name]) else 'BROKEN':<8}{bound.what}"
        for name, bound in BOUNDS.items()
        if name in results
    )
