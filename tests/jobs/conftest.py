"""Recipes and actions for one test alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings

from tasks_app.jobs import actions, recipes
from tasks_app.jobs.actions import Action, Done, Result, Run
from tasks_app.jobs.models import Job, Step, StepStatus
from tasks_app.jobs.planning import job_start
from tasks_app.jobs.worker import drain
from tests.clocks import Clock
from tests.factories import make_team
from tests.support import until


class Bench:
    """Registers recipes and actions, runs jobs in this process, remembers which step ran when."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.action("note", lambda run: Done(outputs={"key": run.step.key, "inputs": run.inputs}))

    def action(self, name: str, action: Action, *, kind: str = "command") -> None:
        def recorded(run: Run) -> Result:
            self.ran.append(run.step.key)
            return action(run)

        actions.action_register(name, recorded, kind=kind)

    def recipe(self, *steps: dict[str, Any], name: str = "test", **fields: Any) -> None:
        """Steps that name neither action nor recipe only note that they ran."""
        whole = [step if "recipe" in step else {"action": "note", **step} for step in steps]
        text = {"name": name, "version": 1, "title": "Test", "steps": whole, **fields}
        recipes.recipe_register(recipes.recipe_parse(json.dumps(text)))

    def start(self, name: str = "test", **fields: Any) -> Job:
        arguments = {"recipe": name, "inputs": {}, "team": make_team(), "actor": "system", **fields}
        return job_start(**arguments)

    def run(self, name: str = "test", **fields: Any) -> Job:
        """Start a job and drain until nothing is ready."""
        job = self.start(name, **fields)
        drain()
        job.refresh_from_db()
        return job


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(actions, "_actions", dict(actions._actions))
    monkeypatch.setattr(recipes, "_recipes", dict(recipes._recipes))
    return Bench()


@pytest.fixture
def still(still: Clock) -> Clock:
    still.now = datetime(2030, 1, 1, tzinfo=UTC)
    return still


def leases_outlived(still: Clock) -> None:
    """Let the time of every step's lease go by, and half of it more; never further than it was renewed."""
    half = settings.STEP_LEASE_S / 2

    def renewed() -> bool:
        since = still.now + timedelta(seconds=1.5 * half)
        return not Step.objects.filter(status=StepStatus.EXECUTING, lease_until__lt=since).exists()

    for _ in range(3):
        still.forward(seconds=half)
        until(renewed, "every lease is renewed")


def steps_of(job: Job) -> dict[str, Step]:
    return {step.key: step for step in Step.objects.filter(job=job)}


def statuses(job: Job) -> dict[str, str]:
    return {key: step.status for key, step in steps_of(job).items()}


def failing(times: int, error: Callable[[], Exception]) -> Action:
    """Fails so many times, then is done."""
    left = [times]

    def action(run: Run) -> Result:
        if left[0] > 0:
            left[0] -= 1
            raise error()
        return Done(outputs={"attempt": run.step.attempts})

    return action
