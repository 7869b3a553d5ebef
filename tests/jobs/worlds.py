"""Random graphs as recipes, and the actions that play them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from tasks_app import clock
from tasks_app.approvals.kinds import Kind
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import approval_open
from tasks_app.jobs.actions import (
    Done,
    Result,
    Run,
    StepFailedError,
    WaitForApprovals,
    WaitForOperation,
    WaitUntil,
    action_register,
)
from tasks_app.jobs.models import Job
from tasks_app.operations.models import OperationStatus
from tasks_app.operations.ordering import PLACE, Order, order_run
from tasks_app.sellers.models import Seller
from tests.approvals.conftest import as_asked
from tests.jobs.reference import ASK, BUY, COUNT, DOES, INPUTS, SLEEP, Graph, Node, odd, outputs, weight
from tests.jobs.reference import answer as answer_to

SLEEPS = timedelta(seconds=0.2)
QUESTION = "random_graph"
# A worker that dies costs an attempt: the crashes of a test must not use the budget up.
ATTEMPTS = 20


@st.composite
def graphs(draw: st.DrawFn, *, does: tuple[str, ...] = DOES, most: int = 6, depth: int = 2) -> Graph:
    """Recipes of at most `most` steps, nested `depth` deep."""
    nodes: list[Node] = []
    behind: list[frozenset[int]] = []  # everything that comes before a node
    for number in range(draw(st.integers(1, most))):
        after = draw(st.frozensets(st.integers(0, number - 1), max_size=3)) if number else frozenset()
        known = after.union(*(behind[one] for one in after))
        behind.append(known)
        nodes.append(draw(_nodes(after, sorted(known), does, most, depth)))
    return Graph(nodes=tuple(nodes), tells=draw(st.integers(0, len(nodes) - 1)))


@st.composite
def _nodes(
    draw: st.DrawFn, after: frozenset[int], known: list[int], does: tuple[str, ...], most: int, depth: int
) -> Node:
    sources = st.sampled_from([INPUTS, *known, *known])
    nests = depth > 0 and draw(st.sampled_from([False, False, False, True]))
    rarely = st.sampled_from([False, False, False, False, True])
    return Node(
        does=COUNT if nests else draw(st.sampled_from(does)),
        graph=draw(graphs(does=does, most=max(1, most // 2), depth=depth - 1)) if nests else None,
        after=tuple(sorted(after)),
        reads=tuple(draw(st.lists(sources, max_size=2))),
        condition=draw(st.one_of(*[st.none()] * 4, sources)),
        each=draw(st.one_of(st.none(), st.none(), st.none(), sources)),
        fails=draw(st.sampled_from([0, 0, 0, 0, 1, 2])),
        max_failures=draw(st.sampled_from([3, 3, 3, 2, 1])),
        refused=draw(st.sampled_from([False] * 14 + [True])),
        late=draw(st.booleans()),
        heals=draw(st.booleans()),
        optional=draw(rarely),
    )


def recipes_of(name: str, graph: Graph) -> Iterator[dict[str, Any]]:
    """The recipe of a graph, after those that are nested in it."""
    steps = []
    for number, node in enumerate(graph.nodes):
        step = {
            "id": f"s{number}",
            "after": [f"s{before}" for before in node.after],
            "optional": node.optional,
            "max_failures": node.max_failures,
            "max_attempts": ATTEMPTS,
            "condition": "" if node.condition is None else f"{{{{ {_odd(graph, node.condition)} }}}}",
            "for_each": "" if node.each is None else f"{{{{ {_list(graph, node.each)} }}}}",
        }
        reads = [f"{{{{ {_number(graph, source)} }}}}" for source in node.reads]
        if node.graph is not None:
            inner = f"{name}_{number}"
            yield from recipes_of(inner, node.graph)
            steps.append({**step, "recipe": inner, "inputs": {"reads": reads}})
        else:
            item = None if node.each is None else "{{ item }}"
            inputs = {"reads": reads, "item": item, "script": _script(number, node)}
            steps.append({**step, "action": node.does, "inputs": inputs})
    told = {"n": f"{{{{ {_number(graph, graph.tells)} }}}}"}
    yield {"name": name, "version": 1, "title": name, "steps": steps, "outputs": told}


def _script(number: int, node: Node) -> dict[str, Any]:
    told = ("does", "fails", "refused", "late", "heals")
    return {"number": number, **{name: getattr(node, name) for name in told}}


def _number(graph: Graph, source: int) -> str:
    if source == INPUTS:
        return "inputs.reads | sum"
    each = graph.nodes[source].each is not None
    return f"steps.s{source}.outputs.{'results | length' if each else 'n'}"


def _odd(graph: Graph, source: int) -> str:
    return f"({_number(graph, source)}) % 2 == 1"


def _list(graph: Graph, source: int) -> str:
    if source == INPUTS:
        return "inputs.reads"
    return f"steps.s{source}.outputs.{'list' if graph.nodes[source].each is None else 'results'}"


@dataclass
class Watchers:
    """Called around every action; a test that kills workers puts its own here."""

    begins: Callable[[], None] = lambda: None
    ends: Callable[[], None] = lambda: None


watchers = Watchers()


def play(run: Run) -> Result:
    """Do what the step's script says."""
    watchers.begins()
    script, item = run.inputs["script"], run.inputs["item"]
    total = sum(run.inputs["reads"]) + weight(item)
    troubled = item is None or odd(weight(item))
    if troubled and not script["late"]:
        _trouble(run, script)
    found = _DOING[script["does"]](run, total)
    if not isinstance(found, int):
        return found
    if troubled and script["late"]:
        _trouble(run, script)
    watchers.ends()
    return Done(outputs=outputs(total + script["number"] + 1 + found))


