"""Whether a job's rows say what the reference interpreter says, and what no moment of a run may show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connection

from tasks_app.jobs.models import Edge, Job, Step, WorkflowEvent
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity
from tests.jobs.reference import JobEnd
from tests.jobs.test_replaying import as_rows, as_told

# What must hold in every snapshot, each with the words for a row that breaks it. One statement sees one
# snapshot: whatever is committed at that moment.
_ALWAYS = {
    "counts another number of predecessors still to end than there are": """
        select s.key from tasks_app_step s where s.status = 'received' and s.fan_out_id is null
        and s.incoming <> (
            select count(*) from tasks_app_edge e join tasks_app_step b on b.id = e.before_id
            where e.after_id = s.id
            and not (b.status = 'completed' or b.status = 'failed' and (b.spec->>'optional')::boolean))""",
    "waits for nothing and is not queued": """
        select s.key from tasks_app_step s where s.status = 'received' and s.incoming = 0""",
    "began before what it follows had ended": """
        select s.key from tasks_app_step s
        join tasks_app_edge e on e.after_id = s.id join tasks_app_step b on b.id = e.before_id
        where s.started_at is not null and (b.ended_at is null or b.ended_at > s.started_at)""",
    "is open in a job that has ended": """
        select s.key from tasks_app_step s join tasks_app_job j on j.id = s.job_id
        where j.status in ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
        and s.status not in ('completed', 'failed', 'cancelled')""",
    "has ended like all others, and its job has not": """
        select min(s.key) from tasks_app_step s join tasks_app_job j on j.id = s.job_id
        where j.ended_at is null group by j.id
        having bool_and(s.status in ('completed', 'failed', 'cancelled'))""",
    "is executed by nobody": """
        select s.key from tasks_app_step s where s.status = 'executing' and s.lease_until is null""",
    "is queued, and nobody may take it": """
        select s.key from tasks_app_step s where s.status = 'queued' and s.ready_at is null""",
    "counts another number of steps under way than there are": """
        select j.reference from tasks_app_job j where j.ended_at is null and j.active_steps <> (
            select count(*) from tasks_app_step s where s.job_id = j.id and s.fan_out_id is null
            and s.status in ('queued', 'executing', 'awaiting_tool', 'awaiting_user_confirmation'))""",
    "counts another number of items still to end than there are": """
        select s.key from tasks_app_step s where s.status = 'awaiting_tool'
        and s.waiting_for->>'type' = 'items' and s.incoming <> (
            select count(*) from tasks_app_step i where i.fan_out_id = s.id
            and i.status not in ('completed', 'failed', 'cancelled'))""",
    "waits for items that have all ended": """
        select s.key from tasks_app_step s where s.status = 'awaiting_tool'
        and s.waiting_for->>'type' = 'items' and not exists (
            select from tasks_app_step i where i.fan_out_id = s.id
            and i.status not in ('completed', 'failed', 'cancelled'))""",
}


def wrong_now() -> list[str]:
    """What the database shows at this moment that no moment may show."""
    found = []
    with connection.cursor() as cursor:
        for words, query in _ALWAYS.items():
            cursor.execute(query)
            found += [f"{key} {words}" for (key,) in cursor.fetchall()]
    return found


def assert_ended_as(job: Job, end: JobEnd) -> None:
    """The job's rows, its nested jobs' too, are what `end` says; its trail and its events agree with them."""
    job.refresh_from_db()
    rows = {
        step.key: (step.status, step.outputs, step.skipped, step.failures)
        for step in Step.objects.filter(job=job)
    }
    wanted = {
        key: (step.status, step.outputs, step.skipped, step.failures) for key, step in end.steps.items()
    }
    differing = {
        key: (rows.get(key), wanted.get(key))
        for key in rows.keys() | wanted.keys()
        if rows.get(key) != wanted.get(key)
    }
    assert not differing, f"{job}: {differing}; {told(job, differing)}"
    assert (job.status, job.outputs) == (end.status, end.outputs), job.error
    assert_sound(job)
    below = {child.parent_step.key: child for child in children(job)}
    expected = {key: step.child for key, step in end.steps.items() if step.child is not None}
    assert below.keys() == expected.keys()
    for key, child in below.items():
        assert_ended_as(child, expected[key])
        assert_within(child)


def told(job: Job, keys: Iterable[str]) -> list[tuple[str, str, Any]]:
    """What the events say of some steps, for whoever reads a failure."""
    events = WorkflowEvent.objects.filter(job=job, correlation__step__in=list(keys)).order_by("id")
    return [(event.type, event.correlation["attempt"], event.payload) for event in events]


def children(job: Job) -> Iterable[Job]:
    return Job.objects.filter(parent_step__job=job).select_related("parent_step")


def assert_sound(job: Job) -> None:
    """Replayed from its events alone the run is the same; every chain of entries is whole; every cause comes
    before its effect."""
    assert as_told(job) == as_rows(job)
    for event in WorkflowEvent.objects.filter(job=job):
        assert all((event.type, event.source, event.idempotency_key, event.at))
        assert {"trace_id", "team", "user"} <= event.correlation.keys()
    assert verify_entity("job", job.pk).ok
    steps = {step.pk: step for step in Step.objects.filter(job=job)}
    assert all(verify_entity("step", pk).ok for pk in steps)
    moved = moves(steps)
    for before, after in Edge.objects.filter(before__job=job).values_list("before_id", "after_id"):
        began = moved[after].get("executing") or moved[after].get("queued")
        if began is not None:
            assert moved[before]["ended"] <= began, "the trail shows an effect before its cause"
            assert ended_event(job, before) < queued_event(job, after)
    for moments in moved.values():
        assert list(moments.values()) == sorted(moments.values())


def moves(steps: Iterable[Any]) -> dict[Any, dict[str, Any]]:
    """By step: when it first came into each status, by its entries; `ended` for each of the three ends."""
    found: dict[Any, dict[str, Any]] = {pk: {} for pk in steps}
    entries = AuditEntry.objects.filter(entity_type="step", entity_id__in=list(found)).order_by("seq")
    for pk, status, at in entries.values_list("entity_id", "to_status", "at"):
        name = "ended" if status in ("completed", "failed", "cancelled") else status
        assert name != "ended" or "ended" not in found[pk], "it ended twice"
        found[pk].setdefault(name, at)
    return found


def ended_event(job: Job, step: Any) -> int:
    kinds = ("step.completed", "step.failed", "step.adopted")
    return _events(job, step, kinds)[-1]


def queued_event(job: Job, step: Any) -> int:
    return _events(job, step, ("step.queued", "step.adopted"))[0]


def _events(job: Job, step: Any, kinds: tuple[str, ...]) -> list[int]:
    told = WorkflowEvent.objects.filter(job=job, type__in=kinds, correlation__step_id=str(step))
    return list(told.order_by("id").values_list("id", flat=True))


def assert_within(child: Job) -> None:
    """A nested job lies within the step that it runs for."""
    parent = child.parent_step
    assert parent is not None
    assert parent.started_at is not None
    begun = [step.started_at for step in Step.objects.filter(job=child) if step.started_at is not None]
    assert all(parent.started_at <= at for at in begun)
    assert child.ended_at is not None
    assert parent.ended_at is None or child.ended_at <= parent.ended_at
