"""What a recipe's expressions may see: the job's inputs, completed steps' outputs, the item of a fan-out."""

from __future__ import annotations

import re
from typing import Any

from tasks_app.jobs.models import Job, Step, StepStatus
from tasks_app.jobs.recipes import steps_named, texts_of

_INPUTS = re.compile(r"\binputs\b")


def scope_of(job: Job, step: Step | None, *values: Any) -> dict[str, Any]:
    """`{"inputs": …, "steps": {id: {"outputs": …}}, "item": …}` (document 001, section 6.3.2), as far as the
    expressions in `values` speak of it: what nobody asks for is not read."""
    texts = [text for value in values for text in texts_of(value)]
    scope: dict[str, Any] = {"steps": _steps(job, texts), "item": step.item if step else None}
    if any(_INPUTS.search(text) for text in texts):
        scope["inputs"] = job.inputs
    return scope


def _steps(job: Job, texts: list[str]) -> dict[str, Any]:
    if not texts:
        return {}
    named = steps_named(texts)
    if named is not None and not named:
        return {}
    done = Step.objects.filter(job=job, status=StepStatus.COMPLETED, fan_out=None)
    if named is not None:
        done = done.filter(key__in=named)
    return {key: {"outputs": outputs} for key, outputs in done.values_list("key", "outputs")}
