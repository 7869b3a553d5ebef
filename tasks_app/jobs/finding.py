"""Finding jobs: by recipe, state, what they wait for, trouble, age. The list's filter and the API's are made
of the same conditions."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta

from django.db.models import Q, QuerySet

from tasks_app import clock
from tasks_app.jobs.models import JOB_ENDED, JOB_OPEN, WAITING, Job, JobStatus, Step, StepStatus
from tasks_app.jobs.waits import WaitType, stored_type
from tasks_app.people.models import User
from tasks_app.people.scope import visible

VIEWS: dict[str, tuple[str, tuple[JobStatus, ...]]] = {
    "": ("All", tuple(s for s in JobStatus if s != JobStatus.DELETED)),
    "open": ("Open", JOB_OPEN),
    "failed": ("Failed", (JobStatus.FAILED,)),
    "ended": ("Ended", tuple(s for s in JOB_ENDED if s != JobStatus.DELETED)),
    "hidden": ("Hidden", (JobStatus.DELETED,)),
}
# How the list calls what a step waits for.
WAITS: dict[str, str] = {
    WaitType.OPERATION: "an operation with a seller",
    WaitType.APPROVALS: "a decision",
    WaitType.ACCOUNT: "a seller’s decision about an account",
    WaitType.TIME: "a time",
    WaitType.JOB: "a nested job",
    WaitType.EVENT: "an outside event",
    WaitType.BACK_OFF: "the next try",
}
TROUBLES = {"retrying": "a step is tried again", "failing": "a step has failed"}
AGES = {
    "1h": ("an hour", timedelta(hours=1)),
    "1d": ("a day", timedelta(days=1)),
    "7d": ("a week", timedelta(days=7)),
    "30d": ("30 days", timedelta(days=30)),
}
_TEXT = 60


class JobFilterError(ValueError):
    """A filter that says what there is not; `field` names it, the text says what it may be."""

    def __init__(self, field: str, words: str) -> None:
        super().__init__(words)
        self.field = field


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which jobs are wanted; empty fields ask for nothing.

    `view` is a saved view (VIEWS), `recipe` a recipe's name, `state` a JobStatus, `waits` what one of its
    steps waits for (WAITS), `trouble` one of TROUBLES, `older` started longer ago than that (AGES), `team` a
    team's id, `q` how the reference begins.
    """

    view: str = ""
    recipe: str = ""
    state: str = ""
    waits: str = ""
    trouble: str = ""
    older: str = ""
    team: str = ""
    q: str = ""

    def as_dict(self) -> dict[str, str]:
        """The fields that ask for something: what `wanted_parse` reads."""
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in said.items() if value}


def wanted_parse(given: Mapping[str, str]) -> Wanted:
    """A filter from what stands in a query or a body; other names are left alone. Raises JobFilterError."""
    said = {field.name: str(given.get(field.name, "")).strip() for field in fields(Wanted)}
    known = {"view": VIEWS, "state": JobStatus.values, "waits": WAITS, "trouble": TROUBLES, "older": AGES}
    for name, choices in known.items():
        if said[name] and said[name] not in choices:
            words = ", ".join(choice for choice in choices if choice)
            raise JobFilterError(name, f"{name} is one of {words}.")
    for name in ("recipe", "q"):
        if len(said[name]) > _TEXT or not said[name].isprintable():
            raise JobFilterError(name, f"{name} is at most {_TEXT} characters.")
    if said["team"] and not _is_uuid(said["team"]):
        raise JobFilterError("team", "team is a team’s id.")
    return Wanted(**said)


def jobs_wanted(viewer: User, wanted: Wanted) -> QuerySet[Job]:
    """The viewer's jobs that are wanted, newest first."""
    return narrow(visible(Job.objects.all(), viewer), wanted).order_by("-id")


def narrow(rows: QuerySet[Job], wanted: Wanted) -> QuerySet[Job]:
    """`rows` that are wanted."""
    asked = Q(status__in=[wanted.state] if wanted.state else VIEWS[wanted.view][1])
    if wanted.state and wanted.view:
        asked &= Q(status__in=VIEWS[wanted.view][1])
    if wanted.recipe:
        asked &= Q(recipe=wanted.recipe)
    if wanted.team:
        asked &= Q(team=wanted.team)
    if wanted.q:
        asked &= Q(reference__istartswith=wanted.q)
    if wanted.older:
        asked &= older_than(AGES[wanted.older][1])
    if wanted.waits:
        asked &= waiting_for(wanted.waits)
    if wanted.trouble:
        asked &= failing() if wanted.trouble == "failing" else retrying()
    return rows.filter(asked)


def older_than(age: timedelta) -> Q:
    """Started at least so long ago."""
    return Q(created_at__lte=clock.now() - age)


def waiting_for(kind: str) -> Q:
    """A step of it waits for that, a WaitType, and it has not come yet."""
    return Q(ended_at=None, pk__in=_with_wait(kind))


def _with_wait(kind: str) -> QuerySet[Step, uuid.UUID]:
    asleep = Q(ready_at=None) | Q(ready_at__gt=clock.now())
    rows = Step.objects.filter(asleep, status__in=WAITING, waiting_for__contains={"type": stored_type(kind)})
    return rows.values_list("job", flat=True)


def retrying() -> Q:
    """A step that has failed waits for its next try, or has it now."""
    again = Step.objects.filter(status=StepStatus.EXECUTING, failures__gt=0).values_list("job", flat=True)
    return Q(ended_at=None) & (Q(pk__in=_with_wait(WaitType.BACK_OFF)) | Q(pk__in=again))


def failing() -> Q:
    """The job failed, or will when what is independent of the failed step has ended."""
    failed = Step.objects.filter(status=StepStatus.FAILED, job__ended_at=None).values_list("job", flat=True)
    return Q(status=JobStatus.FAILED) | Q(ended_at=None, pk__in=failed)


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
