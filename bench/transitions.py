"""How fast a status changes with everything on, beside others doing the same: `make bench-transitions`.

In one interleaved run of three rounds on a private embedded PostgreSQL (fsync and synchronous_commit on):
`transition()` as the application's role; psycopg with prepared statements and no triggers, statement by
statement; django-fsm-2 with django-fsm-log. Each with one process and with four, every process walking deals
of its own, in short slices that take turns; moves that write two more columns, and `transition_many` on
10,000 rows among them. Last the
verification of what all that left behind, beside reading and hashing the same bytes. Prints a table of min /
median / max, the ratios with their limits, and one JSON line; machines are noisy, so read the ratios.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from typing import Any

from bench import parties, ratios, stage
from config.supervisor import BASE_DIR

ROUNDS = int(os.environ.get("ROUNDS") or 3)
# A round is so many slices of each party in turn: what else the machine does meets all of them alike.
SLICES = 16
MANY_SLICES = 4
SECONDS = 0.3
_ENTRIES = 200_000
Figures = dict[str, list[float]]


class Worker:
    """One process of a party; idle unless it was told something."""

    def __init__(self, party: str, number: int, env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.parties", party, str(number)],
            cwd=BASE_DIR,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, order: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 - a pipe, as it was started
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a process of the bench ended; the lines above say why")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self._process.communicate()


def main() -> int:
    figures: Figures = {}
    with stage.opened() as on, ExitStack() as closing:
        _say(f"== {on.server}; {os.cpu_count()} cores, Python {sys.version.split()[0]}")
        workers = {name: _workers(name, on.env, closing) for name in parties.PARTIES}
        workers["ours"][0].tell("many")
        workers["ours"][0].answer()  # warm as the others are
        for number in range(ROUNDS):
            _round(number, workers, figures)
        _enlarge(workers["ours"][0], on.env)
        for number in range(ROUNDS):
            _verification(number, on.env, figures)
    _tables(figures)
    told = _summary(figures)
    print(ratios.table(told))
    print(json.dumps(told))
    return 0


def _workers(name: str, env: dict[str, str], closing: ExitStack) -> list[Worker]:
    _say(f"== starting {stage.PROCESSES} processes of {name}")
    started = [Worker(name, number, env) for number in range(stage.PROCESSES)]
    for worker in started:
        closing.callback(worker.close)
    for worker in started:
        worker.answer()
    return started


def _round(number: int, workers: dict[str, list[Worker]], figures: Figures) -> None:
    reference = workers["reference"][:1]
    alone = {f"{name}_1": (team[:1], _RUN) for name, team in workers.items()}
    together = {f"{name}_{len(team)}": (team, _RUN) for name, team in workers.items()}
    many = {"many": (workers["ours"][:1], "many"), "reference_beside_many": (reference, _RUN)}
    changed = {f"{name}_changes_1": (workers[name][:1], _CHANGES) for name in ("ours", "reference")}
    for group, slices in ((alone, SLICES), (together, SLICES), (changed, SLICES), (many, MANY_SLICES)):
        for name, rate in _interleaved(group, slices, shift=number).items():
            figures.setdefault(name, []).append(rate)
            _say(f"   round {number + 1}: {name:<22}{rate:>10,.0f}/s")
    for key, own, other in _RATIOS:
        figures.setdefault(key, []).append(figures[own][-1] / figures[other][-1])


def _interleaved(group: dict[str, tuple[list[Worker], str]], slices: int, *, shift: int) -> dict[str, float]:
    """Moves per second of each, over all its slices."""
    names, done = list(group), {name: [0.0, 0.0] for name in group}
    for turn in range(shift, shift + slices):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            moves, seconds = _slice(*group[name])
            done[name][0] += moves
            done[name][1] += seconds
    return {name: moves / seconds for name, (moves, seconds) in done.items()}


def _slice(workers: list[Worker], order: str) -> tuple[float, float]:
    """Moves of all together, and the seconds they took."""
    for worker in workers:
        worker.tell(order)
    answers = [worker.answer() for worker in workers]
    return sum(a["moves"] for a in answers), statistics.mean(a["seconds"] for a in answers)


_RUN, _CHANGES = f"run {SECONDS}", f"changes {SECONDS}"
_RATIOS = (
    ("ratio_1", "ours_1", "reference_1"),
    ("ratio_4", "ours_4", "reference_4"),
    ("ratio_many", "many", "reference_beside_many"),
    ("fsm_log_ratio_1", "ours_1", "fsm_log_1"),
    ("fsm_log_ratio_4", "ours_4", "fsm_log_4"),
    ("ratio_changes_1", "ours_changes_1", "reference_changes_1"),
)


def _enlarge(worker: Worker, env: dict[str, str]) -> None:
    """More set-based moves, until there is enough to verify."""
    import psycopg

    with psycopg.connect(env["DATABASE_URL"]) as connection:
        row = connection.execute("select count(*) from tasks_app_auditentry").fetchone()
    for _ in range(-(-max(0, _ENTRIES - row[0]) // parties.MANY) if row else 0):
        worker.tell("many")
        worker.answer()


def _verification(number: int, env: dict[str, str], figures: Figures) -> None:
    command = [sys.executable, "-m", "bench.verification", str(number)]
    done = subprocess.run(command, check=True, cwd=BASE_DIR, env=env, stdout=subprocess.PIPE, text=True)
    told = json.loads(done.stdout)
    if told["broken"]:
        raise SystemExit(f"{told['broken']} of the bench's own deals do not verify, or were not read")
    rate = told["entries"] / told["seconds"]
    figures.setdefault("verify_per_s", []).append(rate)
    figures.setdefault("verify_ratio", []).append(told["ratio"])
    figures.setdefault("verify_rss_mb", []).append(told["rss_mb"])
    what = f"{told['entries']:,} entries verified"
    beside = f"{told['ratio']:.2f} of only hashing"
    _say(f"   round {number + 1}: {what} {rate:>10,.0f}/s, {beside}, {told['rss_mb']:.0f} MB")


def _tables(figures: Figures) -> None:
    print(f"\n{'':<24}{'min':>12}{'median':>12}{'max':>12}")
    for name, values in figures.items():
        told = (min(values), statistics.median(values), max(values))
        form = ",.2f" if "ratio" in name else ",.0f"
        print(f"{name:<24}" + "".join(f"{format(value, form):>12}" for value in told))


def _summary(figures: Figures) -> dict[str, float]:
    keys = (*(key for key, _, _ in _RATIOS), "verify_ratio", "verify_per_s", "verify_rss_mb")
    return {key: round(statistics.median(figures[key]), 2) for key in keys}


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
