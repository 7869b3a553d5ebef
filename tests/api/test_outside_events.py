"""/api/v1/events/: events from outside, delivered once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tasks_app.jobs.outside_event import OutsideEvent
from tasks_app.jobs.worker import drain
from tasks_app.people.models import Team
from tests.api.conftest import Open
from tests.jobs.conftest import Bench, bench

__all__ = ["bench"]
pytestmark = pytest.mark.django_db
ROOM = "/api/v1/events/"


def body(**fields: Any) -> dict[str, Any]:
    given = {"name": "order.signed", "correlation": "IO-7", "idempotency_key": "evt-1"}
    return {**given, "payload": {"by": "Astrid", "share": 0.5}, **fields}


def test_it_resumes_the_step_that_waits_for_it(opened: Open, bench: Bench) -> None:
    inputs = {"name": "order.signed", "correlation": "IO-7"}
    bench.recipe({"id": "a", "action": "wait_for_event", "inputs": inputs})
    job = bench.run()
    api = opened("Integration")
    answer = api.post(ROOM, body(), format="json")
    assert answer.status_code == 202, answer.content
    told = answer.json()
    assert (told["job_id"], told["duplicate"]) == (str(job.pk), False)
    drain()
    job.refresh_from_db()
    assert job.status == "COMPLETED"

    again = api.post(ROOM, body(), format="json")
    assert (again.status_code, again.json()["duplicate"], again.json()["id"]) == (202, True, told["id"])
    kept = api.get(answer.headers["Location"]).json()
    assert (kept["payload"], kept["idempotency_key"]) == ({"by": "Astrid", "share": 0.5}, "evt-1")


def test_what_looks_like_a_secret_is_shown_to_nobody(opened: Open) -> None:
    api = opened("Integration")
    told = api.post(ROOM, body(payload={"password": "hunter2", "by": "Astrid"}), format="json")
    for answer in (told, api.get(ROOM), api.get(told.headers["Location"])):
        assert "hunter2" not in answer.content.decode()
    assert OutsideEvent.objects.get().payload["password"] == "hunter2", "its step is given it"


def test_one_that_comes_first_is_kept(opened: Open) -> None:
    api = opened("Integration")
    told = api.post(ROOM, body(), format="json").json()
    assert (told["step_id"], told["job_id"]) == (None, None)
    assert [row["id"] for row in api.get(ROOM, {"taken": "false"}).json()["results"]] == [told["id"]]
    assert api.get(ROOM, {"taken": "true"}).json()["results"] == []


def test_the_key_with_another_event_is_409(opened: Open) -> None:
    api = opened("Integration")
    api.post(ROOM, body(), format="json")
    answer = api.post(ROOM, body(payload={"by": "Björn"}), format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "IDEMPOTENCY_KEY_CONFLICT")
    assert OutsideEvent.objects.get().payload["by"] == "Astrid"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "Not A Name"}, "name"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"payload": "text"}, "payload"),
        ({"correlation": "x" * 201}, "correlation"),
        ({"team": "Somebody else"}, "team"),
        ({"to": "me"}, "to"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    opened: Open, strangers: Callable[[], Team], fields: dict[str, Any], field: str
) -> None:
    strangers()
    answer = opened("Integration").post(ROOM, body(**fields), format="json")
    assert (answer.status_code, list(answer.json()["errors"])) == (400, [field])
    assert not OutsideEvent.objects.exists()


def test_it_takes_the_right_and_the_team(opened: Open, strangers: Callable[[], Team]) -> None:
    assert opened("Buyer").post(ROOM, body(), format="json").status_code == 403
    where = opened("Integration").post(ROOM, body(), format="json").headers["Location"]
    assert opened("Integration", strangers()).get(where).status_code == 404
    assert opened("Auditor").get(where).status_code == 200
