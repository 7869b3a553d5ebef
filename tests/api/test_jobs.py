"""/api/v1/jobs/: runs of recipes and their graphs."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from orders.models import Deal
from tasks_app.jobs import engine, planning
from tasks_app.jobs.models import Job, Step
from tests.api.conftest import Open
from tests.factories import make_deal, make_team
from tests.jobs.claiming import claim_step

pytestmark = pytest.mark.django_db
ROOM = "/api/v1/jobs/"


@pytest.fixture
def deal() -> Deal:
    return make_deal()


@pytest.fixture
def job(deal: Deal) -> Job:
    return planning.job_start(
        recipe="book_deal",
        inputs={"deal_id": str(deal.pk)},
        team=deal.team,
        actor="system",
        subject_type="deal",
        subject_id=deal.pk,
    )


def test_list_and_detail(opened: Open, job: Job, deal: Deal) -> None:
    api = opened("Auditor")

    listed = api.get(ROOM, {"status": "QUEUED", "recipe": "book_deal", "subject_id": str(deal.pk)}).json()
    assert [j["reference"] for j in listed["results"]] == [job.reference]
    told = api.get(f"{ROOM}{job.reference}/").json()
    assert (told["inputs"], told["parent_job"]) == ({"deal_id": str(deal.pk)}, None)
    Job.objects.filter(pk=job.pk).update(inputs={"password": "x", "n": 1})
    assert api.get(f"{ROOM}{job.pk}/").json()["inputs"] == {"password": "[redacted]", "n": 1}


def test_the_graph_has_the_recipes_steps_and_edges(opened: Open, job: Job) -> None:
    graph = opened("Auditor").get(f"{ROOM}{job.pk}/graph/").json()

    nodes = {node["key"]: node for node in graph["nodes"]}
    assert [(n["key"], n["title"], n["status"]) for n in graph["nodes"]] == [
        ("buy", "Buy", "queued"),
        ("read_back", "Read back", "received"),
    ]
    assert graph["edges"] == [
        {"source": nodes["buy"]["id"], "target": nodes["read_back"]["id"], "type": "after"}
    ]


def test_the_graph_shows_fan_outs_and_nested_jobs(opened: Open, job: Job) -> None:
    whole = claim_step()
    assert whole is not None
    engine.expand(step=whole, items=["one", "two"])
    item = Step.objects.get(job=job, item_index=1)
    child = planning.job_start(
        recipe="book_deal", inputs={"deal_id": "x"}, team=job.team, actor="system", parent_step=item
    )

    api = opened("Auditor")
    graph = api.get(f"{ROOM}{job.pk}/graph/").json()

    items = [node for node in graph["nodes"] if node["fan_out"] == str(whole.pk)]
    assert [(node["item_index"], node["title"]) for node in items] == [(0, "Buy 1"), (1, "Buy 2")]
    assert [node["child_job"] and node["child_job"]["id"] for node in items] == [None, str(child.pk)]
    fans = [edge for edge in graph["edges"] if edge["type"] == "item"]
    assert [(e["source"], e["target"]) for e in fans] == [(str(whole.pk), node["id"]) for node in items]
    assert api.get(f"{ROOM}{child.pk}/").json()["parent_job"] == str(job.pk)


def test_who_may_not_see_does_not(opened: Open, strangers: Any, job: Job) -> None:
    stranger = opened("Administrator", strangers())

    assert stranger.get(ROOM).json()["results"] == []
    assert stranger.get(f"{ROOM}{job.pk}/").status_code == 404
    assert stranger.get(f"{ROOM}{job.pk}/graph/").status_code == 404


def test_a_job_is_never_written(opened: Open, job: Job) -> None:
    api = opened("Administrator")
    for method in (api.put, api.patch, api.delete):
        assert method(f"{ROOM}{job.pk}/", {}, format="json").status_code == 405
    assert api.post(ROOM, {}, format="json").status_code == 405
    assert Job.objects.get().status == "QUEUED"


def test_lists_and_graphs_ask_as_often_for_many_as_for_one(
    opened: Open, job: Job, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(5):
        planning.job_start(recipe="book_deal", inputs={}, team=make_team(), actor="system")
    api = opened("Auditor")
    with django_assert_max_num_queries(8):
        assert len(api.get(ROOM).json()["results"]) == 6
    with django_assert_max_num_queries(19):
        told = api.get(f"{ROOM}{job.pk}/graph/")
    with django_assert_max_num_queries(10):
        same = api.get(f"{ROOM}{job.pk}/graph/", headers={"If-None-Match": told.headers["ETag"]})
    assert (same.status_code, same.content) == (304, b"")


def test_a_job_is_cancelled_with_a_reason(opened: Open, job: Job) -> None:
    api, path = opened("Ad Ops"), f"{ROOM}{job.reference}/cancel/"
    assert api.post(path, {}, format="json").status_code == 400
    told = api.post(path, {"reason": "the client withdrew"}, format="json")
    assert (told.status_code, told.json()["status"], told.json()["error"]) == (
        200,
        "CANCELLED",
        "the client withdrew",
    )
    again = api.post(path, {"reason": "once more"}, format="json")
    assert again.status_code == 409
    assert (again.json()["status_now"], again.json()["allowed"]) == ("CANCELLED", ["DELETED"])
    assert set(job.steps.values_list("status", flat=True)) == {"cancelled"}


def test_a_hidden_job_is_listed_only_when_asked_for(opened: Open, job: Job) -> None:
    api = opened("Ad Ops")
    api.post(f"{ROOM}{job.pk}/cancel/", {"reason": "x"}, format="json")
    assert api.post(f"{ROOM}{job.pk}/hide/").json()["status"] == "DELETED"
    assert api.get(ROOM).json()["results"] == []
    assert [j["id"] for j in api.get(ROOM, {"status": "DELETED"}).json()["results"]] == [str(job.pk)]
    assert api.get(f"{ROOM}{job.pk}/").status_code == 200


def test_a_failed_job_is_retried_once(opened: Open, job: Job) -> None:
    api, path = opened("Ad Ops"), f"{ROOM}{job.pk}/retry/"
    refused = api.post(path, {"reason": "mended"}, format="json")
    assert (refused.status_code, refused.json()["title"]) == (
        409,
        "It is queued: only what failed or expired is retried.",
    )
    step = claim_step()
    assert step is not None
    engine.mark_failed(step=step, error="the seller is gone")
    told = api.post(path, {"reason": "mended"}, format="json").json()
    assert (told["retry_of"], told["status"]) == (str(job.pk), "QUEUED")
    assert api.post(path, {"reason": "mended"}, format="json").status_code == 409
    assert api.post(path, {"reason": "x", "from_stpe": "buy"}, format="json").status_code == 400


@pytest.mark.parametrize("what", ["cancel", "retry", "hide"])
def test_steering_takes_the_right_and_the_team(opened: Open, job: Job, what: str) -> None:
    assert opened("Buyer").post(f"{ROOM}{job.pk}/{what}/", {"reason": "x"}, format="json").status_code == 403
    other = opened("Ad Ops", team=make_team("Another"))
    assert other.post(f"{ROOM}{job.pk}/{what}/", {"reason": "x"}, format="json").status_code == 404
    job.refresh_from_db()
    assert (job.status, Job.objects.count()) == ("QUEUED", 1)
