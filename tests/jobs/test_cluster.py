"""The cluster's processes die one by one: it heals, runs on, and stops when asked; nothing is orphaned."""

from __future__ import annotations

import multiprocessing
import os
import signal
from functools import partial
from typing import Any

import psutil
import pytest
from django_q.tasks import async_task

from config.processes import ProcessGroup
from tasks_app.jobs.cluster import Sentinel, _StopAsked, _Timer
from tasks_app.lanes import WorkerLane, queue_of
from tests.database import Database
from tests.jobs.cluster import Worker, gone, works
from tests.rounds import sample_cases
from tests.support import PATIENCE_S, until


@pytest.fixture
def worker(committed_db: Database, processes: ProcessGroup) -> Worker:
    worker = Worker(processes)
    worker.started()
    return worker


def replaced(worker: Worker, victims: list[psutil.Process]) -> bool:
    members = worker.members()
    return bool(members) and not set(victims) & set(members)


def test_it_outlives_its_processes(worker: Worker) -> None:
    """Each in its turn: workers (one sweeps, the others are idle), the monitor, the pusher. Then all workers
    at once: one of them certainly holds the queue's lock. And it still stops when asked."""
    works()
    workers, places = slice(0, worker.workers), sample_cases(range(worker.workers + 2), most=2)
    for place in [*(slice(n, n + 1) for n in places), workers]:
        victims = worker.started()[place]
        for victim in victims:
            victim.kill()
        until(partial(replaced, worker, victims), f"member {place} is replaced")
        works()
        assert worker.main.is_running()
    everybody = worker.everybody()
    worker.main.terminate()
    assert worker.exit_code() == 0
    gone(everybody)


def test_one_that_ends_itself_in_a_task_is_replaced_alone(worker: Worker) -> None:
    """As a sweep that hangs does: what the others have out, purchases that are held open too, goes on."""
    works()
    before = worker.started()
    async_task("os._exit", 1, cluster=queue_of(WorkerLane.RECIPES), save=False)
    until(lambda: worker.members() not in ([], before), "a worker is replaced")
    assert len(set(before) - set(worker.started())) == 1
    works()


def test_nothing_is_orphaned(worker: Worker) -> None:
    works()
    everybody = worker.everybody()
    worker.main.kill()
    # Before its exit code is asked for: the test's process group would end what is left.
    gone(everybody)
    assert worker.exit_code() == -9, "somebody above must see that it died"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_idle_and_asked_to_stop_it_stops_at_once(worker: Worker, number: int) -> None:
    works()
    everybody = worker.everybody()
    worker.main.send_signal(number)
    assert worker.exit_code() == 0
    gone(everybody)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_of_them_told_at_once_it_stops_and_builds_nothing_anew(worker: Worker, number: int) -> None:
    """As by Ctrl-C in a terminal, or by a service manager that signals each process."""
    works()
    everybody = worker.everybody()
    for process in everybody:
        process.send_signal(number)
    assert worker.exit_code() == 0
    gone(everybody)


def test_a_process_that_does_not_stop_is_ended(worker: Worker) -> None:
    """As one that hangs on a lock which a dead one held."""
    works()
    everybody = worker.everybody()
    worker.started()[0].suspend()
    worker.main.terminate()
    assert worker.exit_code() == 0
    gone(everybody)


def test_asked_to_stop_twice_in_one_moment_it_has_heard() -> None:
    """As by a handler that interrupts the wait, where the lock of an event would be held."""
    asked = _StopAsked()
    assert not asked.is_set()
    assert not asked.wait(0)
    asked.set(signal.SIGTERM, None)
    asked.set(signal.SIGINT, None)
    assert asked.wait(PATIENCE_S)
    assert asked.is_set(), "it stays asked"


def _refuse_forks(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """As a machine without memory or room for processes does; the next is tried at once."""
    fork, refused = os.fork, iter(range(times))

    def forked() -> int:
        for _ in refused:
            raise BlockingIOError("Resource temporarily unavailable")
        return fork()

    monkeypatch.setattr("os.fork", forked)
    monkeypatch.setattr("tasks_app.jobs.cluster._FORKS_AGAIN_S", (0, 0, 0))


def _unstarted(*, asked_to_stop: bool = False) -> tuple[Sentinel, Any]:
    sentinel = object.__new__(Sentinel)
    sentinel.stop_event = _StopAsked()
    if asked_to_stop:
        sentinel.stop_event.set()
    return sentinel, multiprocessing.get_context("fork").Process(target=os.getpid)


def test_a_fork_that_the_machine_refuses_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all processes would end, and the calls that are out with them."""
    sentinel, process = _unstarted()
    _refuse_forks(monkeypatch, 3)
    sentinel._start(process)
    _ended(process)
    assert process.exitcode == 0


def test_one_that_stays_refused_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor starts the cluster anew."""
    sentinel, process = _unstarted()
    _refuse_forks(monkeypatch, 4)
    with pytest.raises(BlockingIOError):
        sentinel._start(process)


def test_asked_to_stop_it_forks_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    sentinel, process = _unstarted(asked_to_stop=True)
    _refuse_forks(monkeypatch, 1)
    sentinel._start(process)
    assert not process.is_alive()


def _ended(process: multiprocessing.process.BaseProcess) -> None:
    """By itself, or for it where it does not end."""
    process.join(PATIENCE_S)
    if process.is_alive():
        process.kill()
        process.join(PATIENCE_S)


def _die_with_the_lock(timer: object) -> None:
    timer.get_lock().acquire()  # type: ignore[attr-defined]
    psutil.Process().kill()


def test_a_timer_locked_by_a_dead_worker_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks_app.jobs.cluster._TIMER_LOCK_S", 0.1)
    shared = multiprocessing.Value("f", -1)
    dead = multiprocessing.get_context("fork").Process(target=_die_with_the_lock, args=(shared,))
    dead.start()
    _ended(dead)
    assert dead.exitcode == -signal.SIGKILL
    timer = _Timer(shared)
    with timer.get_lock():
        assert timer.value == -1
        timer.value = 7
    assert timer.value == 7


def test_a_free_timer_is_locked_while_it_is_looked_at() -> None:
    shared = multiprocessing.Value("f", 3)
    with _Timer(shared).get_lock():
        other = multiprocessing.get_context("fork").Process(target=_fail_unless_locked, args=(shared,))
        other.start()
        _ended(other)
    assert other.exitcode == 0
    assert shared.get_lock().acquire(timeout=PATIENCE_S)


def _fail_unless_locked(timer: object) -> None:
    raise SystemExit(timer.get_lock().acquire(timeout=0.1))  # type: ignore[attr-defined]
