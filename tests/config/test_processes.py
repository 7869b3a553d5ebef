"""config.processes: a group's processes are restarted, stopped to the last one, and never left behind."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from config import processes
from config.processes import ProcessError, ProcessGroup
from tests.ending import ending, kill
from tests.support import PATIENCE_S, until

# Starts a child, tells both numbers, and waits; with an argument both ignore SIGTERM.
FAMILY = """
import os, signal, subprocess, sys
if len(sys.argv) > 1:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
print("pids", os.getpid(), child.pid, flush=True)
signal.pause()
"""

SUPERVISOR = """
import sys
from pathlib import Path
from config.processes import ProcessGroup
with ProcessGroup(state_file=Path(sys.argv[1])) as group:
    group.start("family", [sys.executable, "-c", sys.argv[2], *sys.argv[3:]])
    group.wait()
"""


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def announced(read: Callable[[], str]) -> list[int]:
    """The numbers that FAMILY told."""
    text = until(lambda: (text := read()).endswith("\n") and "pids" in text and text, "FAMILY starts")
    return [int(word) for word in str(text).split("pids", 1)[1].split()[:2]]


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def test_output_carries_the_name_of_its_process() -> None:
    output = io.StringIO()
    with ProcessGroup(output=output) as group:
        group.start("web", python("print('hello'); print('no newline at the end', end='')"))
        group.start("worker", python("import sys; print('häh', file=sys.stderr)"))
        until(lambda: len(group.ended()) == 2)
        until(lambda: output.getvalue().count("\n") == 3)
    assert sorted(output.getvalue().splitlines()) == [
        "web       | hello",
        "web       | no newline at the end",
        "worker    | häh",
    ]


def test_env_is_added_to_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_OURS", "kept")
    output = io.StringIO()
    with ProcessGroup(output=output) as group:
        group.start("one", ["/bin/sh", "-c", 'echo "$FROM_OURS $ADDED"'], env={"ADDED": "too"})
        until(lambda: "kept too" in output.getvalue())


@pytest.mark.parametrize("ignores", [[], ["ignores SIGTERM"]])
def test_stop_ends_a_process_and_its_children(ignores: list[str]) -> None:
    output = io.StringIO()
    with ProcessGroup(output=output) as group:
        group.start("family", python(FAMILY, *ignores))
        pids = announced(output.getvalue)
        group.stop("family", grace_s=0.3 if ignores else PATIENCE_S)
        until(lambda: not any(map(alive, pids)))


def test_an_ended_process_is_started_again_and_its_children_do_not_stay() -> None:
    output = io.StringIO()
    with ProcessGroup(output=output) as group:
        first = group.start("family", python(FAMILY), restart=True)
        pids = announced(output.getvalue)
        os.kill(first, signal.SIGKILL)
        assert group.wait(lambda: group.pid("family") != first, timeout_s=PATIENCE_S)
        assert not any(map(alive, pids))
        assert "ended with signal SIGKILL; starts again in 1 s" in output.getvalue()


def test_a_restart_that_cannot_be_made_is_tried_again_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A machine short of memory for a moment."""
    monkeypatch.setattr(processes, "FIRST_DELAY_S", 0.1)
    spawn, refused = subprocess.Popen, []

    def short_of_memory(*args: object, **named: object) -> object:
        if len(refused) < 2:
            refused.append(1)
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return spawn(*args, **named)  # type: ignore[call-overload]

    out = io.StringIO()
    with ProcessGroup(output=out) as group:
        first = group.start("web", [sys.executable, "-c", "pass"], restart=True)
        monkeypatch.setattr(subprocess, "Popen", short_of_memory)
        assert group.wait(lambda: group.pid("web") != first, timeout_s=PATIENCE_S)
    assert len(refused) == 2
    assert out.getvalue().count("Cannot allocate memory; again in") == 2


