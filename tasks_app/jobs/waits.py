"""What a sleeping step waits for: kind, ids, since when, until when, and in words (document 001, 6.3.2,
`waiting_for`)."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db.models import Count, Q
from django.db.models.fields.json import KeyTextTransform
from django.utils.dateparse import parse_datetime

from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.commands.kill_switch import NO_STOPS, Stops
from tasks_app.commands.questions import STOPPED
from tasks_app.desk import text
from tasks_app.desk.items import joined, plural
from tasks_app.jobs.models import WAITING, Job, Step, StepStatus
from tasks_app.operations.answer_stages import NO_ANSWERS, Answers
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.presenters import sending_words
from tasks_app.operations.selectors import would_be_sent


class WaitType(StrEnum):
    """Everything a step can wait for."""

    OPERATION = "operation"  # an AdCP task that is out with a seller
    APPROVALS = "approvals"  # people's decisions
    ACCOUNT = "account"  # a seller's decision about an account
    JOB = "job"  # a nested job
    TIME = "time"  # a moment its action named
    ITEMS = "items"  # the items it fanned out to
    EVENT = "event"  # something from outside, by name
    BACK_OFF = "back_off"  # its next try


WAIT_TYPES = [(str(one), str(one)) for one in WaitType]
_STORED = {"backoff": WaitType.BACK_OFF}
_COUNTED = {
    "operation": "operation",
    "approvals": "decision",
    "account": "account",
    "job": "nested job",
    "time": "moment",
    "event": "outside event",
}


@dataclass(frozen=True, kw_only=True)
class Wait:
    """`type`: a WaitType; `ids`: of the operation, approvals, account or job; `name`: of the event; `count`:
    of items; `until`: when it is overdue, or wakes by itself; `come`: it is over, and a worker takes the step
    next."""

    type: str
    ids: tuple[str, ...] = ()
    name: str = ""
    count: int | None = None
    since: datetime
    until: datetime | None = None
    come: bool = False
    words: str


@dataclass(frozen=True, kw_only=True)
class Awaited:
    """The rows that steps wait for, by their ids' text; nested jobs by the step they run for; our answers to
    what sellers ask, by operation."""

    operations: Mapping[str, Operation] = field(default_factory=dict)
    approvals: Mapping[str, Approval] = field(default_factory=dict)
    children: Mapping[uuid.UUID, Job] = field(default_factory=dict)
    stops: Stops = NO_STOPS
    answers: Answers = NO_ANSWERS


def wait_type(stored: Mapping[str, Any] | None) -> str:
    """The WaitType of a step's `waiting_for` as it is stored; empty where it waits for nothing."""
    kind = str((stored or {}).get("type", ""))
    return str(_STORED.get(kind, kind))


def stored_type(kind: str) -> str:
    """How `waiting_for` names a WaitType."""
    return next((stored for stored, named in _STORED.items() if named == kind), kind)


def wait_of(step: Step, awaited: Awaited) -> Wait | None:
    """What the step waits for, None where it does not."""
    if step.status not in WAITING or not step.waiting_for:
        return None
    kind = wait_type(step.waiting_for)
    come = step.ready_at is not None and step.ready_at <= clock.now()
    found = _KINDS.get(kind, _unknown)(step, step.waiting_for, awaited)
    words = "Its wait is over; a worker takes it next" if come else found.pop("words")
    return Wait(**{"type": kind, "since": step.status_since, "come": come, **found, "words": words})


def _operation(_step: Step, wait: Mapping[str, Any], awaited: Awaited) -> dict[str, Any]:
    operation = awaited.operations.get(wait["id"])
    if operation is None:
        return {"ids": (wait["id"],), "words": "Waits for a seller"}
    answers = awaited.answers
    stopped = awaited.stops.words(operation.team_id) if operation.is_mutation else ""
    counts = answers.counts_deadline(operation, stopped=bool(stopped))
    blocker = answers.blocker(operation)
    if (blocker and blocker.is_over) or not would_be_sent(operation, answers):
        stopped = ""
    unsent = f"{stopped}; {_unsent(operation, answers)}" if stopped else ""
    return {
        "ids": (wait["id"],),
        "until": operation.deadline_at if counts else None,
        "words": unsent or _operation_words(operation, answers),
    }


def _unsent(operation: Operation, answers: Answers) -> str:
    blocker, answer = answers.blocker(operation), answers.of(operation)
    what = "our answer" if answer is not None else operation.task_type
    besides = f"; that let go, {blocker.once_let_go}" if blocker and answer is None else ""
    return f"{what} is not sent to {operation.seller.name}{besides}"


