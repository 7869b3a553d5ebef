"""What a failed step takes with it: everything that depends on it, and nothing else."""

from __future__ import annotations

from tasks_app import clock
from tasks_app.jobs import events
from tasks_app.jobs.models import Edge, Job, Step
from tasks_app.jobs.models import StepStatus as S
from tasks_app.lifecycle.transitions import transition
from tasks_app.people.actors import SYSTEM


def abandon_successors(job: Job, step: Step) -> None:
    """Cancel everything that depends on `step`, level by level: a step may be reached on several ways."""
    behind = [step.pk]
    while behind:
        after = Edge.objects.filter(before__in=behind).values("after")
        level = Step.objects.filter(pk__in=after, status=S.RECEIVED).order_by("id")
        behind = []
        for successor in level.select_for_update(no_key=True):
            transition(
                successor,
                S.CANCELLED,
                actor=SYSTEM,
                reason=f"{step.key} failed",
                changes={"ended_at": clock.now()},
            )
            events.record(job, "step.abandoned", step=successor)
            behind.append(successor.pk)
