"""Whatever has to come is waited for with a minute's patience, and no test asserts how long something took.

Of a call that waits, a number of seconds is refused where it is more than one and less than sixty: a machine
that does much else besides takes that long. At most a second is a look whether something comes that must not,
a pause, or a limit that is itself what is tested.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[1]
_WAITS = {
    "wait",
    "join",
    "result",
    "exception",
    "acquire",
    "communicate",
    "wait_for",
    "wait_procs",
    "settimeout",
}
_LIMITS = {"timeout", "timeout_s", "patience", "within"}
_CLOCKS = {"monotonic", "perf_counter"}
_LOOK_S = 1.0
_READS_A_CLOCK = {
    "costs.py": "tells what a session costs",
    "support.py": "the one helper that waits",
    "events/test_batches.py": "counts what may be done in as many ticks as have gone by",
    "jobs/crew.py": "kills at moments",
    "jobs/test_random_crashes.py": "cancels at moments",
    "mutants/lanes.py": "no test: ends a mutant that does not end",
    "mutants/running.py": "no test: shares out the minutes given",
    "mutants/sample.py": "no test: shares out the minutes given",
}


def numbers(tree: ast.Module) -> dict[str, float]:
    """The module's constants that are numbers, by name."""
    found = {}
    for line in tree.body:
        if isinstance(line, ast.Assign) and (number := _number(line.value, {})) is not None:
            found.update({name.id: number for name in line.targets if isinstance(name, ast.Name)})
    return found


def _number(node: ast.expr, named: dict[str, float]) -> float | None:
    if isinstance(node, ast.Name):
        return named.get(node.id)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)  # type: ignore[arg-type]
    return None


def impatient(text: str) -> Iterator[int]:
    """The lines of calls that give up too soon."""
    tree = ast.parse(text)
    named = numbers(tree)
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        limits = [each.value for each in call.keywords if each.arg in _LIMITS]
        if isinstance(call.func, ast.Attribute) and call.func.attr in _WAITS:
            limits += call.args
        if any(
            _LOOK_S < number < PATIENCE_S for one in limits if (number := _number(one, named)) is not None
        ):
            yield call.lineno


def clocks(text: str) -> Iterator[int]:
    """The lines that read a clock of seconds gone by."""
    for node in ast.walk(ast.parse(text)):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name in _CLOCKS:
            yield node.lineno  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("it.wait(10)", [1]),
        ("LONG = 20\nit.result(LONG)", [2]),
        ("it.wait(timeout=1.5)", [1]),
        ("get(url, timeout=5)", [1]),
        ("until(over, patience=40)", [1]),
        ("asyncio.wait_for(run(), 30)", [1]),
        ("it.wait(60)", []),
        ("it.wait(PATIENCE_S)", []),
        ("it.wait(0.5)", []),
        ("', '.join(words)", []),
        ("timedelta(seconds=30)", []),
    ],
)
def test_what_gives_up_too_soon_is_seen(text: str, found: list[int]) -> None:
    assert list(impatient(text)) == found


@pytest.mark.parametrize(
    "text", ["time.monotonic()", "from time import perf_counter\nbegan = perf_counter()"]
)
def test_a_clock_is_seen(text: str) -> None:
    assert list(clocks(text))


def test_whatever_waits_has_patience() -> None:
    found = [f"{path.relative_to(ROOT)}:{line}" for path, text in sources() for line in impatient(text)]
    assert not found, f"say PATIENCE_S, or until(...): {found}"


def test_a_browser_waits_as_everything_does() -> None:
    """Playwright's limits are milliseconds: those of `tests/ui/browser.py` hold, and no test has its own."""
    own = {
        path.name
        for path, text in sources()
        if path.parent.name == "ui"
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and any(each.arg == "timeout" for each in call.keywords)
    }
    assert own == {"browser.py"}


def test_no_test_reads_how_long_something_took() -> None:
    found = {str(path.relative_to(ROOT)) for path, text in sources() if list(clocks(text))}
    assert found == set(_READS_A_CLOCK), "a test counts steps or turns the clock; times are in bench/"


def sources() -> list[tuple[Path, str]]:
    return [(path, path.read_text()) for path in sorted(ROOT.rglob("*.py"))]


def test_who_waits_gets_the_answer_or_is_told_what_did_not_come() -> None:
    answers = iter([None, 0, "here"])
    assert until(lambda: next(answers), every=0.0) == "here"
    with pytest.raises(AssertionError, match="not within 0 s: it comes"):
        until(lambda: False, "it comes", patience=0.0)
