"""Whatever has to come is waited for with a minute's patience, and no test asserts how long something took.

Of a call that waits, a number of seconds is refused where it is more than one and less than sixty: a machine
that does much else besides takes that long. At most a second is a look whether something comes that must not,
a pause, or a limit that is itself what is tested. Such a number is refused as a parameter's default, in a
dict or a pair, in an environment and as what a test puts in the place of a limit of ours too; so are a
request that leaves the limit to its library, a line that a process prints, a loop that sleeps, and a look of
whatever length where a test asserts that something came.
"""

from __future__ import annotations

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[1]
_THIS = "suite/test_patience.py"
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
    "timeout",
    "select",
    "as_completed",
    "create_connection",
    "fail_after",
    "move_on_after",
    "poll",
}
# What waits as a function of its own name, too.
_BY_NAME = {"wait", "wait_for", "wait_procs", "timeout", "select", "as_completed", "create_connection"}
_LIMITS = {"timeout", "timeout_s", "limit_s", "grace_s", "patience", "within"}
_LIBRARIES = {"httpx", "httpx2", "requests"}
_ASKS = {
    *("get", "post", "put", "patch", "delete", "head", "options", "request", "stream"),
    *("Client", "AsyncClient"),
}
_SIGNS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time"}
_CLOCKS |= {f"{name}_ns" for name in _CLOCKS}
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_NOW = {"time", "time_ns", "now", "utcnow", "today"}
_LOOK_S = 1.0
# How many lines of each file, and why they may.
_ENDS_MEANWHILE = {
    "forked/parent.py": (1, "until its parent has ended, which has"),
    "jobs/cluster.py": (2, "a killed worker's leases run out while others, who renew theirs, are waited for"),
    "jobs/crew.py": (4, "as there; and it works until it is killed"),
    "mutants/lanes.py": (1, "no test: looks after mutants"),
    "races/life.py": (1, "what a worker does, killed or at the job's end"),
}
_READS_A_CLOCK = {
    "costs.py": (4, "tells what a session costs"),
    "database.py": (1, "erases what killed sessions left, once it is old"),
    "interrupted.py": (2, "no test: how long testers have to end what they started"),
    "support.py": (2, "the one helper that waits"),
    "events/test_batches.py": (2, "counts what may be done in as many ticks as have gone by"),
    "jobs/crew.py": (2, "kills at moments"),
    "jobs/test_aside.py": (2, "works for so much of a processor's time, however long that takes"),
    "jobs/test_random_crashes.py": (2, "cancels at moments"),
    "mutants/lanes.py": (4, "no test: ends a mutant that does not end"),
    "mutants/running.py": (3, "no test: shares out the minutes given"),
    "mutants/sample.py": (3, "no test: shares out the minutes given"),
    "operations/test_worker_polls.py": (1, "counts the looks that there may be in as much time"),
    "ui/test_today.py": (2, "how old a page is to show something"),
}


def numbers(tree: ast.Module) -> dict[str, float]:
    """The module's constants that are numbers, by name."""
    found = {"PATIENCE_S": PATIENCE_S}
    for line in tree.body:
        if isinstance(line, ast.Assign | ast.AnnAssign) and line.value is not None:
            names = line.targets if isinstance(line, ast.Assign) else [line.target]
            if (number := _number(line.value, found)) is not None:
                found.update({name.id: number for name in names if isinstance(name, ast.Name)})
    return found


def _number(node: ast.expr, named: dict[str, float]) -> float | None:
    match node:
        case ast.Name(id=name):
            return named.get(name)
        case ast.Constant(value=int() | float() as number) if type(number) is not bool:
            return float(number)
        case ast.Constant(value=str() as text) if re.fullmatch(r"[0-9]+([.][0-9]+)?", text):
            return float(text)  # an environment's
        case ast.Call(func=ast.Name(id="str"), args=[number]):
            return _number(number, named)  # for an environment
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS:
            one, other = _number(left, named), _number(right, named)
            if one is not None and other is not None:
                return _SIGNS[type(op)](one, other)
    return None


