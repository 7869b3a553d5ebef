"""A job's graph as data: what each step is, does and waits for, what decides the end, how it is resumed
(document 001, sections 6.3.2 and 6.3.4).

Bounded whatever the job's size: fan-outs of more than FOLD_ABOVE items are folded to counts, and more than
NODES_AT_ONCE steps come in pages.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Q, Sum
from django.utils import timezone

from tasks_app import clock, days
from tasks_app.approvals.models import Approval
from tasks_app.jobs.awaited import AwaitedOperation, Told, awaited_by, operations_of, told_of
from tasks_app.jobs.critical import CriticalPath, Span, critical_path
from tasks_app.jobs.left import answers_left, wait_left
from tasks_app.jobs.models import STEP_ENDED, WAITING, Edge, Job, Step, StepStatus, WorkflowEvent
from tasks_app.jobs.progress import WorkflowStatus, resume_token, workflow_statuses
from tasks_app.jobs.recipes import StepSpec
from tasks_app.jobs.shown import fits, shown
from tasks_app.jobs.templates import TemplateFailedError, resolve
from tasks_app.jobs.waits import Awaited, Wait, wait_of
from tasks_app.operations.models import Operation

S = StepStatus
FOLD_ABOVE = 50
NODES_AT_ONCE = 1000
_ESTIMATES = 20  # sellers' tasks that are asked for an estimate; the path needs no more


@dataclass(frozen=True, kw_only=True)
class Items:
    """What a step fanned out to: how many of each status. `folded`: they are not among the nodes."""

    total: int
    by_status: Mapping[str, int]
    folded: bool


@dataclass(frozen=True, kw_only=True)
class GraphNode:
    """One step. `attempt` of `max_attempts`: the try it is at, counting those that ended in an error or with
    their worker, not resumes; `duration`: from its first start to its end, None while open; `inputs`: with
    their expressions resolved, None before they can be; `too_large`: values of more than 100 kB, left out;
    `skip_reason`: why a person skipped it, empty where its condition was not met."""

    id: uuid.UUID
    key: str
    title: str
    status: str
    status_since: datetime
    lane: str
    priority: int
    optional: bool
    attempt: int
    max_attempts: int
    failures: int
    max_failures: int
    last_error: str
    next_retry: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    duration: timedelta | None
    waiting_for: Wait | None
    skipped: bool
    skip_reason: str
    critical: bool
    inputs: Any
    outputs: Any
    too_large: bool
    fan_out: uuid.UUID | None
    item_index: int | None
    items: Items | None
    child_job: Job | None


@dataclass(frozen=True, kw_only=True)
class GraphEdge:
    """`type` after: `target` begins when `source` has ended; item: `source` fanned out to `target`."""

    source: uuid.UUID
    target: uuid.UUID
    type: str


@dataclass(frozen=True, kw_only=True)
class JobGraph:
    """`counts`: all steps by status, items included; `next_after`: where the next page of nodes begins, None
    on the last; `workflow_status`: None when the job has ended; operations: steps wait, or waited, for."""

    job: Job
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    next_after: uuid.UUID | None
    counts: Mapping[str, int]
    workflow_status: WorkflowStatus | None
    pending_operations: tuple[AwaitedOperation, ...]
    completed_operations: tuple[AwaitedOperation, ...]
    critical_path: CriticalPath
    resume_token: str

    def step_results(self) -> dict[str, Any]:
        """What completed steps put out, in document 001's shape: `{"steps": {"<id>": {"outputs": …}}}`."""
        done = (node for node in self.nodes if node.status == S.COMPLETED and node.fan_out is None)
        return {"steps": {node.key: {"outputs": node.outputs} for node in done}}


def job_graph(job: Job, *, after: uuid.UUID | None = None, values: bool = True) -> JobGraph:
    """The graph of a job that the viewer was found to see; `after`: the page of nodes behind that one.

    `values`: with inputs and outputs. At most 16 queries, and one per estimate (20 at most).
    """
    counts, items = _counts(job)
    steps, next_after = _page(job, after, items)
    edges = list(Edge.objects.filter(before__job=job).order_by("id").values_list("before_id", "after_id"))
    awaited = awaited_by(steps)
    told = told_of(job)
    pending, completed = operations_of(job, told)
    path = critical_path(_spans(job, edges, steps, awaited), clock.now())
    view = _View(
        job=job,
        awaited=awaited,
        told=told,
        items=items,
        critical=frozenset(path.steps),
        scope={"inputs": job.inputs, "steps": _outputs(steps)} if values else None,
    )
    here = {step.pk for step in steps}
    return JobGraph(
        job=job,
        nodes=tuple(_node(step, view) for step in steps),
        edges=(
            *(GraphEdge(source=b, target=a, type="after") for b, a in edges if a in here),
            *(
                GraphEdge(source=step.fan_out_id, target=step.pk, type="item")
                for step in steps
                if step.fan_out_id
            ),
        ),
        next_after=next_after,
        counts=counts,
        workflow_status=workflow_statuses([job])[job.pk],
        pending_operations=pending,
        completed_operations=completed,
        critical_path=path,
        resume_token=resume_token(job),
    )


