"""Events from outside: kept as they come, and each handed to one step that waits for it by name.

An event that comes before its step waits is kept for it. Whoever delivers and whoever begins to wait take the
lock of that name first, before any row, so that neither misses the other.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet

from tasks_app import clock
from tasks_app.jobs import engine, events
from tasks_app.jobs.actions import EVENT_NAME, Done, Result, Run, StepFailedError, WaitForEvent
from tasks_app.jobs.adoption import steps_before
from tasks_app.jobs.models import Job, Step, StepStatus
from tasks_app.jobs.outside_event import EventWait, OutsideEvent
from tasks_app.jobs.wake import wake
from tasks_app.lifecycle.transitions import Who, exact
from tasks_app.operations.canonical import canonical_digest
from tasks_app.people.actors import actor_key, actor_user, is_login
from tasks_app.people.models import Team
from tasks_app.people.roles import DELIVER_EVENT
from tasks_app.people.scope import covers, visible
from tasks_app.troubles.rows import due_again, each_row, held_back
from tasks_app.troubles.works import work_on

WAIT = "wait_for_event"
_LOCKS = 0x0E7E_47
_AT_ONCE = 1000
_MAX_KEY = 200
_MOST_HOURS = 24 * 366
Late = EventWait.Late
_WORK = work_on("events_handed", "step")


class EventRefusedError(Exception):
    """An event that is not taken. `code`: no_right, invalid, IDEMPOTENCY_KEY_CONFLICT; `field` names the part
    that is wrong; the text says why, for people."""

    def __init__(self, code: str, why: str, *, field: str = "") -> None:
        super().__init__(why)
        self.code, self.field = code, field


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """What became of a delivery; `duplicate`: it had come before, and nothing was done."""

    event: OutsideEvent
    duplicate: bool


@transaction.atomic
def event_deliver(
    *, name: str, correlation: str, payload: dict[str, Any], idempotency_key: str, team: Team, actor: Who
) -> Delivered:
    """Keep an event, and hand it to the step of the team's that has waited longest for that name and
    correlation, in a job that its sender sees; without one it waits for its step. A step that cannot be given
    it leaves it to the next (`events_hand_again`). The same key again does nothing.

    Raises EventRefusedError; a key that came with something else is IDEMPOTENCY_KEY_CONFLICT.
    """
    _check_right(actor, team)
    _check(name, correlation, idempotency_key)
    kept = exact(payload, floats=True)
    event = OutsideEvent(
        team=team,
        name=name,
        correlation=correlation,
        payload=kept,
        idempotency_key=idempotency_key,
        digest=canonical_digest({"name": name, "correlation": correlation, "payload": kept}),
        delivered_by=actor_key(actor),
        received_at=clock.now(),
    )
    _lock(team.pk, name, correlation)
    OutsideEvent.objects.bulk_create([event], ignore_conflicts=True)
    first = OutsideEvent.objects.get(team=team, idempotency_key=idempotency_key)
    if first.pk != event.pk:
        if first.digest != event.digest:
            raise EventRefusedError(
                "IDEMPOTENCY_KEY_CONFLICT",
                "This key came with another event before.",
                field="idempotency_key",
            )
        return Delivered(event=first, duplicate=True)
    _hand_over(event)
    return Delivered(event=event, duplicate=False)


@transaction.atomic
def event_give(*, step: Step, payload: dict[str, Any], actor: Who) -> bool:
    """Hand `payload` to this one step, as the event that it waits for: what a person gives in its stead.
    False where it waits for none any more. Rights are the caller's."""
    wait = EventWait.objects.filter(step=step, event=None, closed_at=None).order_by("id").last()
    if wait is None:
        return False
    _lock(wait.team_id, wait.name, wait.correlation)
    open_still = EventWait.objects.filter(pk=wait.pk, event=None, closed_at=None)
    if not open_still.exists() or not _asleep(step).update(ready_at=clock.now()):
        return False
    kept = exact(payload, floats=True)
    event = OutsideEvent.objects.create(
        team=wait.team,
        name=wait.name,
        correlation=wait.correlation,
        payload=kept,
        idempotency_key=f"wait:{wait.pk}",
        digest=canonical_digest({"name": wait.name, "correlation": wait.correlation, "payload": kept}),
        delivered_by=actor_key(actor),
        received_at=clock.now(),
    )
    _give(event, wait, step)
    wake([step.lane])
    return True


