"""Recipes that start at a time or by cron: made by people, started once for each due time.

The sweep looks whether anything is due and wakes a worker of the lane main; that takes each due schedule
under its row's lock, and starts the job, writes the entry and moves on to the next time in one commit.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, transaction
from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.ids import request_key
from tasks_app.jobs.cron import CronError, cron_read, due_after, due_last, zone_read
from tasks_app.jobs.models import Job
from tasks_app.jobs.planning import job_start
from tasks_app.jobs.recipes import RecipeError, recipe_named
from tasks_app.jobs.schedule import Schedule, ScheduleEntry
from tasks_app.lifecycle.transitions import Who, exact
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About, notify
from tasks_app.people.actors import SYSTEM, actor_key, actor_user
from tasks_app.people.models import Team, User
from tasks_app.people.roles import SCHEDULE_JOB
from tasks_app.troubles.rows import each_row, held_back
from tasks_app.troubles.works import work_on
from tasks_app.waking import wake_workers

log = structlog.get_logger(__name__)
START = "tasks_app.jobs.schedules.schedules_start_due"
_AT_ONCE = 100
_WORK = work_on("schedules_started", "schedule")
_COUNTED = 100  # missed times are counted so far
Kind, Missed = ScheduleEntry.Kind, Schedule.Missed
_SHOWN = ("name", "recipe", "inputs", "start_at", "cron", "zone", "missed", "priority")


class ScheduleRefusedError(Exception):
    """It may not be done, or what was written is wrong: `errors` says what, by field ("" for the whole)."""

    def __init__(self, errors: dict[str, list[str]], *, code: str = "invalid") -> None:
        super().__init__("; ".join(text for texts in errors.values() for text in texts))
        self.errors, self.code = errors, code


@dataclass(frozen=True, kw_only=True)
class ScheduleDraft:
    """What a person writes: a recipe with its inputs, and one of `start_at` and `cron` (in `zone`, IANA)."""

    name: str
    team: Team
    recipe: str
    inputs: dict[str, Any] = field(default_factory=dict)
    start_at: datetime | None = None
    cron: str = ""
    zone: str = "UTC"
    missed: str = Missed.ONCE
    priority: int = 100


def schedule_create(*, draft: ScheduleDraft, actor: Who) -> Schedule:
    """Keep a schedule. Raises ScheduleRefusedError."""
    schedule = Schedule(team=draft.team, actor=actor_key(actor), created_at=clock.now())
    return _save(schedule, draft, actor, Kind.CREATED)


@transaction.atomic
def schedule_change(*, schedule_id: uuid.UUID, draft: ScheduleDraft, actor: Who) -> Schedule:
    """Change what it starts, or when; it is started in this actor's name from now on. The team stays.
    Raises ScheduleRefusedError."""
    schedule = _locked(schedule_id, actor)
    if draft.team.pk != schedule.team_id:
        raise ScheduleRefusedError({"team": ["A schedule stays with its team."]})
    return _save(schedule, draft, actor, Kind.CHANGED)


@transaction.atomic
def schedule_pause(*, schedule_id: uuid.UUID, actor: Who) -> Schedule:
    """Start nothing until it is resumed. Raises ScheduleRefusedError."""
    schedule = _locked(schedule_id, actor)
    if not schedule.paused:
        schedule.paused = True
        schedule.save(update_fields=["paused"])
        _enter(schedule, Kind.PAUSED, actor)
    return schedule


@transaction.atomic
def schedule_resume(*, schedule_id: uuid.UUID, actor: Who) -> Schedule:
    """Go on with the next time after now; what was due meanwhile is not made up for. In this actor's name.
    Raises ScheduleRefusedError."""
    schedule = _locked(schedule_id, actor)
    if schedule.paused:
        schedule.paused, schedule.actor = False, actor_key(actor)
        schedule.next_due_at = _next(schedule, clock.now())
        schedule.save(update_fields=["paused", "actor", "next_due_at"])
        _enter(schedule, Kind.RESUMED, actor)
    return schedule


@transaction.atomic
def schedule_run_now(*, schedule_id: uuid.UUID, actor: Who, key: str = "") -> Job:
    """Start its recipe at once, in this actor's name, whatever is due; what the actor asked for under the
    same `key` before is the same job. Raises ScheduleRefusedError."""
    schedule = _locked(schedule_id, actor)
    asked = request_key(actor_key(actor), key)
    earlier = schedule.entries.filter(request_key=asked).select_related("job").first() if asked else None
    if earlier is not None and earlier.job is not None:
        return earlier.job
    errors = _recipe_errors(schedule.recipe, schedule.inputs)
    if errors:
        raise ScheduleRefusedError(errors)
    job = _start(schedule, actor_key(actor))
    _enter(schedule, Kind.STARTED, actor, job=job, note="By hand", request_key=asked)
    return job


def schedules_wake() -> int:
    """A chore of the sweep: wake a worker where a start is due. Answers 1 when it did."""
    return wake_workers(START) if _due().exists() else 0


def schedules_start_due() -> int:
    """Start what is due. A task of the queue; any number of processes may. Answers how many jobs."""
    due = _due().order_by("next_due_at").values_list("pk", flat=True)[:_AT_ONCE]
    return each_row(_WORK, due, _start_one)


def _due() -> QuerySet[Schedule]:
    due = Schedule.objects.filter(paused=False, next_due_at__lte=clock.now())
    return due.exclude(pk__in=held_back(_WORK))


@transaction.atomic
def _start_one(schedule_id: uuid.UUID) -> bool:
    """One schedule, unless another process has it."""
    row = Schedule.objects.select_for_update(skip_locked=True, of=("self",), no_key=True)
    schedule = (
        row.filter(pk=schedule_id, paused=False, next_due_at__lte=clock.now()).select_related("team").first()
    )
    if schedule is None or schedule.next_due_at is None:
        return False
    now, first = clock.now(), schedule.next_due_at
    due = max(first, _last_due(schedule, now) or first)
    note = _missed_words(schedule, first, due)
    schedule.last_due_at, schedule.next_due_at = due, _next(schedule, now)
    schedule.save(update_fields=["last_due_at", "next_due_at"])
    if due < now - settings.SCHEDULE_GRACE:
        note = f"{note}; late by {_rounded(now - due)}".removeprefix("; ")
        if schedule.missed == Missed.SKIP:
            _enter(schedule, Kind.SKIPPED, SYSTEM, due_at=due, note=note)
            return False
    job = _start_or_tell(schedule, due)
    if job is None:
        return False
    _enter(schedule, Kind.STARTED, schedule.actor, due_at=due, job=job, note=note)
    return True


def _start_or_tell(schedule: Schedule, due: datetime) -> Job | None:
    """The job; where there can be none, an entry and a notification to its team."""
    why = _no_longer(schedule)
    if not why:
        try:
            with transaction.atomic():
                return _start(schedule, schedule.actor)
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:  # whatever it was, the next time is not held up by it
            log.exception("schedule_failed", schedule=str(schedule.pk))
            why = f"{type(error).__name__}: {error}"
    _enter(schedule, Kind.FAILED, SYSTEM, due_at=due, note=why)
    notify(
        kind="schedule_failed",
        title=f"{schedule.name} was not started",
        body=why,
        level=Notification.Level.WARNING,
        about=About(type="schedule", id=schedule.pk),
        team=schedule.team,
        key=f"schedule_failed:{schedule.pk}:{due:%Y-%m-%d}",
    )
    return None


def _no_longer(schedule: Schedule) -> str:
    """Why it may not be started in its actor's name any more, or cannot; empty: it may."""
    errors = _recipe_errors(schedule.recipe, schedule.inputs)
    if errors:
        return str(ScheduleRefusedError(errors))
    if schedule.actor == SYSTEM:
        return ""
    user = actor_user(schedule.actor)
    if user is None:
        return "Whoever saved it last is no user any more: somebody else must save it."
    return _right_words(user, schedule.team)


