"""Runs every stage of CI, then tests that failed once more, alone; ends with 0 where nothing fails any more.

The last lines are the stages with their seconds and outcome, and every failed test by its id. A test that
fails among others and passes alone is printed as unsteady, its first traceback kept in var/unsteady/: it does
not fail the run, and is to be mended before anything else. Where more than `FORGIVEN` fail, none runs again.
A run that is interrupted ends the stage under way, and says what came of those before it; it exits with 130.

Needs nothing but Python and make: it makes the virtual environment that all else runs in.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

FORGIVEN = 5
# CI cuts the run three minutes later, without a word.
LIMIT_S = float(os.environ.get("CI_LIMIT_S", 87 * 60))
GRACE_S = float(os.environ.get("CI_GRACE_S", 90))  # tests wait a minute for their testers
MOST_LEFT_S = LIMIT_S / 10  # to each stage that comes later, by one that does not end
HOME = Path("var/ci")
ALONE = Path("var/ci.lock")  # held by the run that has this folder
UNSTEADY = Path("var/unsteady")
# What a make around this one, or a shell's own runs of the tests, are asked.
_OF_OTHERS = {
    *("MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "ROUNDS", "TEST_DATABASE_URL"),
    *("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTHONOPTIMIZE"),  # the last leaves out what helpers assert
    *("DATABASE_URL", "MIGRATE_DATABASE_URL", "DJANGO_SETTINGS_MODULE"),
}
_OURS = "FLIGHTDECK_"  # settings of an installation
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TESTS_FAILED = 1  # pytest's exit code where tests failed, and nothing else

PASSED, UNSTEADY_WORD, FAILED, OUT_OF_TIME = "passed", "unsteady", "FAILED", "OUT OF TIME"
NOTHING_PASSED = "NO TEST PASSED"
DOUBTFUL = "failed, not tried alone"  # until it is
BUSY = 75  # for now: EX_TEMPFAIL of sysexits.h
INTERRUPTED = 128 + signal.SIGINT  # as a shell says it


@dataclass
class Stage:
    """A target of make. One that is ``tested`` tells which tests failed; ``arguments`` are pytest's, as a
    shell reads them. ``left_s``: seconds that are left to it when one before it that takes too long is asked
    to end; ending may take ``GRACE_S`` of them."""

    name: str
    target: str
    tested: bool = False
    arguments: str = ""
    left_s: float = 0.0
    seconds: float = 0.0
    outcome: str = "not run"
    failed: dict[str, dict] = field(default_factory=dict)  # by id, as tests/outcomes.py tells them

    def came_to(self, code: int | None, told: dict) -> str:
        """The outcome. As pytest itself told: make may be asked to end well whatever happens, and pytest ends
        well where a tester died after its last test. Where all are skipped, or expected to fail, nothing is
        shown."""
        if code is None:
            return OUT_OF_TIME
        if not self.tested:
            return FAILED if code else PASSED
        if told["exit"] == TESTS_FAILED and told["failed"]:
            return DOUBTFUL
        # Anything else (a crash, a usage error) does not pass by tests that pass alone.
        if code or told["exit"] != 0 or told["failed"]:
            return FAILED
        return PASSED if told["passed"] else NOTHING_PASSED


def stages() -> list[Stage]:
    return [
        Stage("lint", "lint"),
        Stage("types", "types"),
        Stage("migrations and settings", "settings"),
        # The next stage plays all rounds of what this one would play a short round of.
        Stage("tests", "test", tested=True, arguments='-m "not browser and not redis and not endurance"'),
        Stage("tests of endurance", "test-endurance", tested=True, left_s=450),
        Stage("tests of the queue on Redis", "test-redis", tested=True, left_s=60),
        Stage("tests in a browser", "test-browser", tested=True, left_s=300),
    ]


class Run:
    """One run of CI, in the project's folder."""

    def __init__(self, held: int) -> None:
        """``held``: the descriptor of the lock that the run has of its folder."""
        self._held = held
        self._until = time.monotonic() + LIMIT_S
        self._began = datetime.now(UTC)
        shutil.rmtree(HOME, ignore_errors=True)
        HOME.mkdir(parents=True)
        self.kept_before = sorted(file.name for file in UNSTEADY.glob("*.txt"))  # still to be mended

    def run(self, stage: Stage, later: list[Stage]) -> None:
        """Run it, and note how it ended. ``later``: the stages still to come."""
        began = time.monotonic()
        stage.outcome = "INTERRUPTED"
        left = sum(min(one.left_s, MOST_LEFT_S) for one in later)
        try:
            code = self._make(stage, until=self._until - left, arguments=stage.arguments)
        finally:
            stage.seconds = time.monotonic() - began
            told = self._told(stage)
            stage.failed = told["failed"]
        stage.outcome = stage.came_to(code, told)

    def judge(self, ran: list[Stage]) -> None:
        """Of stages where only tests failed: those that pass alone are unsteady, the others fail theirs."""
        doubtful = [stage for stage in ran if stage.outcome == DOUBTFUL]
        forgiven = sum(len(stage.failed) for stage in ran) <= FORGIVEN
        for stage in doubtful:
            for test in list(stage.failed):
                again = stage.failed[test]["again"]
                if forgiven and again and self._passes_alone(stage, again):
                    self._keep(stage, test, stage.failed.pop(test)["printed"])
            stage.outcome = FAILED if stage.failed else UNSTEADY_WORD

    def _passes_alone(self, stage: Stage, again: str) -> bool:
        print(f"== once more, alone: {again}", flush=True)
        try:
            (HOME / "alone").write_text(f"{again}\n", errors="surrogateescape")
        except OSError as error:  # no room: it has not passed
            print(f"not run: {error}", flush=True)
            return False
        code = self._make(stage, "TESTERS=0", arguments=f"@{HOME}/alone", until=self._until)
        return stage.came_to(code, self._told(stage)) == PASSED

    def _make(self, stage: Stage, *options: str, until: float, arguments: str = "") -> int | None:
        """The exit code, None where time ran out."""
        told, ended = self._files(stage)
        for file in (told, ended):
            file.unlink(missing_ok=True)
        if time.monotonic() >= until:
            return None
        if stage.tested:
            options = (*options, f"ARGS=--outcomes={told} {arguments}", f"EXIT={ended}")
        command = ["make", stage.target, *options]
        asked = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        environment = {name: value for name, value in asked.items() if name not in _OF_OTHERS}
        # It holds the lock as well: where this run is killed, what it began is still under way.
        with subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[self._held],
        ) as made:
            try:
                code = made.wait(max(0.0, until - time.monotonic()))
            except BaseException as cut:
                end(made)
                if not isinstance(cut, subprocess.TimeoutExpired):
                    raise
                code = None
        return code

    def _files(self, stage: Stage) -> tuple[Path, Path]:
        """What its tests told, and pytest's exit code. Of this run alone: a stage of one that was killed may
        still be writing."""
        told = HOME / f"{stage.target}-{os.getpid()}.jsonl"
        return told, told.with_suffix(".exit")

    def _told(self, stage: Stage) -> dict:
        """What pytest told of a stage, with the exit code that it then had, None where it did not come to its
        end: after its last word it may still crash, which make does not tell from failed tests."""
        told, ended = self._files(stage)
        found: dict = {"exit": None, "passed": 0, "failed": {}}
        for line in told.read_text().splitlines() if told.exists() else ():
            with suppress(ValueError):  # cut
                one = json.loads(line)
                if "id" in one:
                    found["failed"][one.pop("id")] = one
                else:
                    found |= one
        exits = ended.read_text().strip() if ended.exists() else ""
        return found if exits == str(found["exit"]) else {**found, "exit": None}

    def _keep(self, stage: Stage, test: str, printed: str) -> None:
        name = re.sub(r"[^\w.-]+", "-", test, flags=re.ASCII)[-180:]
        file = UNSTEADY / f"{self._began:%Y%m%dT%H%M%SZ}-{stage.target}-{name}.txt"
        try:
            UNSTEADY.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{test}\n\n{printed}\n", errors="backslashreplace")
        except OSError as error:  # no room, perhaps: what is printed is kept somewhere
            print(f"unsteady: {test}: {error}\n{printed}", flush=True)
        else:
            print(f"unsteady: {test}: {file}", flush=True)


