"""Random graphs end as a simple reading of what a recipe means says. One process, the clock in hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.jobs import recipes
from tasks_app.jobs.models import JOB_ENDED, Job
from tasks_app.jobs.planning import job_start
from tasks_app.jobs.retrying import job_retry
from tasks_app.jobs.worker import drain
from tasks_app.people.models import User
from tests.clocks import Clock
from tests.factories import make_team, make_user
from tests.jobs import worlds
from tests.jobs.judging import assert_ended_as, wrong_now
from tests.jobs.reference import ASK, COUNT, SLEEP, Graph, JobEnd, played
from tests.rounds import has_fixed_examples, rounds

pytestmark = pytest.mark.django_db


@pytest.fixture
def graph_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    """What recipes of graphs name, for one test alone."""
    monkeypatch.setattr("tasks_app.jobs.actions._actions", {})
    monkeypatch.setattr("tasks_app.jobs.recipes._recipes", {})
    monkeypatch.setattr("tasks_app.approvals.kinds._kinds", {worlds.QUESTION: worlds.kind()})
    worlds.register_actions()


def until_over(job: Job, approver: User, still: Clock, slice_: int) -> None:
    """Drain in slices; answer what is asked and move the clock when nothing else is left to do."""
    for _ in range(500):
        ran = drain(slice_)
        assert wrong_now() == []
        job.refresh_from_db()
        if job.status in JOB_ENDED:
            return
        if not ran and not decided(approver):
            still.forward(seconds=1)
    raise AssertionError(f"{job} does not end")


def decided(approver: User) -> int:
    asked = list(Approval.objects.filter(status="open").order_by("-id")[:2])
    for approval in asked:
        verdict = worlds.verdict(approval)
        approval_decide(approval_id=approval.pk, user=approver, verdict=verdict, comment="So.")
    return len(asked)


@given(
    graph=worlds.graphs(does=(COUNT, COUNT, SLEEP, ASK), most=8),
    reads=st.lists(st.integers(0, 3), max_size=3),
    slice_=st.integers(1, 7),
)
@settings(
    max_examples=rounds(6, 20),
    derandomize=has_fixed_examples(),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_graph_ends_as_it_reads(graph_actions: None, graph: Graph, reads: list[int], slice_: int) -> None:
    still = Clock(datetime(2030, 1, 1, tzinfo=UTC))
    with clock.injected(lambda: still.now), transaction.atomic():
        recipes._recipes.clear()
        for recipe in worlds.recipes_of("test", graph):
            recipes.recipe_register(recipes.recipe_parse(json.dumps(recipe)))
        approver, team = make_user("Approver"), make_team()
        job = job_start(recipe="test", inputs={"reads": reads}, team=team, actor="system")
        until_over(job, approver, still, slice_)
        end = played(graph, reads)
        assert_ended_as(job, end)
        if end.status == "FAILED":
            _retried(job, graph, reads, end, approver, still)
        transaction.set_rollback(True)


def _retried(job: Job, graph: Graph, reads: list[int], end: JobEnd, approver: User, still: Clock) -> None:
    again = job_retry(job_id=job.pk, actor=make_user("Ad Ops"), reason="mended")
    until_over(again, approver, still, 50)
    assert_ended_as(again, played(graph, reads, healed=True, before=end))
