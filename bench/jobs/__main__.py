"""How fast jobs run, beside others doing the same: `make bench-jobs`; ROUNDS=1 for a look.

On a private embedded PostgreSQL (fsync and synchronous_commit on), three interleaved rounds. The product's
own worker cluster (`manage.py worker`), audit and events on, beside DBOS, Procrastinate and plain django-q2,
each in a database of its own on that server. Everybody runs the same trivial step, which notes the moment;
rates are taken from the first step to the last, of jobs that are all there before the first begins. How each
peer is set up stands in its module.

- `chain_n`: steps per second of 10-step chains with n workers; `vs_best_durable_n`: to the best of theirs;
- `wakeup_p50_ms`, `wakeup_p99_ms`: from an idle job's commit to its action's start, the cluster as delivered;
  `wakeup_ratio`: to the p50 of a Procrastinate worker, a few of ours and of its in turn;
- `fanout_ms`: 100 parallel steps of 10 ms with 4 workers, from the call that starts the job to its COMPLETED;
  `fanout_ratio`: the time of the best durable engine to ours, one fan-out of either in turn, its workers one
  step at a time, as in the chain; `fanout_aside_ratio`: the same, its workers told to do 16 at a time;
- `linearity`: a step of one 10,000-step job to a step of a hundred 100-step ones, in time;
- `waiting_ratio`: chain_1 beside 100,000 jobs that wait, to chain_1 without;
- `worker_pss_mb`: proportional memory of the cluster as delivered, after work.

Prints a table of min / median / max, the ratios with their limits, and one JSON line; machines are noisy, so
read the ratios.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time

from bench import ratios
from bench.jobs import WAITING, cases, marks, orders, parties, stage
from config.processes import ProcessError, interruptible

ROUNDS = 3
KEYS = (
    "chain_1",
    "chain_4",
    "vs_best_durable_1",
    "vs_best_durable_4",
    "wakeup_ratio",
    "fanout_ratio",
    "fanout_aside_ratio",
    "wakeup_p50_ms",
    "wakeup_p99_ms",
    "fanout_ms",
    "linearity",
    "waiting_ratio",
    "worker_pss_mb",
)


def main() -> int:
    rounds = int(os.environ.get("ROUNDS") or ROUNDS)
    figures: cases.Figures = {}
    began = time.monotonic()
    try:
        with interruptible(), stage.opened(parties.PEERS, waiting=WAITING) as on:
            _say(f"== {on.words}; {os.cpu_count()} cores, Python {sys.version.split()[0]}")
            parties.prepare(on)
            for number in range(rounds):
                _round(on, number, figures)
    except KeyboardInterrupt:
        return 130
    except (marks.StandstillError, orders.EndedError, ProcessError) as error:
        print(f"bench: {error}; see var/{stage.NAME}.log", file=sys.stderr)
        return 1
    _table(figures)
    _say(f"{time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}")
    told = {key: round(statistics.median(figures[key]), 2) for key in KEYS}
    print(ratios.table(told))
    print(json.dumps(told))
    return 0


def _round(on: stage.Stage, number: int, figures: cases.Figures) -> None:
    turn = number % len(cases.ALL)
    for case in cases.ALL[turn:] + cases.ALL[:turn]:
        for name, value in case(on).items():
            figures.setdefault(name, []).append(value)
            _say(f"   round {number + 1}: {name:<28}{value:>12,.2f}")
    for name, value in cases.ratios({name: values[-1] for name, values in figures.items()}).items():
        figures.setdefault(name, []).append(value)


def _table(figures: cases.Figures) -> None:
    print(f"\n{'':<28}{'min':>12}{'median':>12}{'max':>12}")
    for name, values in figures.items():
        told = (min(values), statistics.median(values), max(values))
        form = ",.2f" if told[1] < 100 else ",.0f"
        print(f"{name:<28}" + "".join(f"{format(value, form):>12}" for value in told))


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
