"""Finding jobs: each condition alone and together, and what is no filter."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from tasks_app import clock
from tasks_app.commands.boundary import ActionKind
from tasks_app.jobs.actions import Result, Run, StepFailedError, WaitUntil
from tasks_app.jobs.finding import JobFilterError, Wanted, jobs_wanted, wanted_parse
from tasks_app.jobs.models import Job, Step
from tasks_app.jobs.worker import drain
from tasks_app.people.models import User
from tasks_app.people.scope import scope_of
from tests.factories import make_team, make_user
from tests.jobs.conftest import Bench

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> User:
    return make_user("Auditor")


@pytest.fixture
def jobs(bench: Bench) -> dict[str, Job]:
    """One of each kind, run as far as it goes."""
    bench.action("fail", failing)
    bench.action("flaky", flaky)
    bench.action("sleep", lambda run: WaitUntil(moment=clock.now() + timedelta(hours=1)))
    bench.recipe({"id": "a"}, name="fine")
    bench.recipe({"id": "a", "action": "fail"}, name="broken")
    bench.recipe({"id": "a", "action": "fail"}, {"id": "b", "action": "sleep"}, name="half")
    bench.recipe({"id": "a", "action": "flaky"}, name="shaky")
    bench.recipe({"id": "a", "action": "sleep"}, name="patient")
    bench.recipe({"id": "a", "recipe": "patient"}, name="nesting")
    made = {name: bench.start(name) for name in ("fine", "broken", "half", "shaky", "patient", "nesting")}
    drain()
    return made


def failing(run: Run) -> Result:
    raise StepFailedError("out of stock")


def flaky(run: Run) -> Result:
    raise RuntimeError("not now")


def found(viewer: User, jobs: dict[str, Job], **asked: str) -> set[str]:
    names = {job.pk: name for name, job in jobs.items()}
    rows = jobs_wanted(viewer, wanted_parse(asked))
    return {names.get(job.pk, "nested") for job in rows}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"recipe": "broken"}, {"broken"}),
        ({"state": "COMPLETED"}, {"fine"}),
        ({"view": "failed"}, {"broken"}),
        ({"view": "open"}, {"half", "shaky", "patient", "nesting", "nested"}),
        ({"view": "ended"}, {"fine", "broken"}),
        ({"view": "open", "state": "COMPLETED"}, set()),
        ({"view": "hidden"}, set()),
        ({"waits": "time"}, {"half", "patient", "nested"}),
        ({"waits": "job"}, {"nesting"}),
        ({"waits": "back_off"}, {"shaky"}),
        ({"waits": "operation"}, set()),
        ({"trouble": "retrying"}, {"shaky"}),
        ({"trouble": "failing"}, {"broken", "half"}),
        ({"trouble": "failing", "view": "open"}, {"half"}),
        ({"waits": "time", "recipe": "half"}, {"half"}),
        ({"older": "1h"}, set()),
        ({"q": "job-"}, {"fine", "broken", "half", "shaky", "patient", "nesting", "nested"}),
        ({"q": "JOB-1999"}, set()),
    ],
)
def test_each_condition(
    viewer: User, jobs: dict[str, Job], asked: dict[str, str], expected: set[str]
) -> None:
    assert found(viewer, jobs, **asked) == expected


def test_a_wait_that_is_over_is_none(viewer: User, jobs: dict[str, Job]) -> None:
    Step.objects.filter(job=jobs["patient"]).update(ready_at=clock.now() - timedelta(seconds=1))
    assert "patient" not in found(viewer, jobs, waits="time")


def test_a_retry_under_way_is_found(viewer: User, jobs: dict[str, Job], monkeypatch: Any) -> None:
    seen: list[set[str]] = []

    def looks(run: Run) -> Result:
        seen.append(found(viewer, jobs, trouble="retrying"))
        raise RuntimeError("again")

    from tasks_app.jobs import actions

    monkeypatch.setitem(actions._actions, "flaky", (looks, ActionKind.COMMAND))
    Step.objects.filter(job=jobs["shaky"]).update(ready_at=clock.now())
    drain(1)
    assert seen == [{"shaky"}]


def test_by_age_and_team(viewer: User, jobs: dict[str, Job]) -> None:
    with clock.injected(lambda: jobs["fine"].created_at + timedelta(hours=2)):
        assert found(viewer, jobs, older="1h", recipe="fine") == {"fine"}
        assert found(viewer, jobs, older="1d") == set()
    assert found(viewer, jobs, team=str(make_team().pk), recipe="fine") == {"fine"}
    assert found(viewer, jobs, team=str(make_team("Elsewhere").pk)) == set()


def test_other_teams_see_nothing(jobs: dict[str, Job]) -> None:
    assert found(make_user("Administrator", team=make_team("Elsewhere")), jobs) == set()


def test_one_query(
    viewer: User, jobs: dict[str, Job], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    scope_of(viewer)  # read once for each request
    with django_assert_num_queries(1):
        list(
            jobs_wanted(
                viewer, Wanted(trouble="retrying", waits="back_off", view="open", older="1h", q="JOB")
            )
        )


@pytest.mark.parametrize(
    "given",
    [
        {"view": "mine"},
        {"state": "completed"},
        {"waits": "'; drop table"},
        {"trouble": "some"},
        {"older": "2d"},
        {"team": "x"},
        {"recipe": "a\x00b"},
        {"q": "x" * 61},
    ],
)
def test_what_is_no_filter_is_named(given: dict[str, str]) -> None:
    with pytest.raises(JobFilterError) as refused:
        wanted_parse(given)
    assert refused.value.field in given


def test_a_filter_says_what_it_was_made_of() -> None:
    given = {"view": "open", "waits": "time", "older": "7d"}
    assert wanted_parse({**given, "page": "2", "recipe": " "}).as_dict() == given
