"""config.supervisor: the product's processes run on an open, migrated database, and all ends together."""

from __future__ import annotations

import errno
import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from config import postgres, supervisor
from config.postgres import engine
from config.processes import ProcessError, ProcessGroup
from demo.ports import free_port
from tests.ending import end
from tests.support import PATIENCE_S, until

# A product of two small processes, each telling that the database answers it.
MIGRATE = """
import os, sys, psycopg
url = os.environ["MIGRATE_DATABASE_URL"]
assert sys.argv[1:3] == ["migrate", "--noinput"] and os.environ["FLIGHTDECK_DB_LOGIN"] == "owner"
if os.environ.get("BREAK"):
    sys.exit("no such column")
with psycopg.connect(url) as connection:
    connection.execute("create table if not exists seen (who text)")
    connection.execute("grant insert on seen to flightdeck_app")
"""
PROCESS = """
import os, signal, sys, psycopg
with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
    connection.execute("insert into seen values (%s)", [sys.argv[1]])
print("ready", os.getpid(), sys.argv[1], flush=True)
signal.pause()
"""
RUN = """
import sys
from pathlib import Path
from config import supervisor
sys.exit(supervisor.main(sys.argv[2:], base_dir=Path(sys.argv[1])))
"""


@pytest.fixture
def product(project: Path) -> Path:
    (project / "manage.py").write_text(MIGRATE)
    (project / "process.py").write_text(PROCESS)
    (project / "Procfile").write_text(
        "web: python process.py web-$PORT\n\nworker: python process.py worker\n"
    )
    return project


@pytest.fixture
def port() -> int:
    return free_port()


