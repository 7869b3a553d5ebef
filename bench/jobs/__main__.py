"""How many durable steps run in a second: `make bench-jobs`.

Flightdeck's own worker cluster with audit and events, DBOS and Procrastinate each run chains of ten trivial
steps, with 1 and with 4 workers, each in a database of its own on one server. All chains are there before
the first step runs; the rate is taken from the first step to the last.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import child, server
from bench.figures import ROUNDS, Figures
from bench.jobs import marks

_JOBS, _WARM = 150, 30  # chains measured, and before that
_WORKERS = (1, 4)
_ENGINES = ("flightdeck", "dbos", "procrastinate")


def main() -> int:
    """Measure all engines in turn."""
    figures = Figures()
    with server.opened("bench", DJANGO_SETTINGS_MODULE="bench.jobs.settings") as on:
        path = server.VAR / "bench" / "marks"
        peers = {name: on.database(name) for name in _ENGINES[1:]}
        on.env[marks.VARIABLE] = str(path)
        for number in range(ROUNDS):
            for workers in _WORKERS:
                _round(on, path, peers, workers, number, figures)
    figures.tell(*(f"vs_best_durable_{workers}" for workers in _WORKERS), "flightdeck_1", "flightdeck_4")
    return 0


def _round(
    on: server.Server, path: Path, peers: dict[str, str], workers: int, number: int, figures: Figures
) -> None:
    turn = number % len(_ENGINES)
    for name in _ENGINES[turn:] + _ENGINES[:turn]:
        figures.add(f"{name}_{workers}", _rate(on, path, name, peers.get(name, ""), workers))
    best = max(figures.last(f"{name}_{workers}") for name in peers)
    figures.add(f"vs_best_durable_{workers}", figures.last(f"flightdeck_{workers}") / best)


def _rate(on: server.Server, path: Path, name: str, url: str, workers: int) -> float:
    """Return the steps a second of one engine."""
    on.env["PEER_DATABASE_URL"] = url
    with _flightdeck(on, workers) if name == "flightdeck" else _peer(on, name, workers) as starters:
        for jobs in (_WARM, _JOBS):
            marks.clear(path)
            share, more = divmod(jobs, len(starters))
            for number, starter in enumerate(starters):
                starter.tell("start", share + (number < more))
            for starter in starters:
                starter.answer()
            rate = marks.rate(path, jobs * marks.CHAIN)
            for starter in starters:
                starter.ask("ended")
    return rate


@contextmanager
def _flightdeck(on: server.Server, workers: int) -> Iterator[list[child.Child]]:
    commands = {"worker": [sys.executable, "manage.py", "worker"]}
    with (
        server.processes(on, commands, FLIGHTDECK_WORKERS=str(workers)),
        child.Child("bench.jobs.flightdeck", env=on.env) as starter,
    ):
        yield [starter]


@contextmanager
def _peer(on: server.Server, name: str, workers: int) -> Iterator[list[child.Child]]:
    """DBOS runs workflows in the processes that start them; Procrastinate has workers and one that starts."""
    module = f"bench.jobs.{name}_peer"
    with ExitStack() as closing:
        if name == "dbos":
            numbers = [str(number) for number in range(workers)]
            yield [closing.enter_context(child.Child(module, one, env=on.env)) for one in numbers]
            return
        starter = closing.enter_context(child.Child(module, "start", env=on.env))
        command = [sys.executable, "-m", module, "work"]
        closing.enter_context(
            server.processes(on, {f"{name}-{number}": command for number in range(workers)})
        )
        yield [starter]


if __name__ == "__main__":
    sys.exit(main())