def test_a_disk_without_room_ends_nothing_and_what_runs_is_noted_once_there_is_some(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At a start, a restart and the stop of all: each notes what runs."""
    monkeypatch.setattr(processes, "FIRST_DELAY_S", 0.1)
    write, state, room, out = Path.write_text, tmp_path / "run.json", [False], io.StringIO()

    def written(self: Path, *args: Any, **named: Any) -> int:
        if self.parent == tmp_path and not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, *args, **named)

    def noted() -> list[int]:
        return [one["pid"] for one in json.loads(state.read_text())["processes"]] if state.exists() else []

    ends_once = f"if [ -e {tmp_path}/began ]; then exec sleep 600; fi; touch {tmp_path}/began"
    monkeypatch.setattr(Path, "write_text", written)
    with ProcessGroup(state_file=state, output=out) as group:
        first = group.start("web", ["/bin/sh", "-c", ends_once], restart=True)
        assert group.wait(lambda: group.pid("web") != first, timeout_s=PATIENCE_S)
        said = out.getvalue().count("No space left on device; again in")
        assert said >= 2
        assert noted() == []
        room[0] = True
        assert group.wait(lambda: noted() == [group.pid("web")], timeout_s=PATIENCE_S)
        room[0] = False
    assert not state.exists()


def test_restarts_become_rarer() -> None:
    output = io.StringIO()
    with ProcessGroup(output=output) as group:
        group.start("bad", python("raise SystemExit(3)"), restart=True)
        assert group.wait(lambda: "again in 4 s" in output.getvalue(), timeout_s=PATIENCE_S)
    waits = [line.rsplit(" in ", 1)[1] for line in output.getvalue().splitlines()]
    assert waits == ["1 s", "2 s", "4 s"]


def test_wait_tells_of_a_process_that_should_run(processes: ProcessGroup) -> None:
    processes.start("seller", python("raise SystemExit(3)"))
    with pytest.raises(ProcessError, match="seller ended with exit code 3"):
        processes.wait(timeout_s=PATIENCE_S)


def test_wait_ends_when_the_time_is_over(processes: ProcessGroup) -> None:
    processes.start("long", ["sleep", "600"])
    assert not processes.wait(timeout_s=0.2)


def test_a_missing_program_is_an_error(processes: ProcessGroup) -> None:
    with pytest.raises(ProcessError, match="web cannot be started"):
        processes.start("web", ["/nonexistent/program"])


def test_a_name_is_taken_while_its_process_runs(processes: ProcessGroup) -> None:
    processes.start("web", ["sleep", "600"])
    with pytest.raises(ProcessError, match="web runs already"):
        processes.start("web", ["sleep", "600"])


@contextmanager
def supervise(state: Path, *ignores: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    command = python(SUPERVISOR, str(state), FAMILY, *ignores)
    with ending(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as supervisor:
        assert supervisor.stdout is not None
        pids = announced(supervisor.stdout.readline)
        family = [psutil.Process(pid) for pid in pids]
        try:
            yield supervisor, pids
        finally:
            for process in family:  # a killed supervisor's: they are below nobody
                kill(process)


if sys.platform.startswith("linux"):

    def test_a_killed_supervisor_takes_its_processes_along(tmp_path: Path) -> None:
        state = tmp_path / "run.json"
        with supervise(state) as (supervisor, (leader, child)):
            supervisor.kill()
            supervisor.communicate()
            until(lambda: not alive(leader))
            with ProcessGroup(state_file=state):  # what the leader itself did not end
                until(lambda: not alive(child))


def test_the_next_group_ends_what_a_killed_supervisor_left(tmp_path: Path) -> None:
    state = tmp_path / "run.json"
    with supervise(state, "ignores SIGTERM") as (supervisor, pids):
        os.kill(supervisor.pid, signal.SIGSTOP)  # so that it cannot clean up
        supervisor.kill()
        supervisor.wait()
        assert all(map(alive, pids))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("config.processes.GRACE_S", 0.3)
            with ProcessGroup(state_file=state):
                until(lambda: not any(map(alive, pids)))
    assert not state.exists()


def test_a_second_group_with_the_same_state_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "run.json"
    with ProcessGroup(state_file=state) as group:
        group.start("long", ["sleep", "600"])
        with pytest.raises(ProcessError, match="runs already"), ProcessGroup(state_file=state):
            pass
        assert alive(group.pid("long"))


def test_a_number_that_went_to_somebody_else_is_left_alone(tmp_path: Path) -> None:
    state = tmp_path / "run.json"
    with ProcessGroup(state_file=state) as group:
        group.start("long", ["sleep", "600"])
        recorded = state.read_text()
    with ending(subprocess.Popen(["sleep", "600"], start_new_session=True)) as other:
        number = str(psutil.Process(other.pid).pid)
        created = psutil.Process(other.pid).create_time() - 3600
        boot = recorded.split('"boot": ')[1].split(",")[0]
        state.write_text(
            f'{{"boot": {boot}, "processes": [{{"name": "long", "pid": {number}, "created": {created}}}]}}'
        )
        with ProcessGroup(state_file=state):
            assert alive(other.pid)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"boot": 1, "processes": [{}]}'])
def test_a_broken_state_file_is_no_obstacle(tmp_path: Path, content: str) -> None:
    state = tmp_path / "run.json"
    state.write_text(content)
    with ProcessGroup(state_file=state) as group:
        group.start("long", ["sleep", "600"])