class Supervised:
    """The supervisor as a process of its own, its output in a file."""

    def __init__(self, product: Path, *arguments: str, **env: str) -> None:
        self._log = product / f"output-{len(list(product.glob('output-*')))}"
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", RUN, str(product), *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "DATABASE_URL": "", "MIGRATE_DATABASE_URL": "", **env},
            )

    @property
    def output(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def wait_for(self, words: str, times: int = 1) -> None:
        def seen() -> bool:
            return self.output.count(words) >= times or self.process.poll() is not None

        until(seen, words)
        assert self.output.count(words) >= times, self.output

    def __enter__(self) -> Supervised:
        return self

    def __exit__(self, *_: object) -> None:
        end(self.process, signal.SIGTERM)

    def finish(self) -> int:
        return self.process.wait(timeout=PATIENCE_S)


@pytest.fixture
def supervised(product: Path, port: int) -> Iterator[Supervised]:
    with Supervised(product, "run", "--port", str(port)) as running:
        yield running


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_processes_and_database(
    supervised: Supervised, product: Path, port: int, number: signal.Signals
) -> None:
    supervised.wait_for("ready", times=2)
    data = postgres.data_dir(product)
    assert engine.postmaster(data) is not None
    supervised.process.send_signal(number)
    assert supervised.finish() == 0, supervised.output
    assert f"web-{port}" in supervised.output
    assert engine.postmaster(data) is None


def test_a_process_that_dies_is_started_again(supervised: Supervised) -> None:
    supervised.wait_for("ready", times=2)
    line = next(line for line in supervised.output.splitlines() if line.endswith("worker"))
    os.kill(int(line.split()[-2]), signal.SIGKILL)
    supervised.wait_for("worker    | ready", times=2)


def test_a_database_that_dies_is_started_again(supervised: Supervised, product: Path) -> None:
    supervised.wait_for("ready", times=2)
    died = engine.postmaster(postgres.data_dir(product))
    assert died is not None
    died.kill()
    supervised.wait_for("the database had died: it runs again")
    revived = engine.postmaster(postgres.data_dir(product))
    assert revived is not None
    assert revived.pid != died.pid
    line = next(line for line in supervised.output.splitlines() if line.endswith("worker"))
    os.kill(int(line.split()[-2]), signal.SIGKILL)
    supervised.wait_for("worker    | ready", times=2)
    supervised.process.terminate()
    assert supervised.finish() == 0, supervised.output
    assert engine.postmaster(postgres.data_dir(product)) is None


def test_a_database_that_does_not_come_back_is_tried_again_ever_less_often(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What keeps it away ends; those who serve meanwhile answer that it is away."""
    comes: list[bool | Exception] = [postgres.PostgresError("no answer")] * 8 + [True, False]
    pauses: list[float] = []

    class Group:
        def wait(self, *, timeout_s: float) -> bool:
            pauses.append(timeout_s)
            return len(pauses) > len(comes)

    def revive(_: Path) -> bool:
        came = comes[len(pauses) - 1]
        if isinstance(came, Exception):
            raise came
        return came

    monkeypatch.setattr(postgres, "revive", revive)
    supervisor._look_after(cast(ProcessGroup, Group()), tmp_path)

    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60, 1, 1]
    said = capsys.readouterr().out
    assert said.count("does not come back yet: no answer") == 8
    assert said.count("it runs again") == 1


@pytest.mark.parametrize(
    ("done_by", "number"), [("_write", errno.ENOSPC), ("start", errno.ENOMEM)], ids=["no room", "no memory"]
)
def test_a_database_that_cannot_be_revived_for_a_moment_ends_nothing(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    done_by: str,
    number: int,
) -> None:
    """It died of a full disk, or for want of memory, and that lasts a moment longer."""
    monkeypatch.setenv("DATABASE_URL", "")
    real, refused = getattr(engine, done_by), []

    def revives(*args: Any, **named: Any) -> Any:
        if len(refused) < 2:
            refused.append(number)
            raise OSError(number, os.strerror(number))
        return real(*args, **named)

    monkeypatch.setattr(engine, done_by, revives)
    pauses: list[float] = []

    class Group:
        def wait(self, *, timeout_s: float) -> bool:
            pauses.append(timeout_s)
            return len(pauses) > 3

    supervisor._look_after(cast(ProcessGroup, Group()), project)

    assert pauses == [1, 2, 4, 1]
    said = capsys.readouterr().out
    assert said.count(f"does not come back yet: [Errno {number}] {os.strerror(number)}") == 2
    assert said.count("it runs again") == 1


def test_what_cannot_be_said_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log on the full disk."""

    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    supervisor._say("the database had died")


def test_the_database_can_live_elsewhere(product: Path, empty_project: Path, port: int) -> None:
    with Supervised(product, "run", "--port", str(port), "--home", str(empty_project)) as apart:
        apart.wait_for("ready", times=2)
        assert engine.postmaster(postgres.data_dir(empty_project)) is not None
        assert engine.postmaster(postgres.data_dir(product)) is None
        apart.process.terminate()
        assert apart.finish() == 0, apart.output


def test_after_a_kill_the_next_run_needs_no_clean_up(
    supervised: Supervised, product: Path, port: int
) -> None:
    supervised.wait_for("ready", times=2)
    supervised.process.kill()
    supervised.process.wait()
    with Supervised(product, "run", "--port", str(port)) as again:
        again.wait_for("ready", times=2)
        again.process.terminate()
        assert again.finish() == 0
    until(lambda: engine.postmaster(postgres.data_dir(product)) is None)


def test_a_second_run_is_refused_and_the_first_goes_on(supervised: Supervised, product: Path) -> None:
    supervised.wait_for("ready", times=2)
    with Supervised(product, "run", "--port", "1") as second:
        assert second.finish() == 1
    assert "runs already" in second.output
    assert supervised.process.poll() is None


def test_a_failed_migration_starts_nothing(product: Path, port: int) -> None:
    with Supervised(product, "run", "--port", str(port), BREAK="1") as failed:
        assert failed.finish() == 1
    assert "no such column" in failed.output
    assert "ready" not in failed.output
    assert engine.postmaster(postgres.data_dir(product)) is None


def test_exec_runs_a_command_on_the_open_database(product: Path) -> None:
    code = "import os, psycopg; psycopg.connect(os.environ['DATABASE_URL']); raise SystemExit(7)"
    with Supervised(product, "exec", "--", sys.executable, "-c", code) as executed:
        assert executed.finish() == 7, executed.output
    assert engine.postmaster(postgres.data_dir(product)) is None


def test_a_taken_port_is_said_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ProcessError, match="PORT="):
            supervisor.require_free_port(taken.getsockname()[1])


def test_the_procfile_names_every_process() -> None:
    assert list(supervisor.procfile()) == ["web", "worker", "assistant"]
