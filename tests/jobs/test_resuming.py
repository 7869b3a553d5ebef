"""Resuming by token: a wake-up that was lost is made up for once, however often it is asked for."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from datetime import timedelta

import psycopg
import pytest

from tasks_app import clock
from tasks_app.jobs import engine, over
from tasks_app.jobs.actions import Done, Result, Run, WaitForOperation, WaitUntil
from tasks_app.jobs.endings import JobRefusedError
from tasks_app.jobs.models import Job, Step, WorkflowEvent
from tasks_app.jobs.progress import resume_token
from tasks_app.jobs.resuming import job_resume
from tasks_app.jobs.worker import drain
from tasks_app.operations.models import Operation
from tests.database import Database
from tests.ending import ending
from tests.factories import make_user
from tests.jobs.conftest import Bench
from tests.operations.making import ask
from tests.support import PATIENCE_S, until

_WAITING = (
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
)


def slept(bench: Bench) -> Job:
    """A job whose step sleeps though its operation's end was told: the wake-up was lost."""
    asked = ask("get_products")

    def seek(run: Run) -> Result:
        asked.refresh_from_db()
        return Done() if asked.published_at else WaitForOperation(operation_id=asked.pk)

    bench.action("seek", seek)
    bench.recipe({"id": "a", "action": "seek"})
    job = bench.run()
    Operation.objects.filter(pk=asked.pk).update(published_at=clock.now())
    return job


@pytest.mark.django_db
def test_a_lost_wake_up_is_made_up_for_once(bench: Bench) -> None:
    job = slept(bench)
    token = resume_token(job)
    assert drain() == 0
    assert job_resume(job_id=job.pk, token=token, actor=make_user("Ad Ops")) == 1
    assert resume_token(job) != token
    assert job_resume(job_id=job.pk, token=token, actor="system") == 0
    assert drain() == 1
    assert WorkflowEvent.objects.filter(job=job, type="step.recovered").count() == 1
    job.refresh_from_db()
    assert job.status == "COMPLETED"


@pytest.mark.django_db
def test_the_token_changes_with_each_resume_and_not_with_time(bench: Bench) -> None:
    bench.action("sleep", lambda run: WaitUntil(moment=clock.now() + timedelta(days=1)))
    bench.recipe({"id": "a", "action": "sleep"})
    job = bench.run()
    seen = [resume_token(job)]
    assert resume_token(job) == seen[0]
    Step.objects.filter(job=job).update(ready_at=clock.now())
    seen.append(resume_token(job))
    drain()  # sleeps again
    seen.append(resume_token(job))
    assert len(set(seen)) == 3


@pytest.mark.django_db
def test_an_old_token_a_person_without_the_right_and_an_ended_job(bench: Bench) -> None:
    job = slept(bench)
    assert job_resume(job_id=job.pk, token="0" * 32, actor="system") == 0
    assert job_resume(job_id=job.pk, token="no token, ä", actor="system") == 0
    with pytest.raises(JobRefusedError, match="no right"):
        job_resume(job_id=job.pk, token=resume_token(job), actor=make_user("Buyer"))
    assert Step.objects.filter(ready_at__isnull=False).count() == 0
    over.end_job(engine.locked_job(job.pk), "CANCELLED", error="over")
    with pytest.raises(JobRefusedError, match="ended"):
        job_resume(job_id=job.pk, token=resume_token(job), actor="system")


def test_of_two_processes_with_one_token_one_resumes(committed_db: Database, bench: Bench) -> None:
    job = slept(bench)
    command = [sys.executable, "-m", "tests.jobs.resumer", str(job.pk), resume_token(job)]
    url = committed_db.urls.app
    with (
        psycopg.connect(url) as holder,
        psycopg.connect(url, autocommit=True) as watcher,
        ExitStack() as begun,
    ):
        holder.execute("select id from tasks_app_job where id = %s for update", [job.pk])
        both = [
            begun.enter_context(ending(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)))
            for _ in range(2)
        ]
        until(lambda: watcher.execute(_WAITING).fetchone() == (2,), "both wait for the job")
        holder.rollback()
        told = sorted(process.communicate(timeout=PATIENCE_S)[0].strip() for process in both)
    assert told == ["0", "1"]
    assert WorkflowEvent.objects.filter(job=job, type="step.recovered").count() == 1
