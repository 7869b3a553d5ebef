"""Why a job, one of its steps, or a schedule stands as it does."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from django.urls import reverse

from tasks_app import clock
from tasks_app.approvals.explain import Pending, question_mover, question_pending
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.commands.kill_switch import stops_shown
from tasks_app.desk import text
from tasks_app.desk.explain import (
    NOBODY,
    Answers,
    Explainer,
    Mover,
    Standing,
    explainer_register,
    page_link,
    stands,
)
from tasks_app.jobs.awaited import awaited_by
from tasks_app.jobs.models import JOB_OPEN, WAITING, Job, JobStatus, Step, StepStatus
from tasks_app.jobs.retrying import retry_refusal
from tasks_app.jobs.schedule import Schedule
from tasks_app.jobs.selectors import schedules_of
from tasks_app.jobs.waits import Wait, wait_of, waits_of
from tasks_app.operations.corrections import refusal_words
from tasks_app.people.actors import actor_names
from tasks_app.people.roles import SCHEDULE_JOB, STEER_JOB
from tasks_app.people.scope import visible

J, S = JobStatus, StepStatus
_WORKER = "A worker"
_JOB_ENDED = {
    J.COMPLETED: "Nothing: all its steps are done.",
    J.FAILED: "Nothing: a step failed for good.",
    J.CANCELLED: "Nothing: it was cancelled, and what it had not sent ended with it.",
    J.EXPIRED: "Nothing: its time to live ran out.",
    J.DELETED: "Nothing: it was hidden from view; its trail stays.",
}
_STEP_ENDED = {
    S.COMPLETED: "Nothing: its work is done.",
    S.FAILED: "Nothing: it failed for good.",
    S.CANCELLED: "Nothing: it was not needed any more.",
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """A job's facts. `waits`: what its steps wait for, in words; `stopped`: who stopped what would change
    something at a seller, when and why; `question`: the most urgent one of them that people are asked;
    `expires_at`: when its time to live is looked at next; `said`: why it ended as it did, and what sellers
    said to what it was about; `unretried`: why one that came to no good end is not retried."""

    status: str
    waits: str = ""
    stopped: str = ""
    question: Pending | None = None
    expires_at: datetime | None = None
    said: str = ""
    unretried: str = ""


def job_answers(run: Run) -> Answers:
    """The answers for every status of a job. Raises KeyError for another."""
    status = J(run.status)
    if status not in JOB_OPEN:
        failed = status in (J.FAILED, J.EXPIRED)
        unretried = run.unretried if failed else ""
        does = "retry it as a new job, or hide it" if failed and not unretried else "hide it"
        return Answers(
            waiting=" ".join(filter(None, (_JOB_ENDED[status], run.said, unretried))),
            movers=(Mover(right=STEER_JOB, does=does),) if status != J.DELETED else (),
            otherwise=NOBODY,
        )
    asked = (question_mover(run.question),) if run.question else ()
    return Answers(
        waiting=_job_waiting(run),
        movers=(*asked, Mover(who=_WORKER, does="takes each step that is ready"), _cancels()),
        otherwise=_expiry(run.expires_at),
        deadline=run.expires_at,
    )


@dataclass(frozen=True, kw_only=True)
class Node:
    """A step's facts. `wait`: what it waits for, while it sleeps; `question`: the approval among that;
    `before`: predecessors still to finish; `said`: why it failed."""

    status: str
    wait: Wait | None = None
    question: Pending | None = None
    before: int = 0
    lease_until: datetime | None = None
    ready_at: datetime | None = None
    said: str = ""


def step_answers(node: Node) -> Answers:
    """The answers for every status of a step. Raises KeyError for another."""
    return _STEPS[S(node.status)](node)


def schedule_answers(*, paused: bool, next_due_at: datetime | None, starter: str) -> Answers:
    """The answers about a schedule: running, paused or over."""
    first = "resume, " if paused else "pause, " if next_due_at else ""
    changes = Mover(right=SCHEDULE_JOB, does=f"{first}change it or run it now")
    if paused:
        return Answers(
            waiting="It waits for somebody to resume it.",
            movers=(changes,),
            otherwise="It starts nothing; times that pass meanwhile are not made up for.",
        )
    if next_due_at is None:
        return Answers(waiting="Nothing: no further time is due.", movers=(changes,), otherwise=NOBODY)
    return Answers(
        waiting=f"It waits for its next time, {text.moment(next_due_at)}.",
        movers=(Mover(who="The clock", does=f"starts its job then, in the name of {starter}"), changes),
        otherwise="It starts by itself, as long as that person may start jobs.",
        deadline=next_due_at,
    )


def register() -> None:
    """Called when the application starts."""
    explainer_register(
        "job",
        Explainer(
            label="Job",
            model=Job,
            prefix="JOB",
            right="tasks_app.view_job",
            rows=lambda viewer: visible(Job.objects.defer("plan", "inputs", "outputs"), viewer),
            answers=_job,
            standing=stands,
            title=lambda job: f"{job.recipe.replace('_', ' ').capitalize()}, version {job.recipe_version}",
            link=page_link("tasks_app_job"),
        ),
    )
    explainer_register(
        "step",
        Explainer(
            label="Step",
            model=Step,
            right="tasks_app.view_step",
            rows=lambda viewer: visible(
                Step.objects.select_related("job").defer("job__plan", "job__inputs", "job__outputs"),
                viewer,
                team="job__team",
            ),
            answers=_step,
            standing=lambda step: Standing(
                status=step.status, since=step.status_since, team_id=step.job.team_id
            ),
            title=lambda step: f"{step.key} of {step.job.reference}",
            link=lambda step: f"{reverse('admin:tasks_app_job_change', args=[step.job_id])}?step={step.pk}",
        ),
    )
    explainer_register(
        "schedule",
        Explainer(
            label="Schedule",
            model=Schedule,
            right="tasks_app.view_schedule",
            rows=schedules_of,
            answers=_schedule,
            standing=_schedule_standing,
            title=lambda schedule: schedule.name,
            link=page_link("tasks_app_schedule"),
        ),
    )


def _job(job: Job) -> Answers:
    open_ = job.ended_at is None and job.status in JOB_OPEN
    return job_answers(
        Run(
            status=job.status,
            waits=waits_of([job]).get(job.pk, "") if open_ else "",
            stopped=stops_shown().words(job.team_id) if open_ else "",
            question=_question_of(job) if open_ else None,
            expires_at=job.expires_at,
            said="" if open_ else _said(job),
            unretried="" if open_ else retry_refusal(job),
        )
    )


def _said(job: Job) -> str:
    """Its own error, and what a seller said to what it is about: its subject, or an id among its inputs."""
    about = [(job.subject_type, job.subject_id)] if job.subject_id else list(_named(job))
    words = dict.fromkeys(filter(None, (refusal_words(kind, pk) for kind, pk in about)))
    error = " ".join(job.error.split()).rstrip(".")
    return " ".join(filter(None, (f"{error}." if error else "", *words)))


def _named(job: Job) -> Iterator[tuple[str, uuid.UUID]]:
    """What its inputs name: deal_id names a deal."""
    for name, value in job.inputs.items():
        if name.endswith("_id") and isinstance(value, str):
            with contextlib.suppress(ValueError):
                yield name.removesuffix("_id"), uuid.UUID(value)


def _question_of(job: Job) -> Pending | None:
    asleep = Step.objects.filter(job=job, status=S.AWAITING_USER, waiting_for__contains={"type": "approvals"})
    waits = asleep.values_list("waiting_for", flat=True)[:50]
    ids = [pk for wait in waits if wait for pk in wait["ids"]]
    return _pending(ids)


def _pending(ids: Collection[str]) -> Pending | None:
    asked = Approval.objects.filter(pk__in=ids, status=ApprovalStatus.OPEN)
    return question_pending(asked) if ids else None


def _step(step: Step) -> Answers:
    asleep = step.status in WAITING
    awaited = awaited_by([step]) if asleep else None
    return step_answers(
        Node(
            status=step.status,
            wait=wait_of(step, awaited) if awaited else None,
            question=_pending(awaited.approvals) if awaited else None,
            before=step.incoming,
            lease_until=step.lease_until,
            ready_at=step.ready_at,
            said=step.error if step.status == S.FAILED else "",
        )
    )


def _schedule(schedule: Schedule) -> Answers:
    starter = actor_names({schedule.actor})[schedule.actor]
    return schedule_answers(paused=schedule.paused, next_due_at=schedule.next_due_at, starter=starter)


def _schedule_standing(schedule: Schedule) -> Standing:
    """Since when: the entry that brought it there, else since it was made."""
    over = schedule.next_due_at is None
    word, glyph = (
        ("Paused", "stopped") if schedule.paused else ("Over", "done") if over else ("Scheduled", "waiting")
    )
    kinds = ("paused",) if schedule.paused else ("started", "skipped") if over else ("resumed", "created")
    latest = schedule.entries.filter(kind__in=kinds).first()
    return Standing(
        status=word.lower(),
        word=word,
        glyph=glyph,
        since=latest.at if latest else schedule.created_at,
        team_id=schedule.team_id,
    )


def _job_waiting(run: Run) -> str:
    if run.stopped:
        held = f"{run.stopped}. What changes something at a seller is not sent until that is let go."
        return f"{held} {_job_waiting(replace(run, stopped=''))}"
    if run.waits:
        return f"It waits for {run.waits}."
    if run.status in (J.PENDING, J.QUEUED):
        return "It waits for a worker to take its first step."
    return "It waits for a worker to take, or to finish, its next step."


def _expiry(at: datetime | None) -> str:
    if at is None:
        return "It waits on: nothing ends it by itself."
    return (
        f"Its time to live is looked at {text.moment(at)}: without progress of its own it expires. Waiting "
        "for people and sellers is not counted."
    )


def _received(node: Node) -> Answers:
    steps = (
        "another step" if node.before == 1 else f"{node.before} other steps" if node.before else "its turn"
    )
    return Answers(
        waiting=f"It waits for {steps} of its job.",
        movers=(Mover(who="The steps before it", does="finish"), _cancels()),
        otherwise="It is cancelled when the job ends without it.",
    )


def _queued(node: Node) -> Answers:
    at = f", {text.moment_short(node.ready_at)}" if node.ready_at and node.ready_at > clock.now() else ""
    return Answers(
        waiting=f"It is ready and waits for a free worker{at}.",
        movers=(Mover(who=_WORKER, does="takes it in its turn"), _skips()),
        otherwise="It keeps its place; it ends with its job's time to live at the latest.",
    )


def _executing(node: Node) -> Answers:
    over = f" {text.moment(node.lease_until)}" if node.lease_until else ""
    return Answers(
        waiting="A worker does it at this moment.",
        movers=(Mover(who=_WORKER, does="finishes it, or puts it to sleep"), _cancels()),
        otherwise=f"If the worker dies its lease ends{over}, and another takes the step over.",
        deadline=node.lease_until,
    )


def _asleep(node: Node) -> Answers:
    wait = node.wait
    asked = (question_mover(node.question),) if node.question else ()
    others = Mover(who="What it waits for", does="wakes it the moment it has come")
    until = wait.until if wait else None
    said = f"{wait.words.rstrip('.')}." if wait else "It waits to be woken."
    return Answers(
        waiting=said,
        movers=(*(asked or (others,)), _skips()),
        otherwise=_asleep_otherwise(until, node.question),
        deadline=until,
    )


def _asleep_otherwise(until: datetime | None, question: Pending | None) -> str:
    if until is None:
        return "It sleeps on and holds no worker; what it waits for has a deadline of its own."
    if question and question.waits:
        return f"At its deadline, {text.moment(until)}, {question.waits}, and the step with it."
    if question:
        return (
            f"The question expires {text.moment(until)}; that never approves, and the step goes on with it."
        )
    return f"At {text.moment(until)} what it waits for is over or overdue, and people or a worker go on."


def _step_over(node: Node) -> Answers:
    return Answers(waiting=f"{_STEP_ENDED[S(node.status)]} {node.said}".rstrip(), otherwise=NOBODY)


def _cancels() -> Mover:
    return Mover(right=STEER_JOB, does="cancel the job")


def _skips() -> Mover:
    return Mover(right=STEER_JOB, does="skip the step, or cancel the job")


_STEPS: dict[str, Callable[[Node], Answers]] = {
    S.RECEIVED: _received,
    S.QUEUED: _queued,
    S.EXECUTING: _executing,
    S.AWAITING_TOOL: _asleep,
    S.AWAITING_USER: _asleep,
    **dict.fromkeys(_STEP_ENDED, _step_over),
}