@transaction.atomic
def event_wait(*, step: Step, wait: WaitForEvent) -> bool:
    """Put a step to sleep until its event comes; one that has come already wakes it at once. False for the
    late result of a superseded attempt. Raises StepFailedError where it waits anew for what was late."""
    team = step.job.team
    _lock(team.pk, wait.name, wait.correlation)
    event = _kept_for(step, team, wait)
    if event is None and _was_late(step, wait):
        raise StepFailedError(f"It waits again for the event {wait.name}, which is late")
    slept = engine.mark_waiting(
        step=step,
        status=StepStatus.AWAITING_TOOL,
        reason=f"Waits for the event {wait.name} {wait.correlation}".strip()[:500],
        waiting_for={
            "type": "event",
            "name": wait.name,
            "correlation": wait.correlation,
            "until": wait.until.isoformat() if wait.until else None,
        },
        over=event is not None,
        ready_in=wait.until - clock.now() if wait.until else None,
    )
    if not slept:
        return False
    EventWait.objects.filter(step=step, event=None, closed_at=None).update(closed_at=clock.now())
    begun = EventWait.objects.create(
        step=step,
        team=team,
        name=wait.name,
        correlation=wait.correlation,
        until=wait.until,
        late=wait.late,
    )
    if event is not None:
        _give(event, begun, step)
    return True


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What a step that runs again has heard: the payload, or that the event is late."""

    payload: dict[str, Any] | None = None
    late: bool = False


def event_heard(step: Step) -> Heard:
    """What the step's latest wait came to. Raises StepFailedError where the event is late and that is a
    failure."""
    if step.attempts < 2:
        return Heard()
    wait = EventWait.objects.filter(step=step).select_related("event").order_by("id").last()
    if wait is None:
        return Heard()
    if wait.event is None and wait.closed_at is None and wait.until and wait.until <= clock.now():
        wait = _closed(wait, step)
    if wait.event is not None:
        return Heard(payload=wait.event.payload)
    late = wait.closed_at is not None
    if late and wait.late == Late.FAIL:
        raise StepFailedError(f"The event {wait.name} {wait.correlation}".rstrip() + " did not come in time")
    return Heard(late=late)


@transaction.atomic
def _closed(wait: EventWait, step: Step) -> EventWait:
    """A wait whose time is over: one that comes in this moment wins, and so does one that is kept, since it
    could not be given when it came."""
    _lock(wait.team_id, wait.name, wait.correlation)
    wait = EventWait.objects.select_related("event").get(pk=wait.pk)
    if wait.event is not None or wait.closed_at is not None:
        return wait
    event = _untaken(wait, step.job)
    if event is not None:
        _give(event, wait, step)
        return wait
    wait.closed_at = clock.now()
    wait.save(update_fields=["closed_at"])
    return wait


def wait_for_event(run: Run) -> Result:
    """The action `wait_for_event`: inputs {name, correlation?, hours?, late?}; outputs {event: its payload},
    null where it is late and `late` is "continue"."""
    if run.event is not None or run.event_late:
        return Done(outputs={"event": run.event})
    return WaitForEvent(
        name=run.inputs["name"],
        correlation=str(run.inputs.get("correlation", "")),
        until=_until(run, run.inputs.get("hours")),
        late=run.inputs.get("late", Late.FAIL),
    )


def _until(run: Run, hours: Any) -> datetime | None:
    """The moment so many hours after the step began: with 0 it does not wait, without any it has no end."""
    if hours is None:
        return None
    number = isinstance(hours, int | float) and not isinstance(hours, bool)
    if not number or not 0 <= hours <= _MOST_HOURS:
        raise StepFailedError(f"hours is a number from 0 to {_MOST_HOURS:,}")
    return (run.step.started_at or clock.now()) + timedelta(hours=hours)


def events_hand_again() -> int:
    """Hand what is kept to the steps that could not be given an event when one came. Answers how many."""
    return each_row(_WORK, due_again(_WORK)[:_AT_ONCE], _hand_again)


def _hand_again(step_id: uuid.UUID) -> int:
    waits = EventWait.objects.filter(step=step_id, event=None, closed_at=None)
    wait = waits.select_related("step__job").order_by("id").last()
    if wait is None:
        return 0
    _lock(wait.team_id, wait.name, wait.correlation)
    event = _untaken(wait, wait.step.job)
    if event is None or not waits.filter(pk=wait.pk).exists():
        return 0
    return _wake_with(event, wait)


def events_forget() -> int:
    """Remove events that nobody has taken, or whose step has ended, once they are older than
    settings.OUTSIDE_EVENT_KEEP, some in each call. Answers how many."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select fd_outside_forget(%s, %s)", [clock.now() - settings.OUTSIDE_EVENT_KEEP, _AT_ONCE]
        )
        return int(cursor.fetchone()[0])


def _check_right(actor: Who, team: Team) -> None:
    user = actor_user(actor_key(actor))
    if user is None:
        return
    if not user.has_perm(DELIVER_EVENT):
        raise EventRefusedError("no_right", "You have no right to deliver events.")
    if not user.is_superuser and not user.teams.filter(pk=team.pk).exists():
        raise EventRefusedError("no_right", "That is not a team of yours.")


