"""What a retried job takes over from the one before it."""

from __future__ import annotations

from tasks_app import clock
from tasks_app.jobs import events
from tasks_app.jobs.models import Job, Step
from tasks_app.jobs.models import StepStatus as S
from tasks_app.lifecycle.transitions import transition
from tasks_app.people.actors import SYSTEM


def adopt(job: Job, step: Step, done: Step) -> None:
    """Complete a step of a retried job with what its predecessor in the chain of retries put out, in the
    caller's commit."""
    why = f"Adopted from {done.job.reference}"
    transition(step, S.QUEUED, actor=SYSTEM, reason=why)
    transition(step, S.EXECUTING, actor=SYSTEM, reason=why)
    changes = {"outputs": done.outputs, "skipped": done.skipped, "ended_at": clock.now()}
    transition(step, S.COMPLETED, actor=SYSTEM, reason=why, changes=changes)
    events.record(
        job,
        "step.adopted",
        step=step,
        payload={"from": str(done.pk), "outputs": done.outputs, "skipped": done.skipped},
    )


def items_before(step: Step) -> dict[int, Step]:
    """The items of the same fan-out in the job that this one's retries, by their place."""
    if step.lineage is None or step.job.retry_of_id is None:
        return {}
    items = Step.objects.filter(fan_out__job=step.job.retry_of_id, fan_out__key=step.key).select_related(
        "job"
    )
    return {one.item_index or 0: one for one in items}
