"""What pages and the API read of a job, in a fixed number of queries and rows however large it is."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Case, Count, F, IntegerField, Q, QuerySet, Value, When, Window
from django.db.models.functions import RowNumber

from tasks_app.approvals.models import Approval
from tasks_app.jobs.models import STEP_ENDED, Edge, Job, Step, WorkflowEvent
from tasks_app.jobs.models import StepStatus as S
from tasks_app.jobs.outside_event import OutsideEvent
from tasks_app.jobs.schedule import Schedule
from tasks_app.lifecycle.names import EntityName, link_to, names_of
from tasks_app.operations.answer_stages import NO_ANSWERS, Answers, answers_of
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tasks_app.people.scope import visible
from tasks_app.sellers.models import SELLER_HEAVY

EVENTS_SHOWN = 60
STEPS_READ = 400  # of a recipe's own steps
ITEMS_READ = 200  # of each fan-out
_NESTED_READ = 2000  # steps of nested jobs
_HEAVY = ("job__plan", "job__inputs", "job__outputs")
# What comes first where not everything is read: what went wrong, what is under way, what is still to come.
_RANKS = {S.FAILED: 0, S.AWAITING_USER: 1, S.AWAITING_TOOL: 2, S.EXECUTING: 3, S.QUEUED: 4, S.RECEIVED: 5}


@dataclass(frozen=True, kw_only=True)
class JobRows:
    """A job's rows: its steps in the recipe's order, items after them by their place. Of a recipe or a
    fan-out that is too large to show, what failed or is under way comes before the rest; `counts` (fan-out
    step, or None for the recipe's own, to status to how many) counts all.

    `children` are nested jobs by the step that started them, `child_steps` their own steps by job; `items`
    names what fan-outs run over, by the item's own text; `answers`: ours to what sellers ask.
    """

    job: Job
    steps: tuple[Step, ...]
    edges: tuple[tuple[uuid.UUID, uuid.UUID], ...]
    counts: dict[uuid.UUID | None, Counter[str]] = field(default_factory=dict)
    children: dict[uuid.UUID, Job] = field(default_factory=dict)
    child_steps: dict[uuid.UUID, list[Step]] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    answers: Answers = NO_ANSWERS
    approvals: dict[str, Approval] = field(default_factory=dict)
    items: dict[str, EntityName] = field(default_factory=dict)
    _items_of: dict[uuid.UUID, list[Step]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        for step in self.steps:
            if step.fan_out_id is not None:
                self._items_of.setdefault(step.fan_out_id, []).append(step)

    @property
    def own(self) -> list[Step]:
        """The recipe's own steps, without items."""
        return [step for step in self.steps if step.fan_out_id is None]

    def items_of(self, step: Step) -> list[Step]:
        """The steps a for_each step became, in order, as far as they were read."""
        return self._items_of.get(step.pk, [])

    def count_of(self, step: Step) -> Counter[str]:
        """How many items of a for_each step stand in each status; empty for any other step."""
        return self.counts.get(step.pk) or Counter()

    def left_out(self, step: Step | None = None) -> int:
        """How many items of `step`, or of the recipe's own steps, were not read."""
        read = len(self.own) if step is None else len(self.items_of(step))
        return self.counts.get(step.pk if step else None, Counter()).total() - read


def job_rows(
    job: Job,
    known: Mapping[str, EntityName] | None = None,
    asked: Iterable[Approval] = (),
    sent: Iterable[Operation] = (),
    answers: Answers = NO_ANSWERS,
) -> JobRows:
    """Everything the graph and the table of steps need, in at most twelve queries whatever the job's size.

    `known`: names of items, by the item's own text, `asked`: approvals, `sent`: operations, each with its
    seller, and `answers`: about those, for who has them already.
    """
    counts = _counts(job)
    steps = _steps(job, counts)
    edges = Edge.objects.filter(before__job=job)
    if counts.get(None, Counter()).total() > STEPS_READ:
        shown = [step.pk for step in steps]
        edges = edges.filter(before__in=shown, after__in=shown)
    return _rows(job, steps, edges, counts, known or {}, asked, sent, answers)


def rows_around(job: Job, wanted: Collection[str]) -> JobRows:
    """Of a job only the steps of these ids (texts that are none are left out), and those directly before
    them: what it takes to name and to look at them."""
    ids = [pk for pk in map(_uuid, wanted) if pk is not None]
    edges = Edge.objects.filter(before__job=job, after__in=ids)
    steps = Step.objects.filter(Q(pk__in=ids) | Q(pk__in=edges.values("before")), job=job).select_related(
        "job"
    )
    return _rows(job, list(steps), edges, _counts(job), {}, ())


def _rows(
    job: Job,
    steps: list[Step],
    edges: QuerySet[Edge],
    counts: dict[uuid.UUID | None, Counter[str]],
    known: Mapping[str, EntityName],
    asked: Iterable[Approval],
    sent: Iterable[Operation] = (),
    answers: Answers = NO_ANSWERS,
) -> JobRows:
    children, child_steps = _nested(step.pk for step in steps if step.spec.get("recipe"))
    waits = [
        step.waiting_for
        for step in [*steps, *(s for rows in child_steps.values() for s in rows)]
        if step.waiting_for and step.status not in STEP_ENDED
    ]
    had = {str(one.pk): one for one in sent}
    operations = _operations(waits, had)
    return JobRows(
        job=job,
        steps=tuple(steps),
        edges=tuple(edges.values_list("before_id", "after_id")),
        counts=counts,
        children=children,
        child_steps=child_steps,
        operations=operations,
        answers=answers.beside(answers_of(one for pk, one in operations.items() if pk not in had)),
        approvals=_approvals(waits, {str(one.pk): one for one in asked}),
        items=_item_names(steps, known),
    )


def _counts(job: Job) -> dict[uuid.UUID | None, Counter[str]]:
    counts: dict[uuid.UUID | None, Counter[str]] = {}
    grouped = Step.objects.filter(job=job).order_by().values_list("fan_out_id", "status")
    for fan_out, status, count in grouped.annotate(Count("id")):
        counts.setdefault(fan_out, Counter())[status] = count
    return counts


def _steps(job: Job, counts: Mapping[uuid.UUID | None, Counter[str]]) -> list[Step]:
    """The job's steps; of what is too large the first by rank, then by place."""
    rows: QuerySet[Step] = Step.objects.filter(job=job)
    too_large = [key for key, count in counts.items() if count.total() > (ITEMS_READ if key else STEPS_READ)]
    if too_large:
        own, items = rows.filter(fan_out=None), rows.exclude(fan_out=None)
        rows = rows.filter(Q(pk__in=_first(own, STEPS_READ)) | Q(pk__in=_first(items, ITEMS_READ)))
    return sorted(rows, key=lambda step: (step.item_index or 0, str(step.pk)))


def _first(rows: QuerySet[Step], limit: int) -> QuerySet[Step, Any]:
    """Ids of the first `limit` steps of each fan-out (or of the recipe), what matters most first."""
    ranks = [When(status=status, then=Value(rank)) for status, rank in _RANKS.items()]
    rank = Case(*ranks, default=Value(len(_RANKS)), output_field=IntegerField())
    place = Window(RowNumber(), partition_by=[F("fan_out_id")], order_by=[rank, F("item_index"), F("id")])
    return rows.annotate(place=place).filter(place__lte=limit).values("pk")


def _nested(parents: Iterable[uuid.UUID]) -> tuple[dict[uuid.UUID, Job], dict[uuid.UUID, list[Step]]]:
    """Nested jobs by the step that started them, and their steps by job; one query."""
    children: dict[uuid.UUID, Job] = {}
    found: dict[uuid.UUID, list[Step]] = {}
    ids = list(parents)
    if ids:
        own_first = F("fan_out").asc(nulls_first=True)
        rows = Step.objects.filter(job__parent_step__in=ids).select_related("job").defer(*_HEAVY)
        for step in rows.order_by(own_first, "id")[:_NESTED_READ]:
            if step.job.parent_step_id is not None:
                children[step.job.parent_step_id] = step.job
            found.setdefault(step.job_id, []).append(step)
    return children, found


def job_events(job: Job, before: int | None = None) -> list[WorkflowEvent]:
    """The latest events, newest first; `before`: those older than the event of that id."""
    rows = WorkflowEvent.objects.filter(job=job)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    return list(rows.order_by("-id")[:EVENTS_SHOWN])


def step_of(job: Job, wanted: str) -> Step | None:
    """The job's step of that id; None for what is none."""
    pk = _uuid(wanted)
    return Step.objects.filter(job=job, pk=pk).select_related("job").first() if pk else None


def step_names(ids: Collection[uuid.UUID]) -> list[tuple[uuid.UUID, str, uuid.UUID, str]]:
    """(step, its key, its job, the job's reference)."""
    return list(Step.objects.filter(pk__in=ids).values_list("pk", "key", "job_id", "job__reference"))


def item_kind(spec: dict[str, Any]) -> str:
    """What a for_each runs over, by the input that takes the item: `seller`, `deal` (from `deal_id`)."""
    for name, value in (spec.get("inputs") or {}).items():
        if isinstance(value, str) and value.replace(" ", "") == "{{item}}":
            return str(name).removesuffix("_id")
    return ""


def _operations(waits: Iterable[dict[str, Any]], known: Mapping[str, Operation]) -> dict[str, Operation]:
    ids = {wait["id"] for wait in waits if wait.get("type") == "operation"}
    missing = ids - known.keys()
    found = Operation.objects.filter(pk__in=missing).select_related("seller").defer(*SELLER_HEAVY)
    rows = found if missing else ()
    return {str(o.pk): o for o in rows} | {pk: known[pk] for pk in ids & known.keys()}


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
