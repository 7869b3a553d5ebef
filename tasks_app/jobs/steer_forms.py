"""The forms by which people steer a job and its steps: what the page shows of them, and what was written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tasks_app.adcp.strict_json import MalformedBody, parse_typed
from tasks_app.jobs.endings import JobRefusedError, job_cancel, job_hide
from tasks_app.jobs.looks import step_title
from tasks_app.jobs.models import JOB_ENDED, Job, JobStatus, Step, StepStatus
from tasks_app.jobs.retrying import job_retry, retry_refusal
from tasks_app.jobs.selectors import step_of
from tasks_app.jobs.steering import (
    MOST_PRIORITY,
    can_be_given,
    can_be_skipped,
    job_priority_set,
    step_input_give,
    step_skip,
)
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_JOB

REASON_LENGTH = 400
_STEPS_OFFERED = 200
Form = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Acts:
    """What may be done about a job now, and to which completed steps a retry may go back: (key, title)."""

    cancel: bool
    retry: bool
    hide: bool
    priority: bool
    steps: tuple[tuple[str, str], ...] = ()

    @property
    def sign(self) -> str:
        """Differs where something else may be done."""
        return "".join(str(int(may)) for may in (self.cancel, self.retry, self.hide, self.priority))


@dataclass(frozen=True, kw_only=True)
class StepActs:
    """What may be done about one step now. `retry`: its job may be retried from it."""

    skip: bool
    retry: bool
    give: bool


def acts_of(job: Job, who: User) -> Acts | None:
    """What `who` may do about the job now; None: nothing."""
    if not who.has_perm(STEER_JOB) or job.status == JobStatus.DELETED:
        return None
    over = job.status in JOB_ENDED
    retry = not retry_refusal(job)
    steps = _done(job) if retry else ()
    return Acts(cancel=not over, retry=retry, hide=over, priority=not over, steps=steps)


def step_acts_of(step: Step, acts: Acts | None) -> StepActs | None:
    """What who may do `acts` about the job may do about its step; None: nothing."""
    if acts is None:
        return None
    whole = step.fan_out_id is None
    retry = acts.retry and whole and step.status == StepStatus.COMPLETED
    skip = acts.cancel and can_be_skipped(step)
    give = acts.cancel and can_be_given(step)
    return StepActs(skip=skip, retry=retry, give=give) if skip or retry or give else None


def steer(form: Form, job: Job, user: User) -> tuple[Job, str]:
    """Do what a form asks. The job to show afterwards, and what was done in a sentence.

    Raises JobRefusedError and TransitionError."""
    act = _ACTS.get(form.get("act", ""))
    if act is None:
        raise JobRefusedError("Say what to do: there is no such act.")
    return act(form, job, user)


def _done(job: Job) -> tuple[tuple[str, str], ...]:
    done = Step.objects.filter(job=job, fan_out=None, status=StepStatus.COMPLETED).order_by("id")
    return tuple((step.key, step_title(step)) for step in done.defer("outputs")[:_STEPS_OFFERED])


def _cancel(form: Form, job: Job, user: User) -> tuple[Job, str]:
    _sure(form)
    ended = job_cancel(job_id=job.pk, actor=user, reason=form.get("reason", ""))
    return ended, f"{job.reference} is cancelled."


def _retry(form: Form, job: Job, user: User) -> tuple[Job, str]:
    _sure(form)
    new = job_retry(
        job_id=job.pk, actor=user, reason=form.get("reason", ""), from_step=form.get("from_step", "")
    )
    return new, f"{new.reference} retries {job.reference}."


def _give(form: Form, job: Job, user: User) -> tuple[Job, str]:
    _sure(form)
    step = _step(form, job)
    try:
        payload = parse_typed(form.get("payload", ""))
    except MalformedBody as error:
        raise JobRefusedError(f"What it is given: {error.reason}. Write a JSON object.") from error
    step_input_give(step_id=step.pk, payload=dict(payload), actor=user, reason=form.get("reason", ""))
    return job, f"{step.key} of {job.reference} has its input and goes on."


def _step(form: Form, job: Job) -> Step:
    step = step_of(job, form.get("step", ""))
    if step is None:
        raise JobRefusedError("Say which step: the job has no such.")
    return step


def _skip(form: Form, job: Job, user: User) -> tuple[Job, str]:
    _sure(form)
    step = _step(form, job)
    step_skip(step_id=step.pk, actor=user, reason=form.get("reason", ""))
    return job, f"{step.key} of {job.reference} is skipped; the job goes on without it."


def _priority(form: Form, job: Job, user: User) -> tuple[Job, str]:
    written = form.get("priority", "").strip()
    if not (written.isascii() and written.isdecimal() and len(written) <= 5):
        raise JobRefusedError(f"A priority is a number from 0 to {MOST_PRIORITY:,}.")
    job_priority_set(job_id=job.pk, priority=int(written), actor=user, reason=form.get("reason", ""))
    return job, f"{job.reference} has priority {int(written)} now; lower numbers go first."


def _hide(form: Form, job: Job, user: User) -> tuple[Job, str]:
    return job_hide(job_id=job.pk, actor=user), f"{job.reference} is hidden from lists."


def _sure(form: Form) -> None:
    if form.get("sure") != "on":
        raise JobRefusedError("Confirm that you have read what it does.")


_ACTS: dict[str, Callable[[Form, Job, User], tuple[Job, str]]] = {
    "cancel": _cancel,
    "retry": _retry,
    "skip": _skip,
    "give": _give,
    "priority": _priority,
    "hide": _hide,
}
