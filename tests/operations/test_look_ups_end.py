"""A look-up counts as made whatever it comes upon: the next one is paced, and what people have to find out is
put to them. What a seller shows with our ids is taken for a call's only where it can be that call's."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_polls, finish, make
from tasks_app.operations.lookup import NOT_FOUND, SEVERAL, look_up, lookup_of
from tasks_app.operations.models import PENDING, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.steering import stop_refusal
from tasks_app.sellers.models import Seller
from tests.adcp.raw_server import serve
from tests.clocks import Clock
from tests.factories import make_seller
from tests.operations.making import answer, fresh, see, silent, stand, unknown
from tests.operations.sweeping import shop, tools
from tests.operations.test_lookup import NO_TASKS

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
DEAL = uuid.uuid4()
ANOTHERS = "task-of-another"
FOUND = {
    "of another kind": answer("working", task_type="sync_x"),
    "of another call": answer("working", context={"operation_id": str(uuid.uuid4())}),
    "a task that another has": answer("submitted", task_id=ANOTHERS),
    "a task that cannot be kept": answer("submitted", task_id="x" * 256),
    "a task of its own": answer("submitted", task_id="its-own"),
    "a word of the seller's own": unknown("on_hold"),
    "at work, without a task": answer("working"),
    "nothing": unknown(NOT_FOUND),
    "several": unknown(SEVERAL),
    "no answer": silent(),
}
LOOKED_FOR = (S.CALLING_ADCP, *PENDING, S.TIMED_OUT)


def looked_for(status: str, task_type: str = "create_media_buy", **columns: Any) -> Operation:
    """One without a task that is to be looked for at its seller now."""
    unbound = {} if status == S.CALLING_ADCP else {"task_id": ""}
    return stand(status, task_type, send_at=None, next_poll_at=clock.now(), **unbound, **columns)


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("found", FOUND)
def test_no_look_up_is_due_again_at_once(found: str) -> None:
    seller = make_seller()
    stand(S.SUBMITTED, seller=seller, task_id=ANOTHERS)
    for status in LOOKED_FOR:
        operation, seen = looked_for(status, seller=seller), FOUND[found]
        own = {"task_id": f"of-{status}"} if found == "a task of its own" else {}
        see(operation, replace(seen, **own), "reconcile")
        due = fresh(operation).next_poll_at
        assert due is None or due > clock.now(), (status, due)


def test_what_a_comparison_comes_upon_beside_a_call_that_is_out_ends_nothing() -> None:
    operation = stand(S.CALLING_ADCP, send_at=clock.now())
    before = fresh(operation)
    see(operation, FOUND["a task that cannot be kept"], "reconcile")
    after = fresh(operation)
    assert (after.send_at, after.deadline_at) == (before.send_at, before.deadline_at)


def test_a_call_for_which_the_seller_shows_something_else_is_put_to_people() -> None:
    """However it is decided that the seller contradicts itself: nothing else would end the wait."""
    operation = looked_for(S.CALLING_ADCP)
    see(operation, FOUND["of another kind"], "reconcile")
    assert stop_refusal(fresh(operation)) == "", "no call is out"
    time_out_due(limit=10)
    assert fresh(operation).status == S.TIMED_OUT
    asked = Approval.objects.get(kind="overdue", status="open")
    assert "cannot be it: tells of sync_x" in asked.evidence["last_message"]


def test_what_the_seller_has_is_looked_for_until_it_is_overdue(still: Clock, settings: Any) -> None:
    settings.POLL_SCALE = 1.0
    seller = make_seller(timing={"jitter": 0, "submitted_polls": 2})
    operation = looked_for(S.SUBMITTED, seller=seller)
    waits = []
    for _ in range(4):
        Operation.objects.filter(pk=operation.pk).update(next_poll_at=still.now)
        see(operation, FOUND["of another kind"], "reconcile")
        waits.append((fresh(operation).next_poll_at - still.now).total_seconds())
    assert waits[0] == waits[1] < waits[2] == waits[3], "ever more seldom, as it would be polled"
    assert fresh(operation).status == S.SUBMITTED
    still.now = fresh(operation).deadline_at
    time_out_due(limit=10)
    assert fresh(operation).status == S.TIMED_OUT
    assert Approval.objects.filter(kind="overdue", status="open").exists()


# --- whose a task is at a seller that keeps the deal's id alone --------------------------------------


def task(name: str, task_type: str = "update_media_buy", **context: str) -> dict[str, Any]:
    told = {"task_id": name, "task_type": task_type, "status": "submitted"}
    return {**told, "context": {"deal_id": str(DEAL), **context}}


def found(operation: Operation, *listed: dict[str, Any]) -> Seen:
    """What looking it up comes to, at a seller that shows these tasks."""

    def status(asked: dict[str, Any]) -> dict[str, Any]:
        return next(one for one in listed if one["task_id"] == asked["task_id"])

    with serve(shop(list_tasks={**NO_TASKS, "tasks": listed}, get_task_status=status)) as server:
        Seller.objects.filter(pk=operation.seller_id).update(url=f"{server.url}/mcp")
        return asyncio.run(look_up(lookup_of(fresh(operation))))


def change(**columns: Any) -> Operation:
    """A change of the deal whose call has no answer."""
    about = {"subject_type": "deal", "subject_id": DEAL}
    return looked_for(S.CALLING_ADCP, "update_media_buy", **about, **columns)


def test_of_two_changes_of_a_deal_each_has_its_own_task() -> None:
    first = change()
    see(first, answer("submitted", task_id="t-first"))
    second = change(seller=first.seller)
    listed = [task("t-first"), task("t-bought", "create_media_buy"), task("t-second")]
    assert found(second, *listed).task_id == "t-second"


def test_of_several_tasks_of_a_deal_that_may_be_its_people_say_which() -> None:
    operation = change()
    seen = found(operation, task("t-b"), task("t-a"))
    assert (seen.raw_status, seen.task_id) == (SEVERAL, None)
    assert seen.message == "The seller shows more than one task with our ids: t-a, t-b."
    see(operation, seen, "reconcile")
    now = fresh(operation)
    assert (now.message, now.next_poll_at) == (seen.message, None)
    assert now.looked_up_at == now.deadline_at <= clock.now(), "overdue at once"


def test_one_that_names_the_call_is_its_beside_others_of_the_deal() -> None:
    operation = change()
    named = task("t-c", operation_id=str(operation.pk))
    assert found(operation, task("t-a"), task("t-b"), named).task_id == "t-c"


def test_the_seller_is_not_asked_at_the_speed_of_its_answers() -> None:
    told = {"task_id": "t", "task_type": "create_media_buy", "status": "working"}
    others = {**told, "context": {"operation_id": str(uuid.uuid4())}}

    def listed(_asked: dict[str, Any]) -> dict[str, Any]:
        return {**NO_TASKS, "tasks": [{**told, "context": {"operation_id": str(operation.pk)}}]}

    with serve(shop(list_tasks=listed, get_task_status=others)) as server:
        operation = looked_for(S.CALLING_ADCP, seller=make_seller(url=f"{server.url}/mcp"))
        (call,) = claim_polls(limit=5)
        finish([(call, asyncio.run(make(call)))])
        assert tools(server) == ["list_tasks", "get_task_status"]
        assert claim_polls(limit=5) == []
