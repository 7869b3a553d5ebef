"""Retrying or cancelling many jobs: a job of its own, which reports on each of them.

What is done to each is judged when its turn comes, as the person who asked: their right, their teams and the
job's state then, not those at the moment of asking. Of a bulk job that is retried that is who retried it.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import DatabaseError, connection, transaction
from django.db.models import QuerySet

from tasks_app.jobs.actions import Done, Result, Run, StepFailedError, action_register
from tasks_app.jobs.endings import JobRefusedError, job_cancel
from tasks_app.jobs.models import JOB_OPEN, Job, JobStatus
from tasks_app.jobs.planning import job_start
from tasks_app.jobs.recipes import recipes_register
from tasks_app.jobs.retrying import RETRY_COLUMNS, job_retry, retries_sought, retry_refusals
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.refusals import refusal_of
from tasks_app.people.actors import actor_user
from tasks_app.people.models import Team, User
from tasks_app.people.roles import STEER_JOB
from tasks_app.people.scope import visible

RECIPE = "bulk_steer"
SUBJECT = "bulk"
MOST = 5000
REASON_LENGTH = 400
DONE, REFUSED = "done", "refused"


class BulkConflictError(Exception):
    """Something else was asked under the same request id."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """Jobs by a filter: `rows`, and what was `said` for it (JSON), by which asking twice is recognised."""

    rows: QuerySet[Job]
    said: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Jobs to steer: `ids` as they will be taken, newest first, `able` how many of them the act suits now,
    their team, and their advertiser where it is one."""

    ids: tuple[uuid.UUID, ...]
    able: int
    team: Team
    advertiser_id: uuid.UUID | None


def bulk_chosen(
    *, viewer: User, act: str, ids: Sequence[uuid.UUID] = (), found: Found | None = None
) -> Chosen:
    """What `viewer` chose: by id, also what the act does not suit, which is reported then; or as a filter
    finds them, only what the act suits. Raises JobRefusedError: nothing found, too many, of several teams."""
    if act not in _ACTS:
        raise JobRefusedError("Say what to do: retry or cancel.")
    if found is not None:
        # A nested job goes with the one it is part of.
        rows = _sought(visible(found.rows, viewer).filter(parent_step=None), act)
    else:
        rows = visible(Job.objects.filter(pk__in=ids[: MOST + 1]), viewer)
    jobs = list(rows.order_by("-id").only("team", "advertiser", *RETRY_COLUMNS)[: MOST + 1])
    if len(jobs) > MOST or len(ids) > MOST:
        raise JobRefusedError(f"More than {MOST:,} jobs: choose fewer at a time.")
    able = _suited(jobs, act)
    jobs = able if found is not None else jobs
    if not jobs:
        raise JobRefusedError(f"There is nothing to {act} among them.")
    teams, clients = {job.team_id for job in jobs}, {job.advertiser_id for job in jobs}
    if len(teams) > 1:
        raise JobRefusedError("They belong to more than one team: choose jobs of one team at a time.")
    taken = tuple(job.pk for job in jobs) if found is not None else tuple(dict.fromkeys(ids))
    return Chosen(
        ids=taken,
        able=len(able),
        team=Team.objects.get(pk=teams.pop()),
        advertiser_id=clients.pop() if len(clients) == 1 else None,
    )


@transaction.atomic
def bulk_start(
    *,
    act: str,
    reason: str,
    user: User,
    request_id: uuid.UUID,
    ids: Sequence[uuid.UUID] = (),
    found: Found | None = None,
) -> Job:
    """Start the job that does `act` to each of the jobs chosen by id or by filter. The same `request_id` of
    the same person answers the job that was started with it.

    Raises JobRefusedError (no right, no reason, see also bulk_chosen) and BulkConflictError.
    """
    if not user.has_perm(STEER_JOB):
        raise JobRefusedError("You have no right to steer jobs.")
    if not reason.strip():
        raise JobRefusedError("Say why.")
    asked = {
        "act": act,
        "reason": reason.strip()[:REASON_LENGTH],
        "filter": found.said if found is not None else {},
        **({"jobs": [str(pk) for pk in dict.fromkeys(ids)]} if found is None else {}),
    }
    key = uuid.uuid5(request_id, str(user.pk))
    _alone(key)
    earlier = Job.objects.filter(subject_type=SUBJECT, subject_id=key, retry_of=None).first()
    if earlier is None:
        chosen = bulk_chosen(viewer=user, act=act, ids=ids, found=found)
        inputs = {**asked, "jobs": [str(pk) for pk in chosen.ids]}
        return job_start(
            recipe=RECIPE,
            inputs=inputs,
            team=chosen.team,
            actor=user,
            subject_type=SUBJECT,
            subject_id=key,
            advertiser_id=chosen.advertiser_id,
        )
    if not asked.items() <= earlier.inputs.items():
        raise BulkConflictError("Something else was asked under this request id.")
    return earlier