def impatient(text: str) -> list[int]:
    """The lines that give up too soon, or without saying when."""
    tree = ast.parse(text)
    named, found = numbers(tree), set[int]()
    for node in ast.walk(tree):
        for limit in _limits(node):
            number = _number(limit, named)
            if number is not None and _LOOK_S < number < PATIENCE_S:
                found.add(limit.lineno)
        hasty = (_asks_without_a_limit(node), _reads_a_process(node), _looks_for_it(node, named))
        if any(hasty) or _sleeps_so_often(node, named) or _sleeps_long(node, named):
            found.add(node.lineno)  # type: ignore[attr-defined]
    return sorted(found)


def _limits(node: ast.AST) -> Iterator[ast.expr]:
    """What is said there of how long to wait."""
    match node:
        case ast.Call():
            yield from _limits_of_call(node)
        case ast.Assign() | ast.AnnAssign() if node.value is not None and _sets_seconds(node):
            yield node.value
        case ast.arguments():
            told = [*node.posonlyargs, *node.args]
            told, defaults = told[len(told) - len(node.defaults) :], list(node.defaults)
            pairs = [*zip(told, defaults, strict=True), *zip(node.kwonlyargs, node.kw_defaults, strict=True)]
            yield from (default for name, default in pairs if name.arg in _LIMITS and default is not None)
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and _is_limit(str(key.value)):
                    yield value
        case ast.Tuple(elts=[ast.Constant(value=str() as name), value]) if _is_limit(name):
            yield value


def _sets_seconds(line: ast.Assign | ast.AnnAssign) -> bool:
    """Whether it puts something in the place of a limit of ours."""
    for target in line.targets if isinstance(line, ast.Assign) else [line.target]:
        match target:
            case ast.Attribute(attr=name) if name.endswith("_S"):
                return True
            case ast.Subscript(slice=ast.Constant(value=str() as name)) if name.endswith("_S"):
                return True
    return False


def _limits_of_call(call: ast.Call) -> Iterator[ast.expr]:
    yield from (each.value for each in call.keywords if each.arg and _is_limit(each.arg))
    match call.func:
        case ast.Attribute(attr=does):
            waits = does in _WAITS or (does == "get" and _is_true(*call.args[:1]))  # the last a queue's
        case ast.Name(id=does):
            waits = does in _BY_NAME
        case _:
            return
    if waits:
        yield from call.args
    if does in {"setattr", "setenv", "setitem", "object", "patch"} and _names_seconds(*call.args[:-1]):
        yield call.args[-1]


def _is_true(*words: ast.expr) -> bool:
    return any(isinstance(word, ast.Constant) and word.value is True for word in words)


def _is_limit(name: str) -> bool:
    return name in _LIMITS or name.endswith("_S")


def _names_seconds(*words: ast.expr) -> bool:
    return any(isinstance(word, ast.Constant) and str(word.value).endswith("_S") for word in words)


