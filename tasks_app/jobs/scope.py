"""What a recipe's expressions may see: the job's inputs, completed steps' outputs, the item of a fan-out."""

from __future__ import annotations

from typing import Any

from tasks_app.jobs.models import Job, Step, StepStatus


def scope_of(job: Job, step: Step | None) -> dict[str, Any]:
    """`{"inputs": …, "steps": {id: {"outputs": …}}, "item": …}` (document 001, section 6.3.2)."""
    done = Step.objects.filter(job=job, status=StepStatus.COMPLETED, fan_out=None)
    steps = {key: {"outputs": outputs} for key, outputs in done.values_list("key", "outputs")}
    return {"inputs": job.inputs, "steps": steps, "item": step.item if step else None}
