"""Leases of steps: renewed while their action runs, and no longer once the worker is to stop."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models.functions import Now

from tasks_app.jobs import worker
from tasks_app.jobs.actions import Done, Result, Run
from tasks_app.jobs.models import Step
from tests.clocks import Clock
from tests.database import Database
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench, leases_outlived, steps_of
from tests.lifecycle.threads import at_once
from tests.support import until


def test_a_lease_is_renewed_while_the_action_runs(
    committed_db: Database, bench: Bench, still: Clock, settings: Any
) -> None:
    settings.STEP_LEASE_S = 0.3
    kept: list[bool] = []

    def outlives_its_lease(run: Run) -> Result:
        leases_outlived(still)
        kept.append(at_once(claim_step) == [None])
        return Done()

    bench.action("slow", outlives_its_lease)
    bench.recipe({"id": "a", "action": "slow"})
    job = bench.run()
    assert kept == [True]
    assert (job.status, steps_of(job)["a"].attempts) == ("COMPLETED", 1)


def test_asked_to_stop_a_worker_lets_its_leases_run_out(
    committed_db: Database, bench: Bench, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """What it does not end before it is killed is another's soon after; what it ends meanwhile counts."""
    settings.STEP_LEASE_S = 1
    monkeypatch.setattr("tasks_app.stopping.asked", lambda: True)
    free: list[bool] = []

    def outlives_the_worker(run: Run) -> Result:
        mine = Step.objects.filter(pk=run.step.pk, lease_until__lt=Now())
        free.append(until(mine.exists))
        return Done()

    bench.action("slow", outlives_the_worker)
    bench.recipe({"id": "a", "action": "slow"})
    job = bench.start()
    taken = claim_step()
    assert taken is not None
    worker.run_step(taken)
    job.refresh_from_db()
    assert (free, job.status) == ([True], "COMPLETED")
