"""The server-side call among four workers, and killed at every statement."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tasks_app.jobs import recipes
from tasks_app.jobs.models import Job, Step, WorkflowEvent
from tasks_app.jobs.planning import job_start
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import entity_models, verify_all
from tests.database import Database
from tests.factories import make_team
from tests.jobs import crew
from tests.jobs.crew import Crew, Death, Place
from tests.jobs.judging import wrong_now
from tests.jobs.reference import COUNT, INPUTS, Graph, Node
from tests.jobs.test_replaying import as_rows, as_told
from tests.jobs.worlds import recipes_of
from tests.rounds import rounds
from tests.support import until

pytestmark = pytest.mark.deep

# From one step to many, from many to one, a fan-out on the way, and two ends at once.
_NODES = (
    Node(does=COUNT),
    *(Node(does=COUNT, after=(0,)) for _ in range(6)),
    Node(does=COUNT, after=(0,), each=INPUTS),
    Node(does=COUNT, after=(1, 2, 3, 4, 5, 6, 7)),
    Node(does=COUNT, after=(8,)),
    Node(does=COUNT, after=(8,)),
)
_PLAIN = [{**recipe, "outputs": {}} for recipe in recipes_of("plain", Graph(nodes=_NODES, tells=0))]
_ITEMS = 5
_STEPS = len(_NODES) + _ITEMS


@pytest.fixture
def workers(committed_db: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    monkeypatch.setattr(recipes, "_recipes", {})
    for recipe in _PLAIN:
        recipes.recipe_register(recipes.recipe_parse(json.dumps(recipe)))
    there = Crew()
    yield there
    there.end()


def start(**fields: Any) -> Job:
    return job_start(
        recipe="plain", inputs={"reads": list(range(_ITEMS))}, team=make_team(), actor="system", **fields
    )


def over() -> bool:
    assert wrong_now() == []
    return not Job.objects.filter(ended_at__isnull=True).exists()


def assert_whole(jobs: list[Job], *, attempts: int) -> None:
    """Every step was done once, nothing was lost or counted twice; the trail and the events say the same."""
    for job in jobs:
        assert as_told(job) == as_rows(job)
        assert (job.status, job.active_steps) == ("COMPLETED", 0)
    steps = Step.objects.filter(job__in=jobs)
    assert steps.filter(status="completed", attempts__lte=attempts).count() == _STEPS * len(jobs)
    assert set(steps.values_list("incoming", flat=True)) == {0}
    done = AuditEntry.objects.filter(entity_type="step", to_status="completed")
    assert done.count() == _STEPS * len(jobs)
    told = WorkflowEvent.objects.filter(type="step.completed").values_list("correlation__step_id", flat=True)
    assert set(Counter(told).values()) == {1}
    assert all(v.ok for entity in entity_models() for _, v in verify_all(entity))


def test_four_workers_on_the_same_graphs(workers: Crew) -> None:
    jobs = [start(priority=priority) for priority in (100, 5, 100, 50, 5, 100)]
    with workers.working(_PLAIN, [Place(does=crew.DRAINS)] * 4) as deaths:
        until(over, "every job ends", patience=90)
    assert deaths == []
    assert_whole(jobs, attempts=1)


def test_four_workers_on_one_graph(workers: Crew) -> None:
    with workers.working(_PLAIN, [Place(does=crew.DRAINS)] * 4) as deaths:
        for _ in range(rounds(1, 4)):
            start()
            until(over, "the job ends")
    assert deaths == []
    assert_whole(list(Job.objects.all()), attempts=1)


def test_killed_before_every_statement(workers: Crew) -> None:
    """A worker that dies before its first statement, the next before its second, and so on: between two
    statements lies a whole call, so that nothing is ever half done."""
    jobs = [start(), start()]
    lives = [Death(point=crew.STATEMENT, number=number) for number in range(1, rounds(7, 16))]
    with workers.working(_PLAIN, [Place(does=crew.DRAINS, deaths=lives)]) as deaths:
        until(over, "every job ends", patience=120)
    assert len(deaths) >= 5
    assert_whole(jobs, attempts=len(lives) + 1)
