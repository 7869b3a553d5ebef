"""Random graphs, played by processes that are killed at random: they end as if nobody had died, and what a
step does at the seller is done once.

Every example is a few jobs at once, three places (two drain, one sweeps) and how their workers' lives end.
`make test-deep ROUNDS=50 ARGS=tests/jobs/test_random_crashes.py` plays many more.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from config.processes import ProcessGroup
from tasks_app.approvals import kinds
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.jobs import recipes
from tasks_app.jobs.endings import JobRefusedError, job_cancel
from tasks_app.jobs.models import JOB_ENDED, Edge, Job, Step
from tasks_app.jobs.planning import job_start
from tasks_app.jobs.retrying import job_retry
from tasks_app.operations.models import Operation
from tests.database import Database
from tests.factories import make_team, make_user
from tests.fake_seller.driver import FakeSeller
from tests.jobs import crew, playing, worlds
from tests.jobs.cluster import Worker
from tests.jobs.crew import Crew, Death, Place
from tests.jobs.judging import assert_ended_as, assert_sound, wrong_now
from tests.jobs.reference import BUY, DOES, Graph, JobEnd, played
from tests.jobs.test_killed import add_seller
from tests.rounds import has_fixed_examples, rounds, sample_cases
from tests.support import until

_WITHIN_S = 90
# No example is made smaller: an end that hangs on the moment of a death does not come again.
_settings = settings(
    derandomize=has_fixed_examples(),
    deadline=None,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
_deaths = st.one_of(
    st.builds(Death, point=st.just(crew.STATEMENT), number=st.integers(1, 120)),
    st.builds(Death, point=st.sampled_from([crew.BEGINS, crew.ENDS]), number=st.integers(1, 4)),
    st.builds(Death, point=st.sampled_from([crew.MOMENT, crew.PAUSE]), number=st.integers(1, 150)),
)
_sweeper_deaths = st.one_of(
    st.builds(Death, point=st.just(crew.STATEMENT), number=st.integers(1, 300)),
    st.builds(Death, point=st.sampled_from([crew.SEND, crew.ANSWER]), number=st.integers(1, 2)),
    st.builds(Death, point=st.just(crew.MOMENT), number=st.integers(1, 150)),
)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A job to come: `cancelled` after so many hundredths of a second; else a failed one is `retried`."""

    graph: Graph
    reads: tuple[int, ...]
    cancelled: int | None
    retried: bool


@dataclass(frozen=True, kw_only=True)
class World:
    """One example. `drops`: answers that the seller owes, each to a purchase that it carried out."""

    jobs: tuple[Planned, ...]
    places: tuple[Place, ...]
    drops: int


_planned = st.builds(
    Planned,
    graph=worlds.graphs(does=(*DOES, BUY)),
    reads=st.lists(st.integers(0, 3), max_size=3).map(tuple),
    cancelled=st.one_of(st.none(), st.none(), st.none(), st.none(), st.integers(10, 200)),
    retried=st.booleans(),
)
_worlds = st.builds(
    World,
    jobs=st.lists(_planned, min_size=3, max_size=4).map(tuple),
    places=st.tuples(
        st.builds(Place, does=st.just(crew.DRAINS), deaths=st.lists(_deaths, min_size=2, max_size=4)),
        st.builds(Place, does=st.just(crew.DRAINS), deaths=st.lists(_deaths, min_size=2, max_size=4)),
        st.builds(Place, does=st.just(crew.SWEEPS), deaths=st.lists(_sweeper_deaths, min_size=1, max_size=3)),
    ),
    drops=st.integers(0, 1),
)


@dataclass
class Running:
    """A planned job that runs; `end` is what it must come to, `bought` every effect that it must have had."""

    planned: Planned
    job: Job
    end: JobEnd
    bought: set[str] = field(default_factory=set)
    cancelled: bool = False

    def __post_init__(self) -> None:
        self.bought |= self.end.bought