def _asks_without_a_limit(node: ast.AST) -> bool:
    """Of httpx that is one of 5 s, of requests none at all."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=library), attr=does), keywords=named):
            told = {each.arg for each in named}
            return library in _LIBRARIES and does in _ASKS and not told & {"timeout", None}
    return False


def _reads_a_process(node: ast.AST) -> bool:
    """A line of what another process prints: it may hang, where `line_of` would tell."""
    match node:
        case ast.Call(func=ast.Attribute(attr="readline", value=ast.Attribute(attr="stdout" | "stderr"))):
            return True
    return False


def _sleeps_so_often(node: ast.AST, named: dict[str, float]) -> bool:
    """Turns with a pause in each, so many or for so long: where `until` would wait for what has to come."""
    match node:
        case ast.For() | ast.While():
            return any(_sleeps(each, named) for line in node.body for each in ast.walk(line))
    return False


def _sleeps(node: ast.AST, named: dict[str, float]) -> bool:
    """Not for 0 seconds: that lets others have their turn."""
    match node:
        case ast.Call(func=ast.Attribute(attr="sleep" | "wait") | ast.Name(id="sleep"), args=[how_long]):
            return 0 < (_number(how_long, named) or 0) <= _LOOK_S
        case ast.Call(func=ast.Attribute(attr="wait"), keywords=[ast.keyword(arg="timeout", value=how_long)]):
            return 0 < (_number(how_long, named) or 0) <= _LOOK_S
    return False


def _looks_for_it(node: ast.AST, named: dict[str, float]) -> bool:
    """That something came within a second or less: asserted, or the patience of `until`."""
    match node:
        case ast.Assert(test=said):
            calls = list(_wanted(said))
            told = [limit for call in calls if _waits(call) for limit in _limits_of_call(call)]
            named_there = [each for call in calls if not _waits(call) for each in call.keywords]
            told += [each.value for each in named_there if each.arg in {"timeout", "patience", "within"}]
        case ast.Call(func=ast.Name(id="until") | ast.Attribute(attr="until"), keywords=named_too):
            told = [each.value for each in named_too if each.arg == "patience"]
        case _:
            return False
    numbers_told = (_number(limit, named) for limit in told)
    return any(number is not None and number < PATIENCE_S for number in numbers_told)


def _waits(call: ast.Call) -> bool:
    return ast.unparse(call.func).rsplit(".", 1)[-1] in {*_WAITS, "get"}


def _wanted(said: ast.AST) -> Iterator[ast.Call]:
    """The calls in what is asserted, but for what must not be."""
    match said:
        case ast.UnaryOp(op=ast.Not()):
            return
        case ast.Compare(ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=False | None)]):
            return
        case ast.Compare(ops=[ast.Eq()], comparators=[ast.List(elts=[])]):
            return
        case ast.Call():
            yield said
    for part in ast.iter_child_nodes(said):
        yield from _wanted(part)


def _sleeps_long(node: ast.AST, named: dict[str, float]) -> bool:
    """So long that something has to have come meanwhile."""
    match node:
        case ast.Call(func=ast.Attribute(attr="sleep") | ast.Name(id="sleep"), args=[how_long]):
            return _LOOK_S < (_number(how_long, named) or 0) < PATIENCE_S
    return False


def clocks(text: str) -> Iterator[int]:
    """The lines that read a clock of seconds gone by, or take a moment from the present one, or compare what
    is read of it with a moment so much later."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name):
                reads = name in _CLOCKS or name == "elapsed"
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                reads = _reads_now(left) and not _is_a_length(right)
            case ast.Compare(left=left, ops=ops, comparators=others) if any(
                isinstance(op, _ORDERS) for op in ops
            ):
                reads = any(_is_between(*sides) for sides in pairwise([left, *others]))
            case _:
                continue
        if reads:
            yield node.lineno


def _reads_now(*nodes: ast.expr) -> bool:
    reads = (each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Call))
    return any(ast.unparse(each.func).rsplit(".", 1)[-1] in _NOW for each in reads)


def _is_between(*sides: ast.expr) -> bool:
    """Whether a moment that is read is compared with one that was and some time more, or less some time."""
    later = [side for side in sides if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Add)]
    earlier = [side for side in sides if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Sub)]
    if any(_reads_now(side.left) and _is_a_length(side.right) for side in earlier):
        return True
    return bool(later) and any(_reads_now(side) for side in sides if side not in later)


