"""What is measured in a round: each case starts what it needs, and ends it again."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial

from bench import memory
from bench.jobs import FANOUTS, ITEMS, JOBS, LONG, WAKEUPS, WIDE, marks, parties
from bench.jobs.recipes import WITH_WIDE
from bench.jobs.stage import Stage

Figures = dict[str, list[float]]
Case = Callable[[Stage], dict[str, float]]

SLICES = 2  # the chain without and with waiting jobs, in turn
DURABLE = tuple(name for name, durable in parties.PEERS.items() if durable)


def chain(stage: Stage, *, workers: int) -> dict[str, float]:
    """Everybody's chain, one after the other; our fan-out beside it, where there are four workers."""
    reached = {}
    with parties.flightdeck(stage, stage.env, workers) as (ours, _):
        reached[f"chain_{workers}"] = parties.our_rate(stage, ours, JOBS)
        if workers == 4:
            reached["fanout_ms"] = statistics.median(ours.ask("fanout", ITEMS)["ms"] for _ in range(FANOUTS))
    for name in parties.PEERS:
        reached[f"{name}_{workers}"] = parties.peer_rate(stage, name, workers, JOBS)
    return reached


def waiting(stage: Stage) -> dict[str, float]:
    """Our chain without and with jobs that wait, in slices that take turns."""
    rates: dict[str, list[float]] = {"without_waiting_1": [], "with_waiting_1": []}
    with (
        parties.flightdeck(stage, stage.env, 1) as (plain, _),
        parties.flightdeck(stage, stage.waiting_env, 1) as (crowded, _),
    ):
        for _ in range(SLICES):
            rates["without_waiting_1"].append(parties.our_rate(stage, plain, JOBS // SLICES))
            rates["with_waiting_1"].append(parties.our_rate(stage, crowded, JOBS // SLICES))
    return {name: statistics.mean(values) for name, values in rates.items()}


def linearity(stage: Stage) -> dict[str, float]:
    """One worker: a hundred jobs of a hundred steps, and one of ten thousand, of the same shape."""
    reached = {}
    with parties.flightdeck(stage, {**stage.env, WITH_WIDE: "1"}, 1) as (ours, _):
        for name, order in (("steps_of_100", ("long", WIDE)), ("steps_of_10000", ("wide",))):
            stage.marks.clear()
            ours.ask(*order)
            reached[name] = marks.rate(stage.marks.wait(WIDE * LONG))
            parties.completed(ours)
    return reached


def idle(stage: Stage) -> dict[str, float]:
    """The cluster as delivered: how fast it wakes up, and what it holds in memory afterwards."""
    with parties.flightdeck(stage, stage.env, None) as (ours, pid):
        stage.marks.clear()
        told = ours.ask("wakeups", WAKEUPS)
        from_commit, from_call = told["from_commit_ms"], told["from_call_ms"]
        return {
            "wakeup_p50_ms": statistics.median(from_commit),
            "wakeup_p99_ms": statistics.quantiles(from_commit, n=100)[98],
            "wakeup_from_call_p50_ms": statistics.median(from_call),
            "worker_pss_mb": memory.tree_mb(pid, memory.proportional),
        }


def ratios(latest: dict[str, float]) -> dict[str, float]:
    """What one round's figures come to beside each other."""
    told = {}
    for workers in (1, 4):
        ours = latest[f"chain_{workers}"]
        told[f"vs_best_durable_{workers}"] = ours / max(latest[f"{name}_{workers}"] for name in DURABLE)
        told[f"vs_celery_{workers}"] = ours / latest[f"celery_{workers}"]
    told["linearity"] = latest["steps_of_100"] / latest["steps_of_10000"]
    told["waiting_ratio"] = latest["with_waiting_1"] / latest["without_waiting_1"]
    return told


ALL: tuple[Case, ...] = (
    partial(chain, workers=1),
    partial(chain, workers=4),
    waiting,
    linearity,
    idle,
)
