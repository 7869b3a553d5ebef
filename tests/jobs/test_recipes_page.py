"""The example of docs/recipes.md, run as it stands there."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.commands.questions import gates_ask_again
from tasks_app.jobs.models import Job, JobStatus
from tasks_app.jobs.recipes import StepSpec, recipe_parse, recipe_register
from tasks_app.jobs.schedules import schedules_start_due
from tasks_app.jobs.worker import drain
from tasks_app.operations.models import Operation
from tests.api.conftest import client_of
from tests.clocks import Clock
from tests.factories import make_seller, make_team, make_user
from tests.jobs.conftest import Bench, statuses

pytestmark = pytest.mark.django_db
PAGE = (Path(__file__).parents[2] / "docs/recipes.md").read_text()


def block(language: str, place: int = 0) -> str:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[place]


@pytest.mark.parametrize(("minimum", "alarm"), [(20, {"rung": True}), (5, {"skipped": True})])
def test_the_example_runs(bench: Bench, minimum: int, alarm: dict[str, bool]) -> None:
    recipe_register(recipe_parse(block("json")))
    scope: dict[str, Any] = {"team": make_team()}
    exec(block("python"), scope)  # noqa: S102
    exec(block("python", 1).replace('"minimum": 20', f'"minimum": {minimum}'), scope)  # noqa: S102
    drain()
    job = Job.objects.get(pk=scope["job"].pk)
    assert (job.status, job.outputs) == (JobStatus.COMPLETED, {"total": 12})
    assert job.steps.get(key="alarm").outputs == alarm
    assert statuses(job)["count[2]"] == "completed"


def test_the_command_waits_at_the_kill_switch_and_goes_on(bench: Bench) -> None:
    scope: dict[str, Any] = {"Seller": make_seller(tools=["sync_accounts"]).__class__}
    exec(block("python"), scope)  # noqa: S102
    exec("from tasks_app.jobs.actions import WaitForApprovals, WaitForOperation", scope)  # noqa: S102
    exec(block("python", 2), scope)  # noqa: S102
    bench.recipe({"id": "account", "action": "shop.account", "inputs": {"seller": "norrland-digital"}})
    kill_switch_set(on=True, reason="A drill", actor="system")
    job = bench.run()
    assert statuses(job) == {"account": "awaiting_user_confirmation"}
    kill_switch_set(on=False, reason="Over", actor="system")
    gates_ask_again()
    drain()
    step = job.steps.get()
    assert step.waiting_for == {"type": "operation", "id": str(Operation.objects.get().pk)}


def test_every_field_of_a_step_is_explained() -> None:
    table = set(re.findall(r"`(\w+)`", PAGE.partition("## What a step can say")[2].partition("##")[0]))
    assert set(StepSpec.model_fields) - {"title"} <= table


def test_the_schedule_starts_it(bench: Bench, still: Clock) -> None:
    whole = json.loads(block("json"))
    recipe_register(recipe_parse(json.dumps({**whole, "startable": True})))
    scope: dict[str, Any] = {"team": make_team(), "user": make_user("Ad Ops")}
    exec(block("python"), scope)  # noqa: S102
    exec(block("python", 3), scope)  # noqa: S102
    assert scope["schedule"].next_due_at == datetime(2030, 1, 1, 12, 30, tzinfo=UTC)
    still.now = scope["schedule"].next_due_at
    assert schedules_start_due() == 1
    drain()
    assert Job.objects.get().outputs == {"total": 12}


def test_the_contract_is_signed_and_filed(bench: Bench) -> None:
    recipe_register(recipe_parse(block("json", 1)))
    exec(block("python", 4), {})  # noqa: S102
    job = bench.run("contract", inputs={"contract": "C-7"})
    api = client_of(make_user("Integration"))
    assert api.post("/api/v1/events/", json.loads(block("json", 2)), format="json").status_code == 202
    drain()
    receipt = {"name": "archive.receipt", "correlation": job.reference, "payload": {"number": 12}}
    answer = api.post("/api/v1/events/", {**receipt, "idempotency_key": "archive-1"}, format="json")
    assert answer.status_code == 202
    drain()
    job.refresh_from_db()
    assert (job.status, job.outputs) == (JobStatus.COMPLETED, {"file": "12, Astrid"})
