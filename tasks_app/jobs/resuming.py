"""Resuming a job by its token (document 001, section 6.3.2): a doubled or late wake-up changes nothing."""

from __future__ import annotations

import hmac
import uuid

from django.db import transaction

from tasks_app.jobs.endings import JobRefusedError, may_steer
from tasks_app.jobs.engine import locked_job
from tasks_app.jobs.expiry import job_recover
from tasks_app.jobs.models import JOB_ENDED
from tasks_app.jobs.progress import resume_token
from tasks_app.lifecycle.transitions import Who


@transaction.atomic
def job_resume(*, job_id: uuid.UUID, token: str, actor: Who) -> int:
    """Let the steps go on whose wait is over, also where their wake-up was lost; answers how many were woken.

    `token`: the job's resume token (`progress.resume_token`) as the caller read it. It changes with each
    resume: a second one with the same token, or an older one, answers 0 and changes nothing. Raises
    JobRefusedError (no right, the job has ended).
    """
    if not may_steer(actor):
        raise JobRefusedError("You have no right to resume jobs.")
    job = locked_job(job_id)
    if job.status in JOB_ENDED:
        raise JobRefusedError("It has ended already.")
    if not hmac.compare_digest(resume_token(job).encode(), token.encode()):
        return 0
    return job_recover(job)