def _start(schedule: Schedule, actor: str) -> Job:
    return job_start(
        recipe=schedule.recipe,
        inputs=schedule.inputs,
        team=schedule.team,
        actor=actor,
        subject_type="schedule",
        subject_id=schedule.pk,
        priority=schedule.priority,
    )


def _save(schedule: Schedule, draft: ScheduleDraft, actor: Who, kind: str) -> Schedule:
    _check_right(actor, draft.team)
    errors = draft_errors(draft)
    if errors:
        raise ScheduleRefusedError(errors)
    before = {name: getattr(schedule, name) for name in _SHOWN}
    schedule.name, schedule.recipe, schedule.inputs = (
        draft.name.strip(),
        draft.recipe,
        exact(draft.inputs, floats=True),
    )
    schedule.start_at, schedule.zone = draft.start_at, draft.zone
    schedule.cron = cron_read(draft.cron) if draft.cron else ""
    schedule.missed, schedule.priority, schedule.actor = draft.missed, draft.priority, actor_key(actor)
    schedule.next_due_at = _next(schedule, clock.now())
    after = {name: getattr(schedule, name) for name in _SHOWN}
    changes = {name: [before[name], after[name]] for name in _SHOWN if before[name] != after[name]}
    try:
        with transaction.atomic():
            schedule.save()
            _enter(schedule, kind, actor, changes=exact(changes, floats=True))
    except IntegrityError:
        raise ScheduleRefusedError({"name": ["Another schedule of the team is called so."]}) from None
    return schedule