def _is_a_length(node: ast.expr) -> bool:
    match node:
        case ast.Constant() | ast.UnaryOp():
            return True
        case ast.Call(func=called):
            return ast.unparse(called).rsplit(".", 1)[-1] in {"timedelta", "hours"}
        case ast.BinOp(left=left, right=right):
            return _is_a_length(left) and _is_a_length(right)
    return ast.unparse(node).rsplit(".", 1)[-1].isupper()  # a constant's or a setting's name


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("it.wait(10)", [1]),
        ("LONG = 20\nit.result(LONG)", [2]),
        ("it.wait(timeout=1.5)", [1]),
        ("get(url, timeout=5)", [1]),
        ("until(over, patience=40)", [1]),
        ("asyncio.wait_for(run(), 30)", [1]),
        ("LONG: Final = 20\nit.result(LONG)", [2]),
        ("LONG: float = 20\nTWICE = 2 * LONG\nit.result(TWICE)", [3]),
        ("it.wait(2 * 10)", [1]),
        ("it.wait(PATIENCE_S / 3)", [1]),
        ("def ask(tool, timeout: float = 5): ...", [1]),
        ("def ask(tool=9, *, within=None, patience=5): ...", [1]),
        ("ask(\n **{'timeout_s': 5.0, **changes})", [2]),
        ("process.stdout.readline()", [1]),
        ("sys.stdin.readline()", []),
        ("httpx.get(url)", [1]),
        ("httpx2.AsyncClient(headers=headers)", [1]),
        ("requests.post(url, data=body)", [1]),
        ("for _ in range(50):\n  if here(): break\n  time.sleep(0.1)", [1]),
        ("for _ in range(50):\n  pause.wait(0.1)", [1]),
        ("settings.CALL_TIMEOUT_S = 5", [1]),
        ("monkeypatch.setattr(module, '_WAIT_S', 5)", [1]),
        ("monkeypatch.setattr('tasks_app.jobs.worker._DRAIN_S', 45)", [1]),
        ("override_settings(CALL_TIMEOUT_S=5)", [1]),
        ("monkeypatch.setenv('FLIGHTDECK_STEP_LEASE_S', '2')", [1]),
        ("start(env={**os.environ, 'FLIGHTDECK_STEP_LEASE_S': '2.5'})", [1]),
        ("ask(*[('timeout', 5)])", [1]),
        ("_LEASE_S = 2\nstart(env={'FLIGHTDECK_STEP_LEASE_S': str(_LEASE_S)})", [2]),
        ("start(env={'FLIGHTDECK_STEP_LEASE_S': '3600', 'FLIGHTDECK_POLL_SCALE': '2'})", []),
        ("ask(('timeout', given), ('most', 5))", []),
        ("settings.CALL_TIMEOUT_S = 0.1", []),
        ("patch.setattr(module, 'most', 5)", []),
        ("it.wait(60)", []),
        ("it.wait(3 * PATIENCE_S)", []),
        ("def ask(tool=5, timeout: float = PATIENCE_S): ...", []),
        ("{'within': (2, 20), 'timeout_s': given}", []),
        ("httpx.get(url, timeout=PATIENCE_S)", []),
        ("httpx.get(url, **limits)", []),
        ("httpx.Headers()", []),
        ("for _ in range(2):\n  await asyncio.sleep(0)", []),
        ("for _ in range(2):\n  here.wait(PATIENCE_S)", []),
        ("for one in many:\n  time.sleep(0.1)", [1]),
        ("while tries < 50:\n  tries += 1\n  sleep(0.1)", [1]),
        ("while time.time() < ends:\n  time.sleep(0.1)", [1]),
        ("while not seen:\n  await asyncio.sleep(0)", []),
        ("wait(these, 5)", [1]),
        ("as_completed(these, timeout=5)", [1]),
        ("socket.create_connection(address, 5)", [1]),
        ("anyio.fail_after(5)", [1]),
        ("assert seen.wait(1)", [1]),
        ("assert seen.wait(PATIENCE_S)", []),
        ("assert not seen.wait(0.5)", []),
        ("assert seen.wait(1) is True", [1]),
        ("assert seen.wait(timeout=0.5) and over", [1]),
        ("assert queue.get(timeout=1) == 'x'", [1]),
        ("assert await asyncio.wait_for(ask(), 1) == 3", [1]),
        ("assert all(one.acquire(timeout=1) for one in both)", [1]),
        ("assert queue.get(timeout=0.5) is None", []),
        ("support.until(over, patience=1)", [1]),
        ("assert comes(within=1)", [1]),
        ("assert line_of(process, patience=0.5)", [1]),
        ("assert heard(timeout=1)", [1]),
        ("assert not heard(timeout=1)", []),
        ("assert heard(timeout=1) is None", []),
        ("one._WAIT_S = other._WAIT_S = 5", [1]),
        ("module.WAIT_S: float = 5", [1]),
        ("os.environ['FLIGHTDECK_STEP_LEASE_S'] = '5'", [1]),
        ("monkeypatch.setitem(os.environ, 'FLIGHTDECK_STEP_LEASE_S', '5')", [1]),
        ("mock.patch.object(module, '_WAIT_S', 5)", [1]),
        ("mock.patch('module._WAIT_S', 5)", [1]),
        ("while not seen:\n  pause.wait(timeout=0.1)", [1]),
        ("until(over, patience=1)", [1]),
        ("it.wait(PATIENCE_S)", []),
        ("it.wait(0.5)", []),
        ("', '.join(words)", []),
        ("async with asyncio.timeout(5): ...", [1]),
        ("wait_for(run(), 30)", [1]),
        ("waiting.get(True, 5)", [1]),
        ("told.get('name', 5)", []),
        ("select.select([it], [], [], 5)", [1]),
        ("time.sleep(3)\nassert done()", [1]),
        ("time.sleep(1)", []),
        ("timedelta(seconds=30)", []),
    ],
)
def test_what_gives_up_too_soon_is_seen(text: str, found: list[int]) -> None:
    assert impatient(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "time.monotonic()",
        "from time import perf_counter\nbegan = perf_counter()",
        "time.perf_counter_ns()",
        "assert time.time() - began < 2",
        "took = time.time() - began\nassert took < 2",
        "from time import time\nassert time() - began < 2",
        "took = (datetime.now(UTC) - began).total_seconds()",
        "took = clock.now() - row.created_at",
        "began = time.process_time()",
        "took = asyncio.get_running_loop().time() - began",
        "assert time.time() < began + 2",
        "assert clock.now() < began + timedelta(seconds=2)",
        "assert clock.now() - timedelta(seconds=2) < began",
        "assert began <= clock.now() < began + timedelta(seconds=2)",
        "from time import monotonic as now",
        "assert datetime.today() - began < LONG",
        "assert response.elapsed.total_seconds() < 2",
        "assert clock.now() - (began + timedelta(seconds=2)) < LONG",
    ],
)
def test_a_clock_is_seen(text: str) -> None:
    assert list(clocks(text))