def end(made: subprocess.Popen[bytes]) -> None:
    """End a stage that takes too long: asked first, so that tests stop what they started. Whoever wants this
    run to end meanwhile waits for that, and then it does."""
    heard: list[int] = []
    ending = [number for number in _SIGNALS if signal.getsignal(number) is interrupted]
    for number in ending:
        signal.signal(number, lambda number, _: heard.append(number))
    try:
        with suppress(ProcessLookupError):  # whoever ends this run ended its stage, too
            os.killpg(made.pid, signal.SIGINT)
        made.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(made.pid, signal.SIGKILL)
    finally:
        for number in ending:
            signal.signal(number, interrupted)
    if heard:
        interrupted()


def tell(ran: list[Stage], unsteady: list[str], before: list[str]) -> None:
    if unsteady:
        print(f"\n== unsteady: failed among others, passed alone ({UNSTEADY}/)")
        print("\n".join(unsteady))
    if before:
        print(f"\n== unsteady in runs before this one: mend them, then remove them from {UNSTEADY}/")
        print("\n".join(before))
    print("\n== stages")
    for stage in ran:
        print(f"{stage.name:<28} {stage.seconds:7.0f} s  {stage.outcome}")
    for stage in ran:
        for test in stage.failed:
            print(f"FAILED {test}")
    sys.stdout.flush()


def main() -> int:
    os.chdir(Path(__file__).resolve().parents[1])
    sys.stdout.reconfigure(errors="backslashreplace")
    # What a shell begins in the background ignores it, and so would every stage that is asked to end.
    for number in _SIGNALS:
        # But for a hangup: what `nohup` begins outlives its terminal.
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupted)
    with alone() as held:
        if held is None:
            print("Another run of CI is under way here: one would write over the other's results.")
            return BUSY
        return go_through(held)


def interrupted(*_: object) -> None:
    """Once: whoever asks again waits for what comes of it."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextmanager
def alone() -> Iterator[int | None]:
    """The descriptor of the folder's lock, which is held until this run and its stages have ended; None where
    another run has it."""
    ALONE.parent.mkdir(exist_ok=True)
    with ALONE.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield held.fileno()


def go_through(held: int) -> int:
    """Every stage, then what failed once more; the exit code."""
    run, ran, first = Run(held), stages(), set()
    try:
        for number, stage in enumerate(ran, start=1):
            print(f"== {stage.name}", flush=True)
            run.run(stage, later=ran[number:])
        first = failed(ran)
        run.judge(ran)
    except KeyboardInterrupt:
        tell(ran, sorted(first - failed(ran)), run.kept_before)
        return INTERRUPTED
    tell(ran, sorted(first - failed(ran)), run.kept_before)
    return 0 if all(stage.outcome in (PASSED, UNSTEADY_WORD) for stage in ran) else 1


def failed(ran: list[Stage]) -> set[str]:
    """The ids of all tests that failed so far, but for those that passed alone since."""
    return {test for stage in ran for test in stage.failed}


if __name__ == "__main__":
    sys.exit(main())