def _operation_words(operation: Operation, answers: Answers) -> str:
    seller, task, answer = operation.seller.name, operation.task_type, answers.of(operation)
    if answer is not None:
        return f"{seller} asked about {task}. {answer.sentence}"
    sending = sending_words(operation, answers)
    if sending and operation.status not in (O.INPUT_REQUIRED, O.AUTH_REQUIRED):
        return sending
    if operation.status == O.TIMED_OUT:
        return f"{seller} has not answered {task} in time; overdue since {text.moment(operation.overdue_at)}"
    if operation.status == O.INPUT_REQUIRED:
        return f"{seller} asks: {operation.message or 'no question stated'}"
    if operation.status == O.AUTH_REQUIRED:
        return f"{seller} wants credentials for {task}"
    overdue = f"; overdue {text.moment(operation.deadline_at)}" if operation.deadline_at else ""
    return f"{seller} has {task} since {text.moment(operation.sent_at)}{overdue}"


def _approvals(_step: Step, wait: Mapping[str, Any], awaited: Awaited) -> dict[str, Any]:
    asked = [awaited.approvals[pk] for pk in wait["ids"] if pk in awaited.approvals]
    still = sorted(
        (one for one in asked if one.status == ApprovalStatus.OPEN), key=lambda one: (one.due_at, one.pk)
    )
    if not still:
        return {"ids": tuple(wait["ids"]), "words": "All decisions are in"}
    words = (
        f"{plural(len(still), 'decision')} of {len(wait['ids'])} open; {still[0].reference}, "
        f"“{still[0].title}”, is due {text.moment(still[0].due_at)}"
    )
    stopped = awaited.stops.words(still[0].team_id) if still[0].kind == STOPPED else ""
    if stopped:
        words = f"{stopped}; it goes on when that is let go, or two people pass {still[0].reference}"
    return {"ids": tuple(wait["ids"]), "until": still[0].due_at, "words": words}


def _account(_step: Step, wait: Mapping[str, Any], _awaited: Awaited) -> dict[str, Any]:
    return {
        "ids": (wait["id"],),
        "words": f"Waits until {wait['seller']} has the account {wait['of']} active",
    }


def _job(step: Step, wait: Mapping[str, Any], awaited: Awaited) -> dict[str, Any]:
    child = awaited.children.get(step.pk)
    words = f"{child.reference} is {child.status.lower()}" if child else "Waits for a nested job"
    return {"ids": (wait["id"],), "words": words}


def _time(_step: Step, wait: Mapping[str, Any], _awaited: Awaited) -> dict[str, Any]:
    until = parse_datetime(str(wait.get("until", "")))
    return {"until": until, "words": f"Waits until {text.moment(until)}"}


def _items(_step: Step, wait: Mapping[str, Any], _awaited: Awaited) -> dict[str, Any]:
    count = int(wait.get("count", 0))
    return {"count": count, "words": f"{plural(count, 'step')} in parallel"}


def _event(step: Step, wait: Mapping[str, Any], _awaited: Awaited) -> dict[str, Any]:
    name = str(wait.get("name", ""))
    until = parse_datetime(str(wait.get("until") or "")) or step.ready_at
    at_most = f", until {text.moment(until)} at most" if until else ""
    called = f"{name} {wait.get('correlation', '')}".rstrip()
    return {"name": name, "until": until, "words": f"Waits for the event {called}{at_most}"}


def _back_off(step: Step, wait: Mapping[str, Any], _awaited: Awaited) -> dict[str, Any]:
    words = f"Tries again {text.moment(step.ready_at)} after: {wait.get('error', '')}"
    return {"until": step.ready_at, "words": words}


def _unknown(step: Step, wait: Mapping[str, Any], _awaited: Awaited) -> dict[str, Any]:
    return {"until": step.ready_at, "words": f"Waits for {wait.get('type', 'something')}"}


_KINDS: dict[str, Callable[[Step, Mapping[str, Any], Awaited], dict[str, Any]]] = {
    WaitType.OPERATION: _operation,
    WaitType.APPROVALS: _approvals,
    WaitType.ACCOUNT: _account,
    WaitType.JOB: _job,
    WaitType.TIME: _time,
    WaitType.ITEMS: _items,
    WaitType.EVENT: _event,
    WaitType.BACK_OFF: _back_off,
}


def waits_of(jobs: Collection[Job]) -> dict[uuid.UUID, str]:
    """What open jobs wait for, in words: `2 operations and 1 decision`, `the next try of 1 step`."""
    still = [job.pk for job in jobs if job.ended_at is None]
    rows = Step.objects.filter(Q(status__in=WAITING) | Q(status=StepStatus.EXECUTING), job__in=still)
    kinds = rows.annotate(kind=KeyTextTransform("type", "waiting_for")).order_by()
    found: dict[uuid.UUID, Counter[str]] = {}
    for job, kind, count in kinds.values_list("job_id", "kind").annotate(Count("pk")) if still else ():
        found.setdefault(job, Counter())[kind or ""] += count
    return {job: _counted_words(counts) for job, counts in found.items()}


def _counted_words(counts: Counter[str]) -> str:
    said = [plural(counts[kind], word) for kind, word in _COUNTED.items() if counts[kind]]
    if counts["backoff"]:
        said.append(f"the next try of {plural(counts['backoff'], 'step')}")
    if not said and counts[""]:
        return f"{plural(counts[''], 'step')} running"
    return joined(said)
