"""How long what steps wait for still takes: by the time it was set, or its seller's latest answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from tasks_app import clock
from tasks_app.jobs.models import WAITING, Step
from tasks_app.operations.estimates import estimate_of
from tasks_app.operations.models import Operation


def answers_left(operations: Iterable[Operation], *, at_most: int) -> dict[str, timedelta]:
    """What is left of each operation, by its id's text and the median of its seller's latest answers to that
    task; at most so many sellers' tasks are asked about, a query each."""
    sent = [one for one in operations if one.sent_at is not None]
    asked = sorted({(one.seller_id, one.task_type) for one in sent}, key=str)[:at_most]
    medians = {(seller, task): estimate_of(seller_id=seller, task_type=task).median for seller, task in asked}
    left = {}
    for one in sent:
        median = medians.get((one.seller_id, one.task_type))
        if median is not None and one.sent_at is not None:
            left[str(one.pk)] = max(one.sent_at + median - clock.now(), timedelta())
    return left


def wait_left(step: Step, answers: Mapping[str, timedelta]) -> timedelta | None:
    """Until a sleeping step wakes by itself, or by its seller's answer; None where nobody knows."""
    wait = step.waiting_for
    if not wait or step.status not in WAITING:
        return None
    if wait.get("type") == "account":
        return None  # it looks again at times; when the account is active its seller alone knows
    if step.ready_at is not None:
        return max(step.ready_at - clock.now(), timedelta())
    return answers.get(str(wait.get("id"))) if wait.get("type") == "operation" else None
