"""A job's events for readers that go on where they stopped: pages by id, and as server-sent events."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks_app.jobs.models import JOB_ENDED, Job, JobStatus, WorkflowEvent
from tasks_app.jobs.settled import events_settled
from tasks_app.jobs.shown import fits, shown

MOST = 500
END = b"event: end\ndata: {}\n\n"
HEARTBEAT = b": \n\n"
RETRY = b"retry: 2000\n\n"
# One range of the index (job, id) per job.
_BEHIND = """
select e.* from unnest(%s::uuid[], %s::bigint[]) as w (job, behind)
 cross join lateral (
   select * from tasks_app_workflowevent
    where job_id = w.job and id > w.behind and id <= %s order by id limit %s
 ) e
"""
_OVER = frozenset(f"job.{status.lower()}" for status in JOB_ENDED if status != JobStatus.DELETED)


@dataclass(frozen=True, kw_only=True)
class EventPage:
    """`events` as `event_told` makes them, oldest first; `after`: where to go on; `more`: there are more now;
    `ended_at`: the id behind which nothing new will come, None while the job is not known to have ended."""

    events: list[dict[str, Any]]
    after: int
    more: bool
    ended_at: int | None

    @property
    def over(self) -> bool:
        """The job has ended, and this page, or one before, has its last events."""
        return self.ended_at is not None and not self.more


def events_page(job: Job, *, after: int, limit: int = MOST) -> EventPage:
    """Events of a job that the viewer was found to see, behind the id `after`."""
    settled, whole = events_settled(job.pk)
    rows = WorkflowEvent.objects.filter(job=job, id__gt=after, id__lte=settled).order_by("id")
    found = list(rows[: limit + 1])
    events = [event_told(row) for row in found[:limit]]
    ended_at = next((event["id"] for event in events if ends(event)), None)
    if job.ended_at is not None and whole:  # it was read before: its last events are below this
        ended_at = settled
    last = events[-1]["id"] if events else after
    return EventPage(events=events, after=last, more=len(found) > limit, ended_at=ended_at)


def events_behind(wanted: Mapping[uuid.UUID, int], settled: int, limit: int) -> dict[uuid.UUID, list[Any]]:
    """For each job its events behind an id, as `event_told`, up to the id `settled` and at most `limit`."""
    found: dict[uuid.UUID, list[Any]] = {job_id: [] for job_id in wanted}
    for row in WorkflowEvent.objects.raw(_BEHIND, [list(wanted), list(wanted.values()), settled, limit]):
        found[row.job_id].append(event_told(row))
    return found


def event_told(event: WorkflowEvent) -> dict[str, Any]:
    """One event as it may leave; a payload of more than 100 kB is None."""
    return {
        "id": event.pk,
        "type": event.type,
        "at": event.at.isoformat(),
        "source": event.source,
        "step": event.correlation.get("step", ""),
        "step_id": event.correlation.get("step_id"),
        "attempt": int(event.correlation.get("attempt", 0)),
        "payload": shown(event.payload) if fits(event.payload) else None,
        "correlation": shown(event.correlation),
    }


def ends(event: Mapping[str, Any]) -> bool:
    """Whether the event ended its job."""
    return event["type"] in _OVER


def as_stream(events: Iterable[Mapping[str, Any]]) -> bytes:
    """Server-sent events (WHATWG HTML, 9.2), each with its id."""
    return b"".join(
        f"id: {event['id']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode() for event in events
    )
