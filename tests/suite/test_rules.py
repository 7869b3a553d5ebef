"""Rules that tests keep: nothing is made of a clock at collection, no process is left behind."""

from __future__ import annotations

import ast
import itertools
import os
import re
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from email.utils import formatdate
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TypeGuard

import psutil
import pytest
from hypothesis import example

from tasks_app.sellers.models import Account, Seller
from tests import collecting
from tests.unsaved import unsaved

ROOT = Path(__file__).resolve().parents[2]


def session(folder: Path, plugin: str, text: str) -> subprocess.CompletedProcess[str]:
    """What pytest makes of a file of tests under one of our plugins."""
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", plugin, "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "--rootdir", str(folder), str(folder / "test_it.py")],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@dataclass
class Holder:
    kept: object


class Kept:
    def __init__(self, at: object) -> None:
        self.at = at


def defaulting(at: object) -> Callable[..., object]:
    def made(one: object = at) -> object:
        return one

    return made


def enclosing(at: object) -> object:
    return lambda: at


def test_a_value_made_of_the_clock_is_seen_however_deep() -> None:
    at = collecting.COLLECTED_AT
    seconds = at.timestamp()
    alone = [at, at.replace(tzinfo=None), at + timedelta(days=30), at.date(), seconds, int(seconds) - 900]
    written = [int(seconds * 1000), at.isoformat(), f'{{"at": "{at.isoformat()}"}}'.encode()]
    version_7 = uuid.UUID(int=(int(seconds * 1000) << 80) | (7 << 76) | (2 << 62))
    written += [
        str(int(seconds)),
        version_7,
        str(version_7),
        f"t={int(seconds)},v1=ab",
        f'{{"at": {seconds}}}',
    ]
    written += [f"{int(seconds)}.body".encode(), formatdate(seconds), at.strftime("%Y%m%dT%H%M%SZ")]
    written += [at.strftime("%d.%m.%Y"), f"key-{int(seconds * 1e9)}", at + timedelta(days=700)]
    within = [
        [{"a": (1, {at})}],
        partial(print, at=at),
        Holder([at]),
        defaulting(at),
        enclosing(at),
        example(at)(defaulting(None)),
        example(at=at)(defaulting(None)),
        type("Test", (), {"at": at}),
        SimpleNamespace(at=at),
        Seller(created_at=at, id=uuid.UUID(int=1)),
        Seller(created_at=datetime(2026, 11, 20, tzinfo=UTC), id=version_7),
        Kept(at),
    ]
    for value in (*alone, *written, *within):
        assert collecting.tells_the_clock(value), value


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 11, 20, tzinfo=UTC),
        date(2026, 11, 20),
        1985,
        5.0,
        "1985",
        b"",
        None,
        [True],
        uuid.UUID(int=7 << 76),
        unsaved(Account, seller=unsaved(Seller, name="Norrland")),
        Holder(unsaved(Seller)),
    ],
)
def test_other_values_are_no_clock(value: object) -> None:
    assert not collecting.tells_the_clock(value)


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ("AT = datetime.now(UTC)\ndef test_it(): pass", "test_it.AT"),
        ("class Test:\n    at = time.time()\n    def test_it(self): pass", "test_it.Test"),
        ("def asked(at=str(int(time.time()))): return at\ndef test_it(): pass", "test_it.asked"),
        ("AT = {'at': [time.time() - 60]}\ndef test_it(): pass", "test_it.AT"),
        (
            "@pytest.mark.parametrize('body', [{'at': datetime.now(UTC).isoformat()}])\n"
            "def test_it(body): pass",
            "body of test_it.py::test_it[body0]",
        ),
    ],
)
def test_what_is_made_of_the_clock_at_collection_is_refused(tmp_path: Path, made: str, named: str) -> None:
    imports = "import time\nfrom datetime import UTC, datetime\nimport pytest\n"

    done = session(tmp_path, "tests.collecting", imports + made)

    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "made at collection, of a clock: " in done.stdout
    assert named in done.stdout