def register() -> None:
    """Called when the application starts."""
    action_register("jobs.steer_one", steer_one, kind="idempotent")
    action_register("jobs.report", report, kind="pure")
    recipes_register(Path(__file__).parent / "recipes")


def steer_one(run: Run) -> Result:
    """One job of many. Inputs {job_id, act, reason}; outputs {job: reference, outcome: done or refused,
    note: in words}. A second run finds what the first has done."""
    user = actor_user(_asker(run.job))
    if user is None or not user.has_perm(STEER_JOB):
        raise StepFailedError("Who asked for it may not steer jobs any more.")
    act, reason = run.inputs["act"], f"{run.inputs['reason']} ({run.job.reference})"
    job = visible(Job.objects.filter(team=run.job.team_id), user).filter(pk=run.inputs["job_id"]).first()
    if job is None:
        return _told(run.inputs["job_id"], REFUSED, "There is no such job.")
    done, steer = _ACTS[act]
    before = done(job, reason)
    if before:
        return _told(job.reference, DONE, before)
    try:
        return _told(job.reference, DONE, steer(job, user, reason))
    except JobRefusedError as error:
        return _told(job.reference, REFUSED, str(error))
    except (TransitionError, DatabaseError) as error:
        refused = refusal_of(error)
        if refused is None:
            raise
        return _told(job.reference, REFUSED, str(refused))


def report(run: Run) -> Result:
    """Inputs {asked: n, results: as above, skipped: n}; outputs {done, refused, failed, skipped: how many,
    words}."""
    outcomes = Counter(one["outcome"] for one in run.inputs["results"])
    skipped = run.inputs.get("skipped", 0)
    if skipped is True:  # all of them, before they were begun
        skipped = run.inputs["asked"]
    told = {DONE: outcomes[DONE], REFUSED: outcomes[REFUSED], "skipped": skipped}
    told["failed"] = run.inputs["asked"] - sum(told.values())
    words = ", ".join(f"{count:,} {word}" for word, count in told.items() if count or word == DONE)
    return Done(outputs={**told, "words": words})


def _sought(rows: QuerySet[Job], act: str) -> QuerySet[Job]:
    """Of `rows`, those among which is everything that the act suits."""
    return rows.filter(status__in=JOB_OPEN) if act == "cancel" else retries_sought(rows)


def _suited(jobs: Sequence[Job], act: str) -> list[Job]:
    """Of `jobs`, those that the act suits as they are now."""
    if act == "cancel":
        return [job for job in jobs if job.status in JOB_OPEN]
    refused = retry_refusals(jobs)
    return [job for job in jobs if job.pk not in refused]


def _asker(job: Job) -> str:
    """Who asked for it to be done: of a retried one who retried it. The actor of its first entry."""
    born = AuditEntry.objects.filter(entity_type="job", entity_id=job.pk, seq=1)
    return born.values_list("actor", flat=True).get()


def _alone(key: uuid.UUID) -> None:
    """Until the end of the transaction, nobody else starts under this key."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [str(key)])


def _told(job: str, outcome: str, note: str) -> Done:
    return Done(outputs={"job": job, "outcome": outcome, "note": note})


def _cancel(job: Job, user: User, reason: str) -> str:
    job_cancel(job_id=job.pk, actor=user, reason=reason)
    return "Cancelled."


def _cancelled(job: Job, reason: str) -> str:
    return "Cancelled." if job.status == JobStatus.CANCELLED and job.error == reason else ""


def _retry(job: Job, user: User, reason: str) -> str:
    return f"Retried as {job_retry(job_id=job.pk, actor=user, reason=reason).reference}."


def _retried(job: Job, reason: str) -> str:
    new = Job.objects.filter(retry_of=job).only("reference").first()
    if new is None:
        return ""
    born = AuditEntry.objects.filter(entity_type="job", entity_id=new.pk, seq=1, reason__endswith=reason)
    return f"Retried as {new.reference}." if born.exists() else ""


# By what is asked: whether this very request has done it already (in words, else empty), and doing it.
_ACTS: dict[str, tuple[Callable[[Job, str], str], Callable[[Job, User, str], str]]] = {
    "cancel": (_cancelled, _cancel),
    "retry": (_retried, _retry),
}
