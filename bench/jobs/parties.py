"""The parties of the chain: how each one's workers are started, and the process that puts jobs in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from bench.jobs import CHAIN, WARM, marks
from bench.jobs.orders import Teller
from bench.jobs.stage import Stage
from config.processes import ProcessGroup
from config.supervisor import BASE_DIR

Put = Callable[[int], None]
PEERS = ("dbos", "procrastinate", "django_q2")
_MODULE = "bench.jobs.peers.{}_peer"


def prepare(stage: Stage) -> None:
    """The peers' tables, where a command makes them; DBOS makes its own."""
    for name in ("procrastinate", "django_q2"):
        command = [sys.executable, "-m", _MODULE.format(name), "schema"]
        env = {**stage.env, **stage.peer_env[name]}
        subprocess.run(command, check=True, cwd=BASE_DIR, env=env, stdout=stage.log, stderr=stage.log)


@contextmanager
def peer(stage: Stage, name: str, workers: int, *, aside: int = 1) -> Iterator[list[Teller]]:
    """The peer with so many workers up, and who puts in what they do: DBOS's own processes share it. `aside`:
    how much each worker does at a time, where it can be told."""
    env = {**stage.peer_env[name], "BENCH_ASIDE": str(aside)}
    with _RUNNING.get(name, _workers_and_putter)(stage, name, workers, env) as tellers:
        chain_rate(stage, lambda jobs: _told(tellers, jobs), WARM)
        yield tellers


def peer_rate(stage: Stage, name: str, workers: int, jobs: int) -> float:
    """Steps per second of the peer's chains."""
    with peer(stage, name, workers) as tellers:
        return chain_rate(stage, lambda jobs: _told(tellers, jobs), jobs)


def chain_rate(stage: Stage, put: Put, jobs: int) -> float:
    """Steps per second of so many chains, each step exactly once. Raises marks.StandstillError."""
    stage.marks.clear()
    put(jobs)
    moments = stage.marks.wait(CHAIN * jobs)
    if len(moments) != CHAIN * jobs:
        raise SystemExit(f"{len(moments)} steps ran, of {CHAIN * jobs}")
    return marks.rate(moments)


@contextmanager
def flightdeck(stage: Stage, env: Mapping[str, str], workers: int | None) -> Iterator[tuple[Teller, int]]:
    """The product's worker cluster (`workers` None: as it is delivered), with who starts its jobs, and the
    cluster's process id."""
    wanted = {} if workers is None else {"FLIGHTDECK_WORKERS": str(workers)}
    with ProcessGroup(output=stage.log) as group, ExitStack() as closing:
        command = [sys.executable, "manage.py", "worker"]
        pid = group.start("worker", command, env={**env, **wanted}, cwd=BASE_DIR)
        ours = closing.enter_context(Teller("bench.jobs.ours", env=env, log=stage.log))
        chain_rate(stage, lambda jobs: _put(ours, jobs), WARM)
        ours.ask("ended")
        ours.ask("analyze")
        yield ours, pid


def our_rate(stage: Stage, ours: Teller, jobs: int) -> float:
    """Steps per second of Flightdeck's chains, every job COMPLETED in the end."""
    reached = chain_rate(stage, lambda jobs: _put(ours, jobs), jobs)
    completed(ours)
    return reached


def completed(ours: Teller) -> None:
    """Wait for the ends of all jobs. Raises SystemExit when one is not COMPLETED."""
    if failed := ours.ask("ended")["not_completed"]:
        raise SystemExit(f"{failed} of our jobs are not COMPLETED")


def _put(ours: Teller, jobs: int) -> None:
    ours.ask("chain", jobs)


@contextmanager
def _workers_and_putter(
    stage: Stage, name: str, workers: int, peer_env: Mapping[str, str]
) -> Iterator[list[Teller]]:
    """So many worker processes (django-q2: one cluster of so many), and who puts in."""
    module, env = _MODULE.format(name), {**peer_env, "BENCH_WORKERS": str(workers)}
    processes = 1 if name == "django_q2" else workers
    with ProcessGroup(output=stage.log) as group, ExitStack() as closing:
        for number in range(processes):
            group.start(f"{name}-{number}", [sys.executable, "-m", module, "worker"], env=env, cwd=BASE_DIR)
        yield [closing.enter_context(Teller(module, "put", env=env, log=stage.log))]


@contextmanager
def _dbos(stage: Stage, name: str, workers: int, env: Mapping[str, str]) -> Iterator[list[Teller]]:
    """Processes that run the workflows they are asked for, each its share."""
    module = _MODULE.format(name)
    with ExitStack() as closing:
        yield [
            closing.enter_context(Teller(module, str(number), env=env, log=stage.log))
            for number in range(workers)
        ]


def _shares(jobs: int, among: int) -> list[int]:
    return [jobs // among + (number < jobs % among) for number in range(among)]


def _told(tellers: list[Teller], jobs: int) -> None:
    for teller, share in zip(tellers, _shares(jobs, len(tellers)), strict=True):
        teller.tell("chain", share)
    for teller in tellers:
        teller.answer()


_RUNNING = {"dbos": _dbos}
