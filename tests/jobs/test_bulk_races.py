"""The same bulk request from many at the same moment starts one job."""

from __future__ import annotations

import uuid

from tasks_app.jobs import planning
from tasks_app.jobs.bulk import RECIPE, bulk_start
from tasks_app.jobs.models import Job
from tests.database import Database
from tests.factories import make_team, make_user
from tests.lifecycle.threads import at_once


def test_pressed_by_six_threads_it_is_started_once(committed_db: Database) -> None:
    user, key = make_user("Ad Ops"), uuid.uuid4()
    job = planning.job_start(
        recipe="book_deal", inputs={"deal_id": str(uuid.uuid4())}, team=make_team(), actor="system"
    )

    def press() -> uuid.UUID:
        return bulk_start(act="cancel", ids=[job.pk], reason="x", user=user, request_id=key).pk

    started = at_once(*[press] * 6)
    assert len(set(started)) == 1
    assert Job.objects.filter(recipe=RECIPE).count() == 1
