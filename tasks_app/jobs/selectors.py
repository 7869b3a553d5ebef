"""Reading a job with everything its graph shows, in a bounded number of queries."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet

from tasks_app.approvals.models import Approval
from tasks_app.jobs.models import STEP_ENDED, Edge, Job, Step, WorkflowEvent
from tasks_app.jobs.outside_event import OutsideEvent
from tasks_app.jobs.schedule import Schedule
from tasks_app.lifecycle.names import EntityName, link_to, names_of
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tasks_app.people.scope import visible

EVENTS_SHOWN = 60


@dataclass(frozen=True, kw_only=True)
class JobRows:
    """A job's rows. `children` are nested jobs by the step that started them, `child_steps` their
    steps by job; `items` names what fan-outs run over, by the item's own text."""

    job: Job
    steps: tuple[Step, ...]
    edges: tuple[tuple[uuid.UUID, uuid.UUID], ...]
    children: dict[uuid.UUID, Job] = field(default_factory=dict)
    child_steps: dict[uuid.UUID, list[Step]] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    approvals: dict[str, Approval] = field(default_factory=dict)
    items: dict[str, EntityName] = field(default_factory=dict)

    def items_of(self, step: Step) -> list[Step]:
        """The steps a for_each step became, in order."""
        return [one for one in self.steps if one.fan_out_id == step.pk]


def job_rows(
    job: Job, known: Mapping[str, EntityName] | None = None, asked: Iterable[Approval] = ()
) -> JobRows:
    """Everything the graph and the table of steps need, in at most nine queries whatever the job's size.

    `known`: names of items, by the item's own text, and `asked`: approvals, for who has them already.
    """
    steps = list(Step.objects.filter(job=job))
    steps.sort(key=lambda step: (step.item_index or 0, str(step.pk)))
    edges = tuple(Edge.objects.filter(before__job=job).values_list("before_id", "after_id"))
    nested = [step.pk for step in steps if step.spec.get("recipe")]
    children = {
        child.parent_step_id: child
        for child in Job.objects.filter(parent_step__in=nested)
        if child.parent_step_id is not None
    }
    child_steps: dict[uuid.UUID, list[Step]] = {}
    for step in Step.objects.filter(job__parent_step__in=nested):
        child_steps.setdefault(step.job_id, []).append(step)
    waits = [
        step.waiting_for
        for step in [*steps, *(s for rows in child_steps.values() for s in rows)]
        if step.waiting_for and step.status not in STEP_ENDED
    ]
    return JobRows(
        job=job,
        steps=tuple(steps),
        edges=edges,
        children=children,
        child_steps=child_steps,
        operations=_operations(waits),
        approvals=_approvals(waits, {str(one.pk): one for one in asked}),
        items=_item_names(steps, known or {}),
    )


def job_events(job: Job) -> list[WorkflowEvent]:
    """The latest events, newest first."""
    return list(WorkflowEvent.objects.filter(job=job).order_by("-id")[:EVENTS_SHOWN])


def step_names(ids: Collection[uuid.UUID]) -> list[tuple[uuid.UUID, str, uuid.UUID, str]]:
    """(step, its key, its job, the job's reference)."""
    return list(Step.objects.filter(pk__in=ids).values_list("pk", "key", "job_id", "job__reference"))


def item_kind(spec: dict[str, Any]) -> str:
    """What a for_each runs over, by the input that takes the item: `seller`, `deal` (from `deal_id`)."""
    for name, value in (spec.get("inputs") or {}).items():
        if isinstance(value, str) and value.replace(" ", "") == "{{item}}":
            return str(name).removesuffix("_id")
    return ""


def _operations(waits: Iterable[dict[str, Any]]) -> dict[str, Operation]:
    ids = {wait["id"] for wait in waits if wait.get("type") == "operation"}
    return (
        {str(o.pk): o for o in Operation.objects.filter(pk__in=ids).select_related("seller")} if ids else {}
    )


def _approvals(waits: Iterable[dict[str, Any]], known: Mapping[str, Approval]) -> dict[str, Approval]:
    ids = {pk for wait in waits if wait.get("type") == "approvals" for pk in wait["ids"]}
    missing = ids - known.keys()
    found = {str(a.pk): a for a in Approval.objects.filter(pk__in=missing)} if missing else {}
    return found | {pk: known[pk] for pk in ids & known.keys()}


def _item_names(steps: Iterable[Step], known: Mapping[str, EntityName]) -> dict[str, EntityName]:
    wanted: dict[str, set[uuid.UUID]] = {}
    for step in steps:
        pk = _uuid(step.item) if step.fan_out_id is not None else None
        if pk is not None and str(pk) not in known:
            wanted.setdefault(item_kind(step.spec), set()).add(pk)
    found = {str(pk): name for kind, ids in wanted.items() for pk, name in names_of(kind, ids).items()}
    return {**known, **found}


def _uuid(item: Any) -> uuid.UUID | None:
    try:
        return uuid.UUID(item) if isinstance(item, str) else None
    except ValueError:
        return None


def schedules_of(viewer: User) -> QuerySet[Schedule]:
    """Schedules of the viewer's teams."""
    return visible(Schedule.objects.select_related("team"), viewer)


def schedule_names(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    """What the schedules are called."""
    found = Schedule.objects.filter(pk__in=ids).values_list("pk", "name")
    return {pk: EntityName(reference=name, link=link_to(Schedule, pk)) for pk, name in found}


def outside_events_of(viewer: User) -> QuerySet[OutsideEvent]:
    """Events from outside that came for the viewer's teams, with the step that took each."""
    return visible(OutsideEvent.objects.select_related("step"), viewer)