def job_steps(job: Job, steps: Iterable[Step], *, values: bool = True) -> list[GraphNode]:
    """Steps of the job as nodes, such as a page of a folded fan-out's items; none is marked as critical."""
    rows = list(steps)
    done = Step.objects.filter(job=job, fan_out=None, status=S.COMPLETED) if values else ()
    view = _View(
        job=job,
        awaited=awaited_by(rows),
        told=told_of(job),
        items=_counts(job)[1],
        critical=frozenset(),
        scope={"inputs": job.inputs, "steps": _outputs(done)} if values else None,
    )
    return [_node(step, view) for step in rows]


def graph_version(job: Job) -> str:
    """A short text that changes when the graph does: what a poller compares (ETag). Four small queries."""
    steps = Step.objects.filter(job=job).aggregate(
        Sum("version"), Sum("attempts"), Sum("priority"), Sum("incoming"), Count("ready_at"),
        come=Count("pk", filter=Q(ready_at__lte=clock.now())),
    )  # fmt: skip
    latest = WorkflowEvent.objects.filter(job=job).aggregate(Max("id"))
    children = Job.objects.filter(parent_step__job=job).aggregate(Sum("version"))
    asleep = Step.objects.filter(job=job, status__in=WAITING, waiting_for__isnull=False)
    waits = list(asleep.order_by("id").values_list("waiting_for", flat=True)[:NODES_AT_ONCE])
    said = [
        job.version,
        job.priority,
        *steps.values(),
        *latest.values(),
        *children.values(),
        *_versions(waits),
    ]
    # Times are shown as days and hours of the viewer's zone.
    said += [timezone.get_current_timezone_name(), days.today()]
    return hashlib.sha256(repr(said).encode()).hexdigest()[:32]


def _versions(waits: Iterable[dict[str, Any] | None]) -> list[Any]:
    operations = [wait["id"] for wait in waits if wait and wait["type"] == "operation"]
    approvals = [pk for wait in waits if wait and wait["type"] == "approvals" for pk in wait["ids"]]
    said: list[Any] = []
    if operations:
        rows = Operation.objects.filter(pk__in=operations)
        said += rows.aggregate(Sum("version"), Max("deadline_at")).values()
    if approvals:
        said += Approval.objects.filter(pk__in=approvals).aggregate(Sum("version")).values()
    return said


def _counts(job: Job) -> tuple[dict[str, int], dict[uuid.UUID, Items]]:
    """All steps by status, and what each fan-out became."""
    counts: Counter[str] = Counter()
    items: dict[uuid.UUID, Counter[str]] = {}
    rows = Step.objects.filter(job=job).order_by().values_list("fan_out", "status").annotate(Count("pk"))
    for fan_out, status, count in rows:
        counts[status] += count
        if fan_out is not None:
            items.setdefault(fan_out, Counter())[status] += count
    folded = {
        pk: Items(total=found.total(), by_status=dict(found), folded=found.total() > FOLD_ABOVE)
        for pk, found in items.items()
    }
    return dict(counts), folded


def _page(
    job: Job, after: uuid.UUID | None, items: Mapping[uuid.UUID, Items]
) -> tuple[list[Step], uuid.UUID | None]:
    """A page of the plan's steps, each followed by its items unless they are folded."""
    planned = Step.objects.filter(job=job, fan_out=None).order_by("id")
    if after is not None:
        planned = planned.filter(pk__gt=after)
    rows = list(planned[: NODES_AT_ONCE + 1])
    more = rows[NODES_AT_ONCE - 1].pk if len(rows) > NODES_AT_ONCE else None
    rows = rows[:NODES_AT_ONCE]
    open_ones = [step.pk for step in rows if step.pk in items and not items[step.pk].folded]
    within: dict[uuid.UUID, list[Step]] = {}
    for item in Step.objects.filter(fan_out__in=open_ones).order_by("item_index") if open_ones else ():
        if item.fan_out_id is not None:
            within.setdefault(item.fan_out_id, []).append(item)
    return [one for step in rows for one in (step, *within.get(step.pk, ()))], more