def test_a_helper_of_tests_that_reads_the_clock_when_it_is_imported_is_refused(tmp_path: Path) -> None:
    text = """
import sys, time, types
helper = sys.modules["tests.helper"] = types.ModuleType("tests.helper")
helper.AT = time.time()
def test_it(): pass
"""
    done = session(tmp_path, "tests.collecting", text)

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "made at collection, of a clock: tests.helper.AT" in done.stderr


def test_a_test_itself_reads_the_clock(tmp_path: Path) -> None:
    text = "from datetime import UTC, datetime\ndef test_it(): assert datetime.now(UTC).year > 2020"
    assert session(tmp_path, "tests.collecting", text).returncode == pytest.ExitCode.OK


LEAVES = """
import subprocess, sys, pytest
command = [sys.executable, "-c", "import time; time.sleep(3600)"]
@pytest.fixture
def gives_up():
    with open("{pid}", "w") as file:
        file.write(str(subprocess.Popen(command).pid))
    raise RuntimeError("it did not come up")
def test_it(gives_up): pass
"""


def test_a_process_left_behind_is_ended_and_fails_its_module(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    done = session(tmp_path, "tests.leftovers", LEAVES.format(pid=pid))

    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "left running, and ended now: " in done.stdout
    assert "time.sleep(3600)" in done.stdout
    assert not psutil.pid_exists(int(pid.read_text()))


ORPHAN = """
import os, subprocess, sys
between = "import subprocess, sys; command = [sys.executable, '-c', 'import time; time.sleep(3600)'];"
between += " print(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"
def test_it():
    done = subprocess.run([sys.executable, "-c", between], capture_output=True, text=True)
    with open("{pid}", "w") as file:
        file.write(done.stdout)
"""


def test_a_process_whose_parent_ended_before_it_fails_the_session(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    done = session(tmp_path, "tests.leftovers", ORPHAN.format(pid=pid))

    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "left running by the session, and ended now: " in done.stdout
    assert "(test_it.py::test_it (call))" in done.stdout
    assert not psutil.pid_exists(int(pid.read_text()))


DATABASE = """
import shutil, subprocess
import psutil
from tests import scratch
from tests.support import until
def test_it():
    made = scratch.directory()
    command = ["bin/postgres -D", "3600"]
    server = subprocess.Popen(command, executable=shutil.which("sleep"), cwd=made, env={{}})
    # Its command is not there yet for a moment, when Popen is told already that it runs.
    until(lambda: psutil.Process(server.pid).cmdline() == command, "it is told apart by its command")
    with open("{pid}", "w") as file:
        file.write(str(server.pid))
    made.rmdir()
"""


def test_a_database_whose_environment_is_its_own_fails_the_session(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    done = session(tmp_path, "tests.leftovers", DATABASE.format(pid=pid))

    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "left running by the session, and ended now: bin/postgres -D 3600" in done.stdout
    assert not psutil.pid_exists(int(pid.read_text()))


def test_a_process_that_was_ended_is_nobodys_trouble(tmp_path: Path) -> None:
    text = "import subprocess\ndef test_it(): subprocess.Popen(['sleep', '0']).wait()"
    assert session(tmp_path, "tests.leftovers", text).returncode == pytest.ExitCode.OK


# How many lines of each file start a process that no block ends, and who does.
_ENDED_ELSEWHERE = {
    "config/test_supervisor.py": (1, "`Supervised` is a block itself"),
    "enforcement/mortal.py": (1, "waited for at once, killed by itself or done"),
    "faulty_seller.py": (1, "`FaultySeller` is a block itself"),
    "forked/parent.py": (3, "`tests.forked` itself: they end with it"),
    "forked/popen.py": (3, "the session"),
    "jobs/crew.py": (2, "`Crew.end`, after the test; a worker whoever keeps it alive"),
    "jobs/test_cluster.py": (4, "`_ended` kills what does not end"),
    "jobs/test_redis.py": (1, "`RedisServer.kill`, after the test and where it does not start"),
    "mutants/lanes.py": (1, "no test: whoever looks after mutants"),
    "races/life.py": (1, "`Life` is a block itself"),
    "sellers/conftest.py": (1, "`Sellers.stop`, after the module and where they do not start"),
    "suite/teller.py": (1, "what is to be found left behind"),
}


_STARTS = {
    *("Popen", "Process", "create_subprocess_exec", "create_subprocess_shell"),
    *("fork", "forkpty", "posix_spawn", "posix_spawnp"),
    *("spawnl", "spawnle", "spawnlp", "spawnlpe", "spawnv", "spawnve", "spawnvp", "spawnvpe"),
}


def unended(text: str) -> list[int]:
    """The lines that start a process which no block ends: neither ``ending(Popen(...))`` nor a ``finally``
    that calls something of it, or with it, and whose block begins on the next line."""
    tree, ended = ast.parse(text), set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _named(node.func) == "ending":
            ended.update(map(id, node.args))
        body = getattr(node, "body", None)
        for line, then in itertools.pairwise(body if isinstance(body, list) else []):
            if isinstance(line, ast.Assign | ast.AnnAssign) and _targets(line) & _called_at_the_end(then):
                ended.add(id(line.value))
                ended.update(map(id, getattr(line.value, "elts", ())))
    return [node.lineno for node in ast.walk(tree) if _starts(node) and id(node) not in ended]


def _targets(line: ast.Assign | ast.AnnAssign) -> set[str]:
    return set(map(ast.unparse, line.targets if isinstance(line, ast.Assign) else [line.target]))


# What a `finally` may call with a process, or of it, that ends it.
_ENDS = {"end", "kill", "killpg", "stop", "terminate"}


def _called_at_the_end(block: ast.stmt) -> set[str]:
    """What a ``finally`` does something to."""
    finally_ = block.finalbody if isinstance(block, ast.Try) else []
    calls = [part for line in finally_ for part in ast.walk(line) if isinstance(part, ast.Call)]
    ending_ = [call for call in calls if _named(call.func) in _ENDS]
    owners = [call.func.value for call in ending_ if isinstance(call.func, ast.Attribute)]
    each = [part for call in ending_ for argument in call.args for part in ast.walk(argument)]
    return {ast.unparse(part) for part in (*owners, *each) if isinstance(part, ast.expr)}


def _named(called: ast.expr) -> str:
    return ast.unparse(called).rsplit(".", 1)[-1]


def _starts(node: ast.AST) -> TypeGuard[ast.expr]:
    """Also where it is called by another name."""
    match node:
        case ast.Call(func=called):
            is_looked_at = ast.unparse(called) == "psutil.Process" or (
                ast.unparse(called) == "Process" and bool(node.args)
            )
            is_begun_by_it = any(_named(argument) == "Popen" for argument in node.args)
            is_begun_by_it &= _named(called) not in {"isinstance", "issubclass", "cast"}
            return is_begun_by_it or (_named(called) in _STARTS and not is_looked_at)
        case ast.alias(name=name, asname=str()):
            return name in _STARTS
        case ast.Assign(value=ast.Attribute(attr=name)):
            return name in _STARTS
    return False


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("process = subprocess.Popen(['sleep', '9'])\nprocess.wait()", [1]),
        ("with Popen(['sleep', '9']) as process:\n  assert seen()\n  process.kill()", [1]),
        ("started = [Popen(one) for one in both]", [1]),
        ("with ending(subprocess.Popen(['sleep', '9'])) as process:\n  assert seen()", []),
        ("started = [stack.enter_context(ending(Popen(one))) for one in both]", []),
        ("process = Popen(one)\ntry:\n  assert seen()\nfinally:\n  process.kill()", []),
        ("process = Popen(one)\ntry:\n  assert seen()\nexcept OSError:\n  process.kill()", [1]),
        ("process = Popen(one)\ntry:\n  assert seen()\nfinally:\n  log.close()", [1]),
        ("process = await asyncio.create_subprocess_exec(*command)", [1]),
        ("process = spawn.Process(target=work)\nprocess.start()", [1]),
        ("process = Popen(one)\ntry:\n  assert seen()\nfinally:\n  print(process)", [1]),
        ("process = Popen(one)\ntry:\n  assert seen()\nfinally:\n  assert process.returncode == 0", [1]),
        ("did = both(Popen(one), Popen(other))\ntry:\n  assert seen()\nfinally:\n  did.kill()", [1, 1]),
        ("both = [Popen(one), Popen(other)]\ntry:\n  assert seen()\nfinally:\n  kill(*both)", []),
        ("process = Popen(one)\ntry:\n  assert seen()\nfinally:\n  process.poll()", [1]),
        ("process = Popen(one)\ntry:\n  assert seen()\nfinally:\n  process.wait(60)", [1]),
        ("process = Popen(one)\ntry:\n  assert seen()\nfinally:\n  process.communicate()", [1]),
        ("process = Popen(one)\ntry:\n  assert seen()\nfinally:\n  psutil.wait_procs([process])", [1]),
        ("process = Popen(one)\ntry:\n  assert seen()\nfinally:\n  os.killpg(process.pid, 9)", []),
        ("assert isinstance(process, subprocess.Popen)", []),
        ("process = Popen(one)\ntry:\n  assert seen()\nfinally:\n  log.info('%s', process)", [1]),
        ("process: Popen = Popen(one)\ntry:\n  assert seen()\nfinally:\n  end(process)", []),
        ("with support.ending(Popen(one)): assert seen()", []),
        ("from subprocess import Popen as P", [1]),
        ("P = subprocess.Popen", [1]),
        ("pid = os.fork()", [1]),
        ("begin = partial(subprocess.Popen, one)", [1]),
        ("psutil.Process(pid)", []),
        ("Process(pid)", []),
    ],
)
def test_a_process_that_no_block_ends_is_seen(text: str, found: list[int]) -> None:
    assert unended(text) == found


def test_whoever_starts_a_process_ends_it() -> None:
    tests = ROOT / "tests"
    modules = {str(path.relative_to(tests)): path.read_text() for path in tests.rglob("*.py")}
    found = Counter({name: len(lines) for name, text in modules.items() if (lines := unended(text))})
    assert found == {name: lines for name, (lines, _) in _ENDED_ELSEWHERE.items()}, (
        "with ending(subprocess.Popen(...)) as process: ..."
    )


def test_what_needs_the_adcp_package_says_so_and_imports_it_late() -> None:
    """Imported by what is collected, it would be imported by every tester: 15 s of processor time each."""
    modules = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    needs = re.compile(r'^ +from adcp\b|"demo\.sellers"|^from tests\.sellers\.conftest import', re.MULTILINE)
    early = re.compile(r"^(from|import) adcp\b", re.MULTILINE)
    needing = {path for path, text in modules.items() if needs.search(text) and path.match("test_*.py")}
    marked = {path for path, text in modules.items() if "\npytestmark = pytest.mark.adcp_package\n" in text}
    assert len(marked) >= 5
    assert marked == needing
    assert [path for path, text in modules.items() if early.search(text)] == []


def test_what_needs_the_adcp_package_comes_first(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "def pytest_configure(config):\n    config.addinivalue_line('markers', 'adcp_package: heavy')\n"
    )
    text = """
import pytest
def test_a(): assert heavy == [1]
@pytest.mark.adcp_package
def test_b(): heavy.append(1)
heavy = []
"""
    assert session(tmp_path, "tests.collecting", text).returncode == 0