class Stage:
    """A seller, people, and a database of their own."""

    def __init__(self, seller: FakeSeller) -> None:
        self.seller = seller
        add_seller(seller, slots=8)
        self.team = make_team()
        self.approver, self.operator = make_user("Approver"), make_user("Ad Ops")
        self.deaths: Counter[str] = Counter()

    def start(self, world: World) -> list[Running]:
        """Every job of the world, its recipes known to this process too."""
        playing.register(list(recipes_of(world)))
        return [self._start(f"world{number}", planned) for number, planned in enumerate(world.jobs)]

    def _start(self, recipe: str, planned: Planned) -> Running:
        job = job_start(recipe=recipe, inputs={"reads": list(planned.reads)}, team=self.team, actor="system")
        return Running(planned=planned, job=job, end=played(planned.graph, list(planned.reads)))

    def until_over(self, running: list[Running]) -> None:
        """People decide and cancel until every job has ended; no moment shows what none may."""
        began = time.monotonic()

        def over() -> bool:
            assert wrong_now() == []
            self._decide()
            self._cancel(running, (time.monotonic() - began) * 100)
            ended = Job.objects.filter(pk__in=[one.job.pk for one in running], status__in=JOB_ENDED)
            return ended.count() == len(running)

        until(over, "every job ends", patience=_WITHIN_S)

    def _decide(self) -> None:
        for approval in Approval.objects.filter(status="open"):
            verdict = worlds.verdict(approval)
            try:
                approval_decide(approval_id=approval.pk, user=self.approver, verdict=verdict, comment="So.")
            except DecisionRefusedError as refused:
                if refused.code != "not_open":  # its job was cancelled meanwhile
                    raise

    def _cancel(self, running: list[Running], now: float) -> None:
        for one in running:
            due = one.planned.cancelled
            if due is None or one.cancelled or now < due:
                continue
            try:
                job_cancel(job_id=one.job.pk, actor=self.operator, reason="Called off")
                one.cancelled = True
            except JobRefusedError:
                if Job.objects.get(pk=one.job.pk).status not in JOB_ENDED:
                    raise

    def retry(self, running: list[Running]) -> list[Running]:
        """The failed ones that are to be retried, begun anew."""
        again = []
        for one in running:
            if one.end.status == "FAILED" and one.planned.retried and not one.cancelled:
                job = job_retry(job_id=one.job.pk, actor=self.operator, reason="mended")
                reads = list(one.planned.reads)
                end = played(one.planned.graph, reads, healed=True, before=one.end)
                again.append(Running(planned=one.planned, job=job, end=end, bought=set(one.bought)))
        return again


def recipes_of(world: World) -> Iterator[dict[str, Any]]:
    for number, planned in enumerate(world.jobs):
        yield from worlds.recipes_of(f"world{number}", planned.graph)