def _trouble(run: Run, script: dict[str, Any]) -> None:
    if script["heals"] and root(run.job).retry_of_id is not None:
        return
    if script["refused"]:
        raise StepFailedError("refused, as told")
    if run.step.failures < script["fails"]:
        raise OSError("failed, as told")


def _count(run: Run, total: int) -> int:
    return 0


def _sleep(run: Run, total: int) -> int | Result:
    assert run.step.started_at is not None
    until = run.step.started_at + SLEEPS
    return 0 if clock.now() >= until else WaitUntil(moment=until)


def _ask(run: Run, total: int) -> int | Result:
    asked = Approval.objects.filter(kind=QUESTION, subject_id=run.step.pk).first()
    if asked is None:
        asked = approval_open(question=_question(run, total), requested_by="system", opened_by="system")
    if asked.status == ApprovalStatus.OPEN:
        return WaitForApprovals(approval_ids=(asked.pk,))
    return 1 if asked.status == ApprovalStatus.APPROVED else 0


def _question(run: Run, total: int) -> Question:
    return Question(
        kind=QUESTION,
        team=run.job.team,
        title="May it?",
        subject_type="thing",
        subject_id=run.step.pk,
        subject_version=1,
        evidence={"total": total},
        policy="Always",
    )


def verdict(approval: Approval) -> str:
    """How people decide."""
    return "approve" if answer_to(approval.evidence["total"]) else "reject"


def _buy(run: Run, total: int) -> int | Result:
    order = Order(
        kind=PLACE,
        purpose=run.purpose("buy"),
        seller=Seller.objects.get(),
        arguments={
            "packages": [{"product_id": "fake-display", "budget": 100 + total}],
            "context": {"effect": effect(run)},
        },
        team=run.job.team,
    )
    operation = order_run(order=order, actor="system", awaited=True)
    if operation.published_at is None:
        return WaitForOperation(operation_id=operation.pk)
    if operation.status != OperationStatus.COMPLETED:
        raise StepFailedError(f"{operation.reference} is {operation.status}")
    return 0


_DOING: dict[str, Callable[[Run, int], int | Result]] = {
    COUNT: _count,
    SLEEP: _sleep,
    ASK: _ask,
    BUY: _buy,
}


def register_actions() -> None:
    """What recipes of graphs name."""
    for name, kind in ((COUNT, "pure"), (SLEEP, "pure"), (ASK, "idempotent"), (BUY, "command")):
        action_register(name, play, kind=kind)


def kind() -> Kind:
    """The question that steps ask."""
    return Kind(
        name=QUESTION,
        label="A step of a random graph",
        apply=lambda approval, outcome: None,
        version=lambda approval: 1,
        asks=as_asked,
        reopen=lambda approval: None,
        effects={},
    )


def root(job: Job) -> Job:
    """The job that nobody nested."""
    while job.parent_step is not None:
        job = job.parent_step.job
    return job


def effect(run: Run) -> str:
    """An effect's name at the seller: the first job in a chain of retries, and the path to its step."""
    job, path = run.job, run.step.key
    while job.parent_step is not None:
        path = f"{job.parent_step.key}/{path}"
        job = job.parent_step.job
    return f"{first(job).pk}:{path}"


def first(job: Job) -> Job:
    """The first of a chain of retries."""
    while job.retry_of is not None:
        job = job.retry_of
    return job


def jobs_below(job: Job) -> list[Job]:
    """The job, and those nested in it, to any depth."""
    level: list[uuid.UUID] = [job.pk]
    found = [job]
    while level:
        below = list(Job.objects.filter(parent_step__job__in=level))
        found += below
        level = [one.pk for one in below]
    return found
