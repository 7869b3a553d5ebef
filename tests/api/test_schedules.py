"""/api/v1/schedules/: recipes that start at a time or by cron."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tasks_app.jobs.models import Job
from tasks_app.jobs.schedule import Schedule
from tasks_app.people.models import Team, User
from tests.api.conftest import Open, client_of
from tests.factories import make_team, make_user
from tests.jobs.conftest import Bench, bench

__all__ = ["bench"]
pytestmark = pytest.mark.django_db
ROOM = "/api/v1/schedules/"


@pytest.fixture(autouse=True)
def _recipes(bench: Bench) -> None:
    bench.recipe({"id": "a", "inputs": {"x": "{{ inputs.channel }}"}}, name="stock", startable=True)


def body(**fields: Any) -> dict[str, Any]:
    given = {"name": "Stock", "recipe": "stock", "inputs": {"channel": "ctv"}, "cron": "0 9 * * mon-fri"}
    return {**given, "zone": "America/New_York", **fields}


def test_made_listed_paused_resumed_and_run_now(opened: Open) -> None:
    api = opened("Ad Ops")
    made = api.post(ROOM, body(), format="json")
    assert made.status_code == 201, made.content
    told = made.json()
    assert made.headers["Location"].endswith(f"{ROOM}{told['id']}/")
    assert (told["team"], told["cron"], told["paused"]) == ("Halden & Marsh", "0 9 * * mon-fri", False)
    assert told["next_due_at"].endswith(("13:00:00Z", "14:00:00Z"))
    assert [row["name"] for row in api.get(ROOM, {"recipe": "stock"}).json()["results"]] == ["Stock"]

    where = f"{ROOM}{told['id']}/"
    assert api.post(f"{where}pause/").json()["paused"]
    assert api.get(ROOM, {"paused": "false"}).json()["results"] == []
    assert not api.post(f"{where}resume/").json()["paused"]
    ran = api.post(f"{where}run/")
    assert ran.status_code == 201
    job = Job.objects.get()
    assert (ran.json()["reference"], job.subject_id) == (job.reference, Schedule.objects.get().pk)
    kinds = [entry["kind"] for entry in api.get(where).json()["entries"]]
    assert kinds == ["started", "resumed", "paused", "created"]


def test_run_twice_under_one_key_is_one_job(opened: Open) -> None:
    api, key = opened("Ad Ops"), {"Idempotency-Key": "run-1"}
    where = f"{ROOM}{api.post(ROOM, body(), format='json').json()['id']}/run/"
    told = [api.post(where, headers=key).json()["reference"] for _ in range(2)]
    assert told == [Job.objects.get().reference] * 2
    assert api.post(where, headers={"Idempotency-Key": "run-2"}).status_code == 201
    assert api.post(where).status_code == 201
    assert opened("Ad Ops").post(where, headers=key).status_code == 201
    assert Job.objects.count() == 4


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cron": "0 9 * *"}, "cron"),
        ({"start_at": "2001-01-01T00:00:00Z", "cron": ""}, "start_at"),
        ({"start_at": "9999-12-31T23:30:00-12:00", "cron": ""}, "start_at"),
        ({"zone": "Nowhere"}, "zone"),
        ({"recipe": "book_deal"}, "recipe"),
        ({"inputs": {}}, "inputs"),
        ({"team": "Somebody else"}, "team"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    opened: Open, strangers: Callable[[], Team], fields: dict[str, Any], field: str
) -> None:
    strangers()
    answer = opened("Ad Ops").post(ROOM, body(**fields), format="json")
    assert answer.status_code == 400, answer.content
    assert list(answer.json()["errors"]) == [field]
    assert not Schedule.objects.exists()


def test_who_has_two_teams_says_which() -> None:
    user: User = make_user("Ad Ops")
    user.teams.add(make_team("Second"))
    api = client_of(user)
    assert "Say for which" in str(api.post(ROOM, body(), format="json").json()["errors"]["team"])
    assert api.post(ROOM, body(team="Second"), format="json").json()["team"] == "Second"


def test_it_takes_the_right_and_the_team(opened: Open, strangers: Callable[[], Team]) -> None:
    assert opened("Buyer").post(ROOM, body(), format="json").status_code == 403
    made = opened("Ad Ops").post(ROOM, body(), format="json").json()
    where = f"{ROOM}{made['id']}/"
    assert opened("Buyer").get(where).status_code == 200
    for act in ("pause", "resume", "run"):
        assert opened("Buyer").post(f"{where}{act}/").status_code == 403
        assert opened("Ad Ops", strangers()).post(f"{where}{act}/").status_code == 404
    assert not Job.objects.exists()