@pytest.fixture
def stage(committed_db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(recipes, "_recipes", {})
    monkeypatch.setattr("tasks_app.jobs.actions._actions", {})
    monkeypatch.setattr(kinds, "_kinds", {})
    with FakeSeller(tmp_path) as seller:
        yield Stage(seller)


@pytest.fixture
def workers(stage: Stage) -> Iterator[Crew]:
    crew = Crew()
    yield crew
    crew.end()


def test_whoever_dies_a_graph_ends_as_it_reads(stage: Stage, workers: Crew) -> None:
    @settings(_settings, max_examples=rounds(2, 5))
    @given(world=_worlds)
    def plays(world: World) -> None:
        stage.seller.clear()
        if world.drops:
            stage.seller.fault("create_media_buy", "drop", times=world.drops)
        running = stage.start(world)
        with workers.working(list(recipes_of(world)), world.places) as deaths:
            stage.until_over(running)
            again = stage.retry(running)
            stage.until_over(again)
        stage.deaths.update(deaths)
        judge(stage, running, again)

    plays()
    assert "unasked" not in stage.deaths
    if rounds(0, 1):
        assert set(stage.deaths) >= {crew.STATEMENT, crew.MOMENT}, stage.deaths
        assert {crew.BEGINS, crew.ENDS} & set(stage.deaths), stage.deaths
        assert {crew.SEND, crew.ANSWER} & set(stage.deaths), stage.deaths


def judge(stage: Stage, running: list[Running], again: list[Running]) -> None:
    for one in (*running, *again):
        if one.cancelled:
            assert_called_off(one.job)
        else:
            assert_ended_as(one.job, one.end)
    assert_effects(stage, running, again)


def assert_called_off(job: Job) -> None:
    """It ended with all that was nested in it, and the trail says so."""
    for one in worlds.jobs_below(job):
        one.refresh_from_db()
        assert one.status in JOB_ENDED
        assert_sound(one)


def assert_effects(stage: Stage, running: list[Running], again: list[Running]) -> None:
    """Each effect once at the seller, with one key and one request, after everything it follows from."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for one in (*running, *again):
        wanted[str(worlds.first(one.job).pk)] |= {f"{worlds.first(one.job).pk}:{path}" for path in one.bought}
    called_off = {str(worlds.first(one.job).pk) for one in (*running, *again) if one.cancelled}
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for buy in stage.seller.books():
        found[buy["context"]["effect"].partition(":")[0]].append(buy)
    for job, effects in wanted.items():
        had = Counter(buy["context"]["effect"] for buy in found[job])
        assert set(had.values()) <= {1}, f"an effect twice: {had}"
        assert set(had) <= effects if job in called_off else set(had) == effects
        for buy in found[job]:
            assert_caused(buy)
    sent = defaultdict(set)
    for request in stage.seller.requests("create_media_buy"):
        asked = request["arguments"]
        sent[asked["context"]["effect"]].add((asked["idempotency_key"], repr(asked)))
    assert all(len(requests) == 1 for requests in sent.values()), "an effect was asked for in two ways"


def assert_caused(buy: dict[str, Any]) -> None:
    """The seller's moment lies within the step that bought, and after all that this step follows. A call that
    is out when its step is called off may have its effect still."""
    at = datetime.fromisoformat(buy["confirmed_at"])
    operation = Operation.objects.get(pk=buy["context"]["operation_id"])
    step = Step.objects.get(pk=uuid.UUID(operation.purpose.split(":")[1]))
    assert step.started_at is not None
    assert step.started_at <= at
    assert step.ended_at is None or at <= step.ended_at or step.status == "cancelled"
    whole = step.fan_out or step
    for before in Edge.objects.filter(after=whole).select_related("before"):
        assert before.before.ended_at is not None
        assert before.before.ended_at <= at, "an effect before its cause"


def test_whoever_dies_in_a_cluster_a_graph_ends_as_it_reads(
    stage: Stage, processes: ProcessGroup, tmp_path: Path
) -> None:
    """The same through `manage.py worker`: members of it are killed, then all of it at once."""

    @settings(_settings, max_examples=rounds(1, 1))
    @given(
        planned=st.lists(_planned, min_size=4, max_size=6).map(tuple),
        members=st.lists(st.integers(0, 9), min_size=2, max_size=2),
    )
    def plays(planned: tuple[Planned, ...], members: list[int]) -> None:
        world = World(jobs=tuple(sample_cases(planned, most=3)), places=(), drops=0)
        known = tmp_path / "recipes.json"
        known.write_text(json.dumps(list(recipes_of(world))))
        environment = {
            "DJANGO_SETTINGS_MODULE": "tests.jobs.worker_settings",
            playing.RECIPES: str(known),
            "FLIGHTDECK_LOG_LEVEL": "CRITICAL",
        }
        worker = Worker(processes, environment)
        running = stage.start(world)
        for number in sample_cases(members, most=3):
            there = worker.started()
            there[number % len(there)].kill()
            until(lambda there=there: not there[0].is_running(), "the cluster is rebuilt")
        worker.started()
        worker.kill()
        worker.restart()
        stage.until_over(running)
        again = stage.retry(running)
        stage.until_over(again)
        worker.kill()
        judge(stage, running, again)

    plays()