@pytest.mark.parametrize(
    "text",
    [
        "clock.now() - timedelta(days=1)",
        "datetime.now(UTC) - 2 * timedelta(days=1)",
        "clock.now() - settings.NOTIFICATION_KEEP",
        "clock.now() - _AGE",
        "time.time() - 60",
        "row.at - before",
    ],
)
def test_a_moment_before_now_is_no_time_gone_by(text: str) -> None:
    assert not list(clocks(text))


def test_whatever_waits_has_patience() -> None:
    found = Counter(name for name, text in sources() for _ in impatient(text))
    del found[_THIS]
    assert found == {name: lines for name, (lines, _) in _ENDS_MEANWHILE.items()}, "PATIENCE_S, or until(...)"


def test_a_browser_waits_as_everything_does() -> None:
    """Playwright's limits are milliseconds: those of `tests/ui/browser.py` hold, and no test has its own, nor
    a context without them."""
    own = {
        name
        for name, text in sources()
        if name.startswith("ui/")
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call)
        and (ast.unparse(call.func).endswith("new_context") or any(k.arg == "timeout" for k in call.keywords))
    }
    assert own == {"ui/browser.py"}


def test_no_test_reads_how_long_something_took() -> None:
    found = Counter(name for name, text in sources() for _ in clocks(text))
    allowed = {name: lines for name, (lines, _) in _READS_A_CLOCK.items()}
    assert found == allowed, "a test counts steps or turns the clock; times are in bench/"


def sources() -> list[tuple[str, str]]:
    return [(str(path.relative_to(ROOT)), path.read_text()) for path in sorted(ROOT.rglob("*.py"))]


def test_who_waits_gets_the_answer_or_is_told_what_did_not_come() -> None:
    answers = iter([None, 0, "here"])
    assert until(lambda: next(answers), every=0.0) == "here"
    with pytest.raises(AssertionError, match="not within 0 s: it comes"):
        until(lambda: False, "it comes", patience=0.0)
