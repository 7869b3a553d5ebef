"""Giving a step by hand what it waits for from outside, as if its event had come."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import transaction

from tasks_app.jobs import events
from tasks_app.jobs.endings import JobRefusedError, may_steer
from tasks_app.jobs.models import Job, Step, StepStatus
from tasks_app.jobs.outside import EventRefusedError, event_deliver
from tasks_app.jobs.waits import WaitType, wait_type
from tasks_app.lifecycle.transitions import Who
from tasks_app.people.actors import actor_key


def takes_input(step: Step) -> bool:
    """Whether the step waits for an event from outside, which has not come."""
    waits = wait_type(step.waiting_for) == WaitType.EVENT
    return step.status == StepStatus.AWAITING_TOOL and waits


@transaction.atomic
def step_input_give(*, step_id: uuid.UUID, payload: dict[str, Any], actor: Who, reason: str) -> Job:
    """Deliver the event that the step waits for, with this payload; given twice, it is taken once. Answers
    the job.

    Raises JobRefusedError: no right (to steer, or to deliver events), no reason, it waits for nothing of the
    kind, another step has waited longer for the same event, or something else was given already.
    """
    if not may_steer(actor):
        raise JobRefusedError("You have no right to steer jobs.")
    if not reason.strip():
        raise JobRefusedError("Say why it is given by hand.")
    step = Step.objects.select_related("job__team").get(pk=step_id)
    if not takes_input(step):
        raise JobRefusedError("It does not wait for input.")
    wait = step.waiting_for or {}
    try:
        delivered = event_deliver(
            name=str(wait["name"]),
            correlation=str(wait.get("correlation", "")),
            payload=payload,
            idempotency_key=f"input:{step.pk}:{step.version}",
            team=step.job.team,
            actor=actor,
        )
    except EventRefusedError as error:
        raise JobRefusedError(str(error)) from error
    if delivered.event.step_id != step.pk:
        raise JobRefusedError("Another step has waited longer for the same event.")
    if not delivered.duplicate:
        events.record(
            step.job,
            "step.input",
            step=step,
            source=actor_key(actor),
            payload={"reason": reason.strip()},
            occurrence=f":{delivered.event.pk}",
        )
    return step.job