def _outputs(steps: Iterable[Step]) -> dict[str, Any]:
    """What the inputs' expressions may speak of: completed steps' outputs, by step."""
    return {
        step.key: {"outputs": step.outputs}
        for step in steps
        if step.status == S.COMPLETED and step.fan_out_id is None
    }


def _spans(
    job: Job, edges: Iterable[tuple[uuid.UUID, uuid.UUID]], steps: Iterable[Step], awaited: Awaited
) -> list[Span]:
    before: dict[uuid.UUID, list[uuid.UUID]] = {}
    for first, then in edges:
        before.setdefault(then, []).append(first)
    left = _left_of(steps, answers_left(awaited.operations.values(), at_most=_ESTIMATES))
    rows = Step.objects.filter(job=job, fan_out=None).exclude(status=S.CANCELLED)
    light = rows.values_list("pk", "started_at", "ended_at")
    return [
        Span(
            id=pk,
            before=tuple(before.get(pk, ())),
            started=started,
            ended=ended,
            expected=left.get(pk),
        )
        for pk, started, ended in light
    ]


def _left_of(steps: Iterable[Step], expected: Mapping[str, timedelta]) -> dict[uuid.UUID, timedelta | None]:
    """How long open steps still take; one that fanned out as long as its longest item."""
    left: dict[uuid.UUID, timedelta | None] = {}
    items: dict[uuid.UUID, list[timedelta | None]] = {}
    for step in steps:
        if step.status in STEP_ENDED:
            continue
        left[step.pk] = wait_left(step, expected)
        if step.fan_out_id is not None:
            items.setdefault(step.fan_out_id, []).append(left[step.pk])
    for whole, found in items.items():
        known = [one for one in found if one is not None]
        left[whole] = max(known) if len(known) == len(found) else None
    return left


@dataclass(frozen=True, kw_only=True)
class _View:
    """What the nodes of one answer share; `scope` None: without inputs and outputs."""

    job: Job
    awaited: Awaited
    told: Mapping[str, Told]
    items: Mapping[uuid.UUID, Items]
    critical: frozenset[uuid.UUID]
    scope: dict[str, Any] | None


def _node(step: Step, view: _View) -> GraphNode:
    spec = StepSpec.stored(step.spec)
    told = view.told.get(str(step.pk), Told())
    wait = wait_of(step, view.awaited)
    inputs, outputs, too_large = _values(step, spec, view)
    title = spec.title or step.key
    return GraphNode(
        id=step.pk,
        key=step.key,
        title=title if step.item_index is None else f"{title} {step.item_index + 1}",
        status=step.status,
        status_since=step.status_since,
        lane=step.lane,
        priority=step.priority,
        optional=spec.optional,
        attempt=min(step.failures + told.lost + (step.status != S.FAILED), spec.max_attempts)
        if step.attempts
        else 0,
        max_attempts=spec.max_attempts,
        failures=step.failures,
        max_failures=spec.max_failures,
        last_error=step.error or told.error,
        next_retry=wait.until if wait is not None and wait.type == "back_off" else None,
        started_at=step.started_at,
        ended_at=step.ended_at,
        duration=step.ended_at - step.started_at if step.ended_at and step.started_at else None,
        waiting_for=wait,
        skipped=step.skipped,
        skip_reason=told.skipped,
        critical=step.pk in view.critical,
        inputs=inputs,
        outputs=outputs,
        too_large=too_large,
        fan_out=step.fan_out_id,
        item_index=step.item_index,
        items=view.items.get(step.pk),
        child_job=view.awaited.children.get(step.pk),
    )


def _values(step: Step, spec: StepSpec, view: _View) -> tuple[Any, Any, bool]:
    if view.scope is None:
        return None, None, False
    try:
        scope = {**view.scope, "item": step.item}
        inputs = None if spec.for_each and step.fan_out_id is None else resolve(spec.inputs, scope)
    except TemplateFailedError:  # what it speaks of is not there yet
        inputs = None
    inside = [value if fits(value) else None for value in (inputs, step.outputs)]
    return shown(inside[0]), shown(inside[1]), inside != [inputs, step.outputs]
