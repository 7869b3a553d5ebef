"""In which order steps are taken: lower priority number first, then first come; also by four processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.jobs import calls, claims, hand, recipes
from tasks_app.jobs.actions import Done, Result, Run, WaitUntil
from tasks_app.jobs.models import Job, Step
from tasks_app.jobs.planning import job_start
from tasks_app.jobs.worker import drain
from tests.clocks import Clock
from tests.database import Database
from tests.factories import make_team
from tests.jobs import crew
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench
from tests.jobs.crew import Crew, Place
from tests.jobs.reference import COUNT, Graph, Node
from tests.jobs.worlds import recipes_of
from tests.support import until

PRIORITIES = (100, 5, 50, 100, 1, 50) * 8
_SINGLE = list(recipes_of("single", Graph(nodes=(Node(does=COUNT),), tells=0)))


@pytest.fixture
def workers(committed_db: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    monkeypatch.setattr(recipes, "_recipes", {})
    recipes.recipe_register(recipes.recipe_parse(json.dumps(_SINGLE[0])))
    there = Crew()
    yield there
    there.end()


def overtaken(step: Step, others: list[Step]) -> int:
    """How many that stand before it in the queue were taken after it."""
    return sum(place(other) < place(step) and taken(other) > taken(step) for other in others)


def place(step: Step) -> tuple[Any, ...]:
    return step.priority, step.job.created_at, step.pk


def taken(step: Step) -> Any:
    assert step.started_at is not None
    return step.started_at


def test_processes_take_steps_in_their_order(workers: Crew) -> None:
    """One process alone takes them exactly so. Of four, each may be taking as many as a hand holds: a step is
    overtaken by no more than those of the other three."""
    for processes in (1, 4):
        jobs = [_start(priority) for priority in PRIORITIES]
        with workers.working(_SINGLE, [Place(does=crew.DRAINS)] * processes) as deaths:
            until(_all_over, "every job ends")
        assert deaths == []
        steps = list(Step.objects.filter(job__in=jobs).select_related("job"))
        assert {step.attempts for step in steps} == {1}
        assert max(overtaken(step, steps) for step in steps) <= (processes - 1) * hand.MANY


def _start(priority: int) -> Job:
    return job_start(
        recipe="single", inputs={"reads": []}, team=make_team(), actor="system", priority=priority
    )


def _all_over() -> bool:
    return not Job.objects.filter(ended_at__isnull=True).exists()


@pytest.mark.django_db
def test_resumed_steps_stand_in_the_same_queue(bench: Bench, still: Clock) -> None:
    woken_at = still.now + timedelta(seconds=10)

    def once(run: Run) -> Result:
        return Done() if clock.now() >= woken_at else WaitUntil(moment=woken_at)

    bench.action("once", once)
    bench.recipe({"id": "a", "action": "once"}, name="sleeper")
    bench.recipe({"id": "a"})
    sleepers = [bench.run("sleeper", priority=priority) for priority in (100, 50)]
    still.forward(seconds=5)
    early = bench.start()
    still.forward(seconds=6)
    late, urgent = bench.start(), bench.start(priority=5)
    order = [claim_step() for _ in range(5)]
    wanted = [urgent, sleepers[1], early, sleepers[0], late]
    assert [step.job_id for step in order if step] == [job.pk for job in wanted]


@pytest.mark.django_db
def test_a_job_within_a_job_keeps_its_priority(bench: Bench, still: Clock) -> None:
    bench.recipe({"id": "in"}, name="inner")
    bench.recipe({"id": "each", "recipe": "inner", "for_each": "{{ inputs.list }}"}, name="outer")
    bench.start("outer", inputs={"list": [1, 2]}, priority=7)
    drain()
    assert set(Step.objects.values_list("priority", flat=True)) == {7}


@pytest.mark.django_db
@pytest.mark.parametrize("apart", [False, True], ids=["one call", "move by move"])
def test_a_dead_workers_step_goes_by_its_priority_first_among_equals(
    bench: Bench, still: Clock, monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    bench.recipe({"id": "a"})
    lost = bench.start(priority=50)
    assert claim_step() is not None
    still.forward(seconds=60)  # its worker renews no more
    later, equal, urgent = bench.start(priority=100), bench.start(priority=50), bench.start(priority=5)
    if apart:
        monkeypatch.setattr(claims.calls, "steps_claim", lambda _: calls.Claim(apart=True, taken=()))

    order = [step.job_id for step in (claim_step() for _ in range(4)) if step is not None]

    assert order == [one.pk for one in (urgent, lost, equal, later)]
