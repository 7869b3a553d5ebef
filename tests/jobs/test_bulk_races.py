"""The same bulk request from many at the same moment starts one job."""

from __future__ import annotations

import uuid

import psycopg

from tasks_app.jobs import planning
from tasks_app.jobs.bulk import RECIPE, bulk_start
from tasks_app.jobs.models import Job
from tests.database import Database
from tests.factories import make_team, make_user
from tests.lifecycle.threads import at_once
from tests.support import locks_awaited, until


def test_pressed_by_six_threads_it_is_started_once(committed_db: Database) -> None:
    user, key = make_user("Ad Ops"), uuid.uuid4()
    job = planning.job_start(
        recipe="book_deal", inputs={"deal_id": str(uuid.uuid4())}, team=make_team(), actor="system"
    )

    def press() -> uuid.UUID:
        return bulk_start(act="cancel", ids=[job.pk], reason="x", user=user, request_id=key).pk

    # Each has looked whether the job is there before any of them can make it.
    with psycopg.connect(committed_db.urls.owner) as holder:
        holder.execute("lock table tasks_app_job in share mode")

        def let_go() -> None:
            until(lambda: locks_awaited() == 6, "all six are about to start it, or wait for who is")
            holder.rollback()

        *started, _ = at_once(*[press] * 6, let_go)
    assert len(set(started)) == 1
    assert Job.objects.filter(recipe=RECIPE).count() == 1