def draft_errors(draft: ScheduleDraft) -> dict[str, list[str]]:
    """What is wrong with a draft, by field; empty where nothing is."""
    errors = _recipe_errors(draft.recipe, draft.inputs)
    if not 0 < len(draft.name.strip()) <= 80 or not draft.name.isprintable():
        errors["name"] = ["Give it a name of at most 80 characters."]
    if draft.missed not in Missed.values:
        errors["missed"] = ["once or skip."]
    if not 0 <= draft.priority <= 1000:
        errors["priority"] = ["0 (first) to 1000 (last)."]
    if bool(draft.cron) == (draft.start_at is not None):
        errors["cron"] = ["Say when: a time, or a cron expression, one of them."]
    elif draft.start_at is not None and draft.start_at <= clock.now():
        errors["start_at"] = ["That has passed. Run it now, or name a later time."]
    elif draft.start_at is not None and draft.start_at > clock.LATEST:
        errors["start_at"] = [f"That is too far off: {clock.LATEST.year} is the last year."]
    return errors | _time_errors(draft)


def _time_errors(draft: ScheduleDraft) -> dict[str, list[str]]:
    errors = {}
    for name, read, value in (("zone", zone_read, draft.zone), ("cron", cron_read, draft.cron)):
        try:
            if value or name == "zone":
                read(value)
        except CronError as error:
            errors[name] = [str(error)]
    return errors


def _recipe_errors(name: str, inputs: Any) -> dict[str, list[str]]:
    try:
        recipe = recipe_named(name)
    except RecipeError as error:
        return {"recipe": [str(error)]}
    if not recipe.startable:
        return {"recipe": [f"{recipe.title} is no recipe that people start."]}
    if not isinstance(inputs, dict):
        return {"inputs": ["A JSON object, name to value."]}
    missing = recipe.missing_inputs(inputs)
    return {"inputs": [f"{recipe.title} needs {', '.join(missing)} as well."]} if missing else {}


def _check_right(actor: Who, team: Team) -> None:
    user = actor_user(actor_key(actor))
    why = _right_words(user, team) if user is not None else ""
    if why:
        raise ScheduleRefusedError({"": [why]}, code="no_right")


def _right_words(user: User, team: Team) -> str:
    if not user.has_perm(SCHEDULE_JOB):
        return f"{user} has no right to start jobs."
    if not user.is_superuser and not user.teams.filter(pk=team.pk).exists():
        return f"{user} is not in the team {team}."
    return ""


def _locked(schedule_id: uuid.UUID, actor: Who) -> Schedule:
    rows = Schedule.objects.select_for_update(of=("self",), no_key=True).select_related("team")
    schedule = rows.get(pk=schedule_id)
    _check_right(actor, schedule.team)
    return schedule


def _next(schedule: Schedule, now: datetime) -> datetime | None:
    """The first due time after now, and after the last that was taken; None where there is no more."""
    if schedule.start_at is not None:
        return schedule.start_at if schedule.start_at > now else None
    after = max(now, schedule.last_due_at or now)
    return due_after(schedule.cron, zone_read(schedule.zone), after)


def _last_due(schedule: Schedule, now: datetime) -> datetime | None:
    return schedule.start_at or due_last(schedule.cron, zone_read(schedule.zone), now)


def _missed_words(schedule: Schedule, first: datetime, due: datetime) -> str:
    """How many times before `due` were not started: "3 earlier times were missed"."""
    missed = 0
    while first < due and missed < _COUNTED:
        missed += 1
        first = due_after(schedule.cron, zone_read(schedule.zone), first)
    if not missed:
        return ""
    return f"{missed}{' or more' if missed == _COUNTED else ''} earlier times were missed"


def _rounded(late: timedelta) -> timedelta:
    return timedelta(seconds=round(late.total_seconds()))


def _enter(schedule: Schedule, kind: str, by: Who, **columns: Any) -> None:
    ScheduleEntry.objects.create(schedule=schedule, kind=kind, at=clock.now(), by=actor_key(by), **columns)
