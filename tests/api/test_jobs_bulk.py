"""POST /api/v1/jobs/bulk/: who may, what is asked, and that asking twice does it once."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tasks_app.jobs import planning
from tasks_app.jobs.models import Job
from tasks_app.jobs.worker import drain
from tests.api.conftest import Open
from tests.factories import make_deal, make_team

pytestmark = pytest.mark.django_db
ROOM = "/api/v1/jobs/bulk/"


@pytest.fixture
def jobs() -> list[Job]:
    deal = make_deal()
    return [
        planning.job_start(
            recipe="book_deal",
            inputs={"deal_id": str(deal.pk)},
            team=deal.team,
            actor="system",
            priority=200,
        )
        for _ in range(2)
    ]


def test_the_chosen_are_cancelled_by_a_job(opened: Open, jobs: list[Job]) -> None:
    api = opened("Ad Ops")
    told = api.post(
        ROOM, {"action": "cancel", "ids": [str(jobs[0].pk)], "reason": "not needed"}, format="json"
    )
    assert told.status_code == 202
    body = told.json()
    assert body["jobs"] == 1
    drain(3)
    assert api.get(f"/api/v1/jobs/{body['id']}/").json()["outputs"] == {"done": 1, "refused": 0, "failed": 0}
    assert [Job.objects.get(pk=one.pk).status for one in jobs] == ["CANCELLED", "QUEUED"]


def test_by_filter_and_safe_to_send_twice(opened: Open, jobs: list[Job]) -> None:
    api = opened("Ad Ops")
    asked: dict[str, Any] = {
        "action": "cancel",
        "filter": {"recipe": "book_deal", "status": "QUEUED", "older_than_h": 0, "failing": False},
        "reason": "x",
        "request_id": str(uuid.uuid4()),
    }
    first = api.post(ROOM, asked, format="json").json()
    assert first["jobs"] == 2
    assert api.post(ROOM, asked, format="json").json() == first
    again = api.post(ROOM, {**asked, "action": "retry"}, format="json")
    assert (again.status_code, again.json()["title"]) == (
        409,
        "Something else was asked under this request id.",
    )
    assert Job.objects.filter(recipe="bulk_steer").count() == 1


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"action": "explode", "ids": [str(uuid.uuid4())]}, "action"),
        ({"action": "cancel"}, "ids"),
        ({"action": "cancel", "filter": {}}, "ids"),
        ({"action": "cancel", "ids": []}, "ids"),
        ({"action": "cancel", "ids": ["x"]}, "ids"),
        ({"action": "cancel", "ids": [str(uuid.uuid4())], "filter": {"status": "QUEUED"}}, "ids"),
        ({"action": "cancel", "filter": {"status": "queued"}}, "filter"),
        ({"action": "cancel", "filter": {"recipee": "x"}}, "filter"),
        ({"action": "cancel", "filter": {"older_than_h": "nan"}}, "filter"),
        ({"action": "cancel", "filter": {"older_than_h": "inf"}}, "filter"),
        ({"action": "cancel", "filter": {"recipe": "x"}, "reason": " "}, "reason"),
        ({"action": "cancel", "filter": {"recipe": "x"}, "dry": True}, "dry"),
    ],
)
def test_what_is_wrong_is_named(opened: Open, jobs: list[Job], asked: dict[str, Any], field: str) -> None:
    told = opened("Ad Ops").post(ROOM, {"reason": "x", **asked}, format="json")
    assert (told.status_code, list(told.json()["errors"])) == (400, [field])
    assert Job.objects.count() == len(jobs)


def test_nothing_found_is_a_conflict(opened: Open, jobs: list[Job]) -> None:
    for asked in ({"ids": [str(uuid.uuid4())]}, {"filter": {"recipe": "campaign"}}):
        told = opened("Ad Ops").post(ROOM, {"action": "cancel", "reason": "x", **asked}, format="json")
        assert (told.status_code, told.json()["title"]) == (409, "There is nothing to cancel among them.")


def test_it_takes_the_right_and_the_team(opened: Open, jobs: list[Job]) -> None:
    asked = {"action": "cancel", "ids": [str(one.pk) for one in jobs], "reason": "x"}
    assert opened("Buyer").post(ROOM, asked, format="json").status_code == 403
    assert opened("Ad Ops", make_team("Elsewhere")).post(ROOM, asked, format="json").status_code == 409
    assert opened("Ad Ops").get(ROOM).status_code == 405
    assert Job.objects.count() == len(jobs)
