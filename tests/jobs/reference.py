"""What a recipe means, told once more and simply: no database, no time, no crash.

A `Graph` is a recipe as data: `tests.jobs.worlds` renders it as one, `played` says how its run ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

COUNT, SLEEP, ASK, BUY = "count", "sleep", "ask", "buy"
DOES = (COUNT, SLEEP, ASK, BUY)
INPUTS = -1  # as a source: the job's own inputs


@dataclass(frozen=True, kw_only=True)
class Node:
    """One step. `reads`, `condition` and `each` name earlier steps (or INPUTS): numbers that it adds up, a
    number that must be odd, a list that it fans out over. It ends in `fails` errors before it succeeds, or is
    `refused` for good; of a fan-out only odd items do. `late`: after its effect. `heals`: not in a retry."""

    does: str = COUNT
    graph: Graph | None = None
    after: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()
    condition: int | None = None
    each: int | None = None
    fails: int = 0
    max_failures: int = 3
    refused: bool = False
    late: bool = False
    heals: bool = False
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A recipe; its output is the number of the node it `tells`."""

    nodes: tuple[Node, ...]
    tells: int


@dataclass(frozen=True, kw_only=True)
class StepEnd:
    """How a step ended; `child` is the run of its nested recipe, `item` what it was an item for."""

    status: str
    outputs: dict[str, Any] | None = None
    skipped: bool = False
    failures: int = 0
    item: Any = None
    child: JobEnd | None = None


@dataclass(kw_only=True)
class JobEnd:
    """How a job ended. `bought`: the paths (`s1/s0[2]`) of the effects at the seller, each once."""

    status: str = ""
    outputs: dict[str, Any] | None = None
    steps: dict[str, StepEnd] = field(default_factory=dict)
    bought: set[str] = field(default_factory=set)


class MissingError(Exception):
    """A value is read that is not there."""


def weight(item: Any) -> int:
    """What an item counts for."""
    return int(item.get("n", 0)) if isinstance(item, dict) else int(item or 0)


def odd(number: int) -> bool:
    return number % 2 == 1


def answer(total: int) -> int:
    """What people answer to a question: yes to even totals."""
    return 0 if odd(total) else 1


def outputs(number: int) -> dict[str, Any]:
    """What a step that came to `number` puts out."""
    return {"n": number % 7, "list": list(range(number % 4))}


def played(
    graph: Graph, inputs: list[int], *, path: str = "", healed: bool = False, before: JobEnd | None = None
) -> JobEnd:
    """How a job ends whose inputs are these numbers. `before`: the failed run that it retries."""
    return _Player(graph, inputs, path, healed, before).play()


class _Player:
    def __init__(
        self, graph: Graph, inputs: list[int], path: str, healed: bool, before: JobEnd | None
    ) -> None:
        self._graph, self._inputs, self._path, self._healed = graph, inputs, path, healed
        self._before = before.steps if before else {}
        self._end = JobEnd()

    def play(self) -> JobEnd:
        lost: set[int] = set()  # what failed or was abandoned: whatever depends on it is not done
        for number, node in enumerate(self._graph.nodes):
            if lost & set(node.after):
                self._end.steps[f"s{number}"] = StepEnd(status="cancelled")
                lost.add(number)
                continue
            ended = self._end.steps[f"s{number}"] = self._step(number, node)
            if ended.status == "failed" and not node.optional:
                lost.add(number)
        self._end.status = "FAILED" if lost else "COMPLETED"
        if not lost:
            self._tell()
        return self._end

    def _tell(self) -> None:
        try:
            self._end.outputs = {"n": self._number(self._graph.tells)}
        except MissingError:
            self._end.status = "FAILED"

    def _step(self, number: int, node: Node) -> StepEnd:
        key = f"s{number}"
        done = self._before.get(key)
        if done is not None and done.status == "completed":
            return replace(done, child=None, failures=0)  # adopted: nothing runs
        try:
            if node.condition is not None and not odd(self._number(node.condition)):
                none = {"results": []} if node.each is not None else {}  # as of an empty list
                return StepEnd(status="completed", outputs={**none, "skipped": True}, skipped=True)
            if node.each is not None:
                return self._fan_out(number, node, self._list(node.each))
        except MissingError:
            return StepEnd(status="failed")
        return self._one(number, node, key, None)

    def _fan_out(self, number: int, node: Node, items: list[Any]) -> StepEnd:
        ends = []
        for index, item in enumerate(items):
            key = f"s{number}[{index}]"
            done = self._before.get(key)
            if done is not None and done.status == "completed" and done.item == item:
                ended = replace(done, child=None, failures=0)
            else:
                ended = replace(self._one(number, node, key, item), item=item)
            self._end.steps[key] = ended
            ends.append(ended)
        if any(one.status == "failed" for one in ends) and not node.optional:
            return StepEnd(status="failed")
        results = [one.outputs for one in ends if one.status == "completed"]
        return StepEnd(status="completed", outputs={"results": results})

    def _one(self, number: int, node: Node, key: str, item: Any) -> StepEnd:
        try:
            read = [self._number(source) for source in node.reads]
        except MissingError:
            return StepEnd(status="failed")
        if node.graph is not None:
            return self._nested(node.graph, key, read)
        total = sum(read) + weight(item)
        trouble = (item is None or odd(weight(item))) and not (node.heals and self._healed)
        broken = trouble and (node.refused or node.fails >= node.max_failures)
        if node.does == BUY and (node.late or not broken):
            self._end.bought.add(self._path + key)
        failures = 0 if not trouble or node.refused else min(node.fails, node.max_failures - 1)
        if broken:
            return StepEnd(status="failed", failures=failures)
        more = answer(total) if node.does == ASK else 0
        return StepEnd(status="completed", outputs=outputs(total + number + 1 + more), failures=failures)

    def _nested(self, graph: Graph, key: str, read: list[int]) -> StepEnd:
        earlier = self._before.get(key)
        before = earlier.child if earlier else None
        child = played(graph, read, path=f"{self._path}{key}/", healed=self._healed, before=before)
        self._end.bought |= child.bought
        status = "completed" if child.status == "COMPLETED" else "failed"
        return StepEnd(status=status, outputs=child.outputs, child=child)

    def _number(self, source: int) -> int:
        if source == INPUTS:
            return sum(self._inputs)
        out = self._outputs(source)
        if self._graph.nodes[source].each is not None:
            return len(_found(out, "results"))
        return int(_found(out, "n"))

    def _list(self, source: int) -> list[Any]:
        if source == INPUTS:
            return self._inputs
        name = "list" if self._graph.nodes[source].each is None else "results"
        return list(_found(self._outputs(source), name))

    def _outputs(self, source: int) -> dict[str, Any]:
        ended = self._end.steps[f"s{source}"]
        if ended.status != "completed":
            raise MissingError
        return ended.outputs or {}


def _found(values: dict[str, Any], name: str) -> Any:
    if name not in values:
        raise MissingError
    return values[name]


def nested(end: JobEnd) -> Iterator[JobEnd]:
    """The job's end and, depth first, those of the jobs nested in it."""
    yield end
    for step in end.steps.values():
        if step.child is not None:
            yield from nested(step.child)
