"""/api/v1/operations/<id>/poll|resend|stop|settle|answer/ and /api/v1/conflicts/."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tests.adcp.raw_server import serve
from tests.api.asks import shown
from tests.api.conftest import Open
from tests.operations.making import TASK, answer, fresh, see, stand
from tests.operations.pausing import SECRET_CONTEXT, answering, done, paused, paused_purchase
from tests.operations.sweeping import sweep

pytestmark = pytest.mark.django_db
OPERATIONS, CONFLICTS = "/api/v1/operations/", "/api/v1/conflicts/"
BODIES: dict[str, dict[str, Any]] = {
    "poll": {},
    "resend": {"reason": "So."},
    "stop": {"reason": "So."},
    "settle": {"end": "failed", "reason": "So.", "evidence": "Letter of 19 November"},
    "answer": {"generation": 1, "text": "Sweden."},
    "correct": {"arguments": {"packages": []}, "reason": "So."},
}


def post(api: Any, operation: Operation, act: str, **changed: Any) -> Any:
    body = {**BODIES[act], **changed}
    return api.post(f"{OPERATIONS}{operation.reference}/{act}/", body, format="json")


@pytest.mark.parametrize("act", BODIES)
@pytest.mark.parametrize("role", ["Buyer", "Approver", "Integration", "Auditor"])
def test_only_those_who_steer_may(opened: Open, act: str, role: str) -> None:
    operation = stand(S.SUBMITTED, sent_at=clock.now())
    assert post(opened(role), operation, act).status_code == 403
    assert fresh(operation).version == operation.version


@pytest.mark.parametrize("act", BODIES)
def test_another_teams_operation_is_not_found(opened: Open, strangers: Any, act: str) -> None:
    operation = stand(S.SUBMITTED)
    assert post(opened("Ad Ops", strangers()), operation, act).status_code == 404


def test_each_act_answers_what_it_led_to(opened: Open) -> None:
    api = opened("Ad Ops")
    operation = stand(S.SUBMITTED, sent_at=clock.now(), next_poll_at=clock.now() + timedelta(hours=1))
    polled = post(api, operation, "poll").json()
    assert polled["next_poll_at"] <= clock.now().isoformat()
    assert post(api, operation, "resend").json()["status"] == "submitted"
    settled = post(api, operation, "settle").json()
    assert settled["approval_id"] == str(Approval.objects.get(kind="settle_by_hand").pk)
    stopped = post(api, operation, "stop").json()
    assert stopped["status"] == "timed_out"
    assert stopped["approval_id"] == str(Approval.objects.get(kind="overdue").pk)


@pytest.mark.parametrize("act", ["poll", "resend", "stop", "settle", "answer"])
def test_what_the_state_does_not_allow_is_a_conflict(opened: Open, act: str) -> None:
    operation = stand(S.COMPLETED)
    told = post(opened("Ad Ops"), operation, act)
    assert (told.status_code, told["Content-Type"]) == (409, "application/problem+json")


@pytest.mark.parametrize(
    ("act", "changed", "field"),
    [
        ("resend", {"reason": ""}, "reason"),
        ("settle", {"evidence": "no"}, "evidence"),
        ("settle", {"end": "approved"}, "end"),
        ("settle", {"end": "completed"}, "evidence"),
        ("stop", {"why": "x"}, "why"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    opened: Open, act: str, changed: dict[str, Any], field: str
) -> None:
    told = post(opened("Ad Ops"), stand(S.SUBMITTED, sent_at=clock.now()), act, **changed)
    assert told.status_code == 400
    assert field in told.content.decode()


def test_an_answer_goes_through_the_transport_and_shows_no_capability(opened: Open) -> None:
    with serve(answering(paused(), done({"status": "completed", "products": []}))) as server:
        operation = paused_purchase(server, "get_products")
        api = opened("Ad Ops")
        stale = post(api, operation, "answer", generation=2)
        told = post(api, operation, "answer")
        again = post(api, operation, "answer")
        sweep()
    assert (stale.status_code, told.status_code, again.status_code) == (409, 200, 409)
    assert SECRET_CONTEXT not in told.content.decode()
    assert "pause 1 is current" in stale.content.decode()
    assert fresh(operation).status == S.COMPLETED


@pytest.fixture
def conflict() -> Conflict:
    operation = stand(S.COMPLETED)
    see(operation, answer("rejected", task_id=TASK, raw={"status": "rejected"}), "webhook")
    return Conflict.objects.get()


def test_a_conflict_is_told_with_both_payloads(opened: Open, conflict: Conflict) -> None:
    api = opened("Finance")
    (listed,) = api.get(CONFLICTS).json()["results"]
    told = api.get(f"{CONFLICTS}{conflict.reference}/").json()
    assert (listed["reference"], {"first", "second"} & listed.keys()) == (conflict.reference, set())
    assert (told["first"]["status"], told["second"]["status"]) == ("completed", "rejected")
    assert told["second"]["body"] == {"status": "rejected"}
    assert told["approval_id"] == str(Approval.objects.get(kind="conflict").pk)
    assert told["take_refusal"]


@pytest.mark.parametrize(("room", "columns"), [
    (CONFLICTS, "first|second"),
    ("/api/v1/approvals/", "evidence"),
    ("/api/v1/jobs/", "inputs|outputs"),
    ("/api/v1/commands/", "payload"),
])  # fmt: skip
def test_lists_do_not_read_what_may_be_long(
    opened: Open, conflict: Conflict, room: str, columns: str
) -> None:
    """It may be megabytes of each, as sellers and integrators said it."""
    api = opened("Ad Ops")
    with CaptureQueriesContext(connection) as asked:
        assert api.get(room).status_code == 200
    read = [one["sql"].partition(" FROM ")[0] for one in asked.captured_queries]
    assert [sql for sql in read if '"reference"' in sql or '"recipe"' in sql or '"overrides"' in sql]
    assert not [sql for sql in read if re.search(rf'"(?:{columns})"(?! (?:->|#>))', sql)]


def test_a_conflict_is_decided_at_its_approval_and_the_seller_can_be_asked(
    opened: Open, conflict: Conflict
) -> None:
    asked = opened("Ad Ops").post(f"{CONFLICTS}{conflict.pk}/ask/", {"reason": "Mailed."}, format="json")
    assert (asked.status_code, asked.json()["asked_at"] is not None) == (200, True)
    assert opened("Buyer").post(f"{CONFLICTS}{conflict.pk}/ask/", {"reason": "x"}).status_code == 403
    approval = asked.json()["approval_id"]
    said = {"verdict": "approve", "comment": "Keep.", "evidence_digest": shown(approval)}
    decided = opened("Approver").post(f"/api/v1/approvals/{approval}/decide/", said, format="json")
    assert decided.status_code == 200
    assert opened("Finance").get(f"{CONFLICTS}{conflict.pk}/").json()["resolution"] == "kept"


def test_a_stranger_sees_no_conflict(opened: Open, strangers: Any, conflict: Conflict) -> None:
    api = opened("Finance", strangers())
    assert api.get(CONFLICTS).json()["results"] == []
    assert api.get(f"{CONFLICTS}{conflict.pk}/").status_code == 404
