"""What is measured in a round: each case starts what it needs, and ends it again."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

from bench import memory
from bench.jobs import ASIDE, FANOUTS, ITEMS, JOBS, LONG, WAKEUPS, WAKEUPS_IN_TURN, WIDE, marks, parties
from bench.jobs.orders import Teller
from bench.jobs.recipes import WITH_WIDE
from bench.jobs.stage import Stage

Figures = dict[str, list[float]]
Case = Callable[[Stage], dict[str, float]]

SLICES = 2  # the chain without and with waiting jobs, in turn
CAN_ASIDE = ("dbos", "procrastinate")  # a worker of django-q2 is a process that does one task at a time


def chain(stage: Stage, *, workers: int) -> dict[str, float]:
    """Everybody's chain, one after the other."""
    with parties.flightdeck(stage, stage.env, workers) as (ours, _):
        reached = {f"chain_{workers}": parties.our_rate(stage, ours, JOBS)}
    for name in parties.PEERS:
        reached[f"{name}_{workers}"] = parties.peer_rate(stage, name, workers, JOBS)
    return reached


def fanouts(stage: Stage) -> dict[str, float]:
    """Our fan-out and each peer's, with four workers up on either side, in turn; those that can, told
    to do several naps at a time, once more."""
    reached, all_ours = {}, []
    told = [(name, name, 1) for name in parties.PEERS]
    told += [(f"{name}_aside", name, ASIDE) for name in CAN_ASIDE]
    with parties.flightdeck(stage, stage.env, 4) as (ours, _):
        for party, name, aside in told:
            with parties.peer(stage, name, 4, aside=aside) as tellers:
                for teller in tellers if name == "dbos" else ():
                    teller.ask("share")
                pairs = [(_fanout(ours), _fanout(tellers[0])) for _ in range(1 + FANOUTS)][1:]
            mine, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
            reached[f"{party}_fanout_ms"] = theirs
            reached[f"fanout_vs_{party}"] = theirs / mine
            all_ours += [ms for ms, _ in pairs]
    return {"fanout_ms": statistics.median(all_ours), **reached}


def _fanout(party: Teller) -> float:
    return float(party.ask("fanout", ITEMS)["ms"])


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
    """One worker: a hundred jobs of a hundred steps, and one of ten thousand, of the same shape. Half of the
    jobs run before the one and half after it, so that what slows down or speeds up meanwhile counts alike."""
    half = WIDE // 2
    with parties.flightdeck(stage, {**stage.env, WITH_WIDE: "1"}, 1) as (ours, _):
        before = _steps_per_s(stage, ours, half * LONG, "long", half)
        wide = _steps_per_s(stage, ours, WIDE * LONG, "wide")
        after = _steps_per_s(stage, ours, half * LONG, "long", half)
    return {"steps_of_100": statistics.harmonic_mean([before, after]), "steps_of_10000": wide}


def _steps_per_s(stage: Stage, ours: Teller, steps: int, *order: Any) -> float:
    stage.marks.clear()
    ours.ask(*order)
    rate = marks.rate(stage.marks.wait(steps))
    parties.completed(ours)
    return rate


def idle(stage: Stage) -> dict[str, float]:
    """The cluster as delivered: how fast it wakes up, in turn with Procrastinate's worker, and what it
    holds in memory afterwards."""
    ours: list[float] = []
    from_call: list[float] = []
    theirs: list[float] = []
    with (
        parties.flightdeck(stage, stage.env, None) as (teller, pid),
        parties.peer(stage, "procrastinate", 1) as (peer,),
    ):
        for _ in range(WAKEUPS // WAKEUPS_IN_TURN):
            told = teller.ask("wakeups", WAKEUPS_IN_TURN)
            ours += told["from_commit_ms"]
            from_call += told["from_call_ms"]
            theirs += peer.ask("wakeups", WAKEUPS_IN_TURN)["from_commit_ms"]
        return {
            "wakeup_p50_ms": statistics.median(ours),
            "wakeup_p99_ms": statistics.quantiles(ours, n=100)[98],
            "wakeup_from_call_p50_ms": statistics.median(from_call),
            "procrastinate_wakeup_p50_ms": statistics.median(theirs),
            "worker_pss_mb": memory.tree_mb(pid, memory.proportional),
        }


def ratios(latest: dict[str, float]) -> dict[str, float]:
    """What one round's figures come to beside each other."""
    told = {}
    for workers in (1, 4):
        ours = latest[f"chain_{workers}"]
        told[f"vs_best_durable_{workers}"] = ours / max(latest[f"{name}_{workers}"] for name in parties.PEERS)
    told["wakeup_ratio"] = latest["wakeup_p50_ms"] / latest["procrastinate_wakeup_p50_ms"]
    told["fanout_ratio"] = min(latest[f"fanout_vs_{name}"] for name in parties.PEERS)
    told["fanout_aside_ratio"] = min(latest[f"fanout_vs_{name}_aside"] for name in CAN_ASIDE)
    told["linearity"] = latest["steps_of_100"] / latest["steps_of_10000"]
    told["waiting_ratio"] = latest["with_waiting_1"] / latest["without_waiting_1"]
    return told


ALL: tuple[Case, ...] = (
    partial(chain, workers=1),
    partial(chain, workers=4),
    fanouts,
    waiting,
    linearity,
    idle,
)