def _check(name: str, correlation: str, idempotency_key: str) -> None:
    if not re.fullmatch(EVENT_NAME, name):
        raise EventRefusedError("invalid", "Lower case, digits, `_`, `.` and `-`; at most 80.", field="name")
    if len(correlation) > _MAX_KEY or not correlation.isprintable():
        raise EventRefusedError("invalid", "At most 200 printable characters.", field="correlation")
    if not 0 < len(idempotency_key) <= _MAX_KEY or not idempotency_key.isprintable():
        raise EventRefusedError("invalid", "1 to 200 printable characters.", field="idempotency_key")


def _lock(team_id: uuid.UUID, name: str, correlation: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "select pg_advisory_xact_lock(%s, hashtext(%s))", [_LOCKS, f"{team_id}:{name}:{correlation}"]
        )


def _hand_over(event: OutsideEvent) -> None:
    """To the first that waits and whose job its sender sees, unless it was taken by a worker or cancelled
    meanwhile. One that cannot be written keeps back neither the event nor the next: it is tried again."""
    waiting = EventWait.objects.filter(
        team=event.team_id, name=event.name, correlation=event.correlation, event=None, closed_at=None
    )
    user = actor_user(event.delivered_by)
    seen = Q() if user is None else Q(step__job__in=visible(Job.objects.all(), user))
    asleep = (
        waiting.filter(seen, step__status=StepStatus.AWAITING_TOOL)
        .exclude(step__in=held_back(_WORK))
        .order_by("id")
        .select_related("step__job")
    )
    rows = asleep.select_for_update(of=("self",), no_key=True)
    tried: list[uuid.UUID] = []
    while (wait := rows.exclude(pk__in=tried).first()) is not None:
        if _handed(event, wait):
            return
        tried.append(wait.pk)


def _handed(event: OutsideEvent, wait: EventWait) -> bool:
    """In a savepoint of its own."""
    return each_row(_WORK, [wait.step_id], lambda _: _wake_with(event, wait)) == 1


def _wake_with(event: OutsideEvent, wait: EventWait) -> bool:
    """False where its step sleeps no more."""
    if not _asleep(wait.step).update(ready_at=clock.now()):
        return False
    _give(event, wait, wait.step)
    wake([wait.step.lane])
    return True


def _sees(sender: str, job: Job) -> bool:
    user = actor_user(sender)
    return covers(user, job) if user is not None else not is_login(sender)


def _asleep(step: Step) -> QuerySet[Step]:
    return Step.objects.filter(
        pk=step.pk, status=StepStatus.AWAITING_TOOL, attempts=step.attempts, waiting_for__type="event"
    )


def _give(event: OutsideEvent, wait: EventWait, step: Step) -> None:
    now = clock.now()
    EventWait.objects.filter(pk=wait.pk).update(event=event)
    OutsideEvent.objects.filter(pk=event.pk).update(step=step, taken_at=now)
    events.record(
        step.job,
        "step.event",
        step=step,
        source=event.delivered_by,
        payload={"event": str(event.pk), "name": event.name, "correlation": event.correlation},
        occurrence=f":{event.pk}",
    )
    # Said last: one that raised was given to nobody.
    wait.event, event.step, event.taken_at = event, step, now


def _was_late(step: Step, wait: WaitForEvent) -> bool:
    if wait.until is None or wait.until > clock.now():
        return False
    same = EventWait.objects.filter(step=step, name=wait.name, correlation=wait.correlation)
    return same.filter(closed_at__isnull=False, event=None).exists()


def _kept_for(step: Step, team: Team, wait: WaitForEvent) -> OutsideEvent | None:
    """The oldest such event that nobody has taken, of a sender who sees the job; else what the step took in a
    job that this one retries."""
    same = OutsideEvent.objects.filter(team=team, name=wait.name, correlation=wait.correlation)
    kept = _oldest_untaken(same, step.job)
    if kept is not None:
        return kept
    return same.filter(step__in=steps_before(step)).order_by("-taken_at").first()


def _untaken(wait: EventWait, job: Job) -> OutsideEvent | None:
    """What is kept and may be handed to this wait of the job's."""
    same = OutsideEvent.objects.filter(team=wait.team_id, name=wait.name, correlation=wait.correlation)
    return _oldest_untaken(same, job)


def _oldest_untaken(same: QuerySet[OutsideEvent], job: Job) -> OutsideEvent | None:
    """Of a sender who sees the job."""
    untaken = same.filter(step=None)
    senders = [key for key in untaken.values_list("delivered_by", flat=True).distinct() if _sees(key, job)]
    return untaken.filter(delivered_by__in=senders).order_by("id").select_for_update(no_key=True).first()
