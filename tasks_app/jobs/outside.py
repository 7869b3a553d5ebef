"""Events from outside: kept as they come, and each handed to one step that waits for it by name.

An event that comes before its step waits is kept for it. Whoever delivers and whoever begins to wait take the
lock of that name first, before any row, so that neither misses the other.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet

from tasks_app import clock
from tasks_app.jobs import engine, events
from tasks_app.jobs.actions import EVENT_NAME, Done, Result, Run, StepFailedError, WaitForEvent
from tasks_app.jobs.models import STEP_ENDED, Step, StepStatus
from tasks_app.jobs.outside_event import EventWait, OutsideEvent
from tasks_app.jobs.wake import wake
from tasks_app.lifecycle.transitions import Who, exact
from tasks_app.operations.canonical import canonical_digest
from tasks_app.people.actors import actor_key, actor_user
from tasks_app.people.models import Team
from tasks_app.people.roles import DELIVER_EVENT

WAIT = "wait_for_event"
_LOCKS = 0x0E7E_47
_AT_ONCE = 1000
_MAX_KEY = 200
Late = EventWait.Late


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
    correlation; without one it waits for its step. The same key again does nothing.

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
        # One that comes in this moment wins.
        EventWait.objects.filter(pk=wait.pk, event=None).update(closed_at=clock.now())
        wait = EventWait.objects.select_related("event").get(pk=wait.pk)
    if wait.event is not None:
        return Heard(payload=wait.event.payload)
    late = wait.closed_at is not None
    if late and wait.late == Late.FAIL:
        raise StepFailedError(f"The event {wait.name} {wait.correlation}".rstrip() + " did not come in time")
    return Heard(late=late)


def wait_for_event(run: Run) -> Result:
    """The action `wait_for_event`: inputs {name, correlation?, hours?, late?}; outputs {event: its payload},
    null where it is late and `late` is "continue"."""
    if run.event is not None or run.event_late:
        return Done(outputs={"event": run.event})
    hours = run.inputs.get("hours")
    begun = run.step.started_at or clock.now()
    return WaitForEvent(
        name=run.inputs["name"],
        correlation=str(run.inputs.get("correlation", "")),
        until=begun + timedelta(hours=hours) if hours else None,
        late=run.inputs.get("late", Late.FAIL),
    )


def events_forget() -> int:
    """Remove events that nobody has taken, or whose step has ended, once they are older than
    settings.OUTSIDE_EVENT_KEEP, some in each call. Answers how many."""
    old = OutsideEvent.objects.filter(received_at__lt=clock.now() - settings.OUTSIDE_EVENT_KEEP)
    done = old.filter(Q(step=None) | Q(step__status__in=STEP_ENDED)).order_by("received_at")
    with transaction.atomic():
        rows = done.select_for_update(of=("self",), skip_locked=True).values_list("pk", flat=True)
        ids = list(rows[:_AT_ONCE])
        if ids:
            EventWait.objects.filter(event__in=ids).delete()
            OutsideEvent.objects.filter(pk__in=ids).delete()
    return len(ids)


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
    """To the first that waits, unless it was taken by a worker or cancelled meanwhile."""
    waiting = EventWait.objects.filter(
        team=event.team_id, name=event.name, correlation=event.correlation, event=None, closed_at=None
    )
    asleep = waiting.filter(step__status=StepStatus.AWAITING_TOOL).order_by("id").select_related("step__job")
    rows = asleep.select_for_update(of=("self",), no_key=True)
    tried: list[uuid.UUID] = []
    while (wait := rows.exclude(pk__in=tried).first()) is not None:
        if _asleep(wait.step).update(ready_at=clock.now()):
            _give(event, wait, wait.step)
            wake([wait.step.lane])
            return
        tried.append(wait.pk)


def _asleep(step: Step) -> QuerySet[Step]:
    return Step.objects.filter(
        pk=step.pk, status=StepStatus.AWAITING_TOOL, attempts=step.attempts, waiting_for__type="event"
    )


def _give(event: OutsideEvent, wait: EventWait, step: Step) -> None:
    wait.event = event
    wait.save(update_fields=["event"])
    event.step, event.taken_at = step, clock.now()
    event.save(update_fields=["step", "taken_at"])
    events.record(
        step.job,
        "step.event",
        step=step,
        source=event.delivered_by,
        payload={"event": str(event.pk), "name": event.name, "correlation": event.correlation},
        occurrence=f":{event.pk}",
    )


def _was_late(step: Step, wait: WaitForEvent) -> bool:
    if wait.until is None or wait.until > clock.now():
        return False
    same = EventWait.objects.filter(step=step, name=wait.name, correlation=wait.correlation)
    return same.filter(closed_at__isnull=False, event=None).exists()


def _kept_for(step: Step, team: Team, wait: WaitForEvent) -> OutsideEvent | None:
    """The oldest such event that nobody has taken; else what the step took in a job that this one retries."""
    same = OutsideEvent.objects.filter(team=team, name=wait.name, correlation=wait.correlation)
    kept = same.filter(step=None).order_by("id").select_for_update(no_key=True).first()
    if kept is not None or step.lineage is None:
        return kept
    chain = Q(step=step.lineage) | Q(step__lineage=step.lineage)
    return same.filter(chain).exclude(step=step.pk).order_by("-taken_at").first()
