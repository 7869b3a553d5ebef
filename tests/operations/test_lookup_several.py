"""A purchase that is looked up at its seller: of several media buys with our context the one that lives is
what was bought, however the seller orders its list; of several that live people say which it is."""

from __future__ import annotations

import asyncio
from itertools import permutations
from typing import Any

import pytest

from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.operations.lookup import SEVERAL, look_up, lookup_of
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tests.adcp.raw_server import serve
from tests.factories import make_seller
from tests.operations.making import TASK, fresh, see, silent, stand
from tests.operations.sweeping import shop, sweep
from tests.operations.test_lookup import NO_BUYS, NO_TASKS

pytestmark = pytest.mark.django_db
Buy = dict[str, Any]


def buy(name: str, status: str) -> Buy:
    return {"media_buy_id": name, "status": status, "packages": []}


DEAD = [buy("mb-1-rejected", "rejected"), buy("mb-2-canceled", "canceled")]
LIVE = ["active", "paused", "completed", "pending_start", "pending_creatives"]


def stood(url: str, status: str = S.CALLING_ADCP, **columns: Any) -> Operation:
    """A purchase at a seller that tells of a task only by what it lists."""
    return stand(status, seller=make_seller(url=url, idempotency_ttl_s=60), **columns)


def ours(listed: list[Buy], operation: Operation) -> list[Buy]:
    return [{**one, "context": {"operation_id": str(operation.pk)}} for one in listed]


def orders_of(listed: list[Buy]) -> list[list[Buy]]:
    return [list(one) for one in permutations(listed)]


def found(listed: list[Buy], *, pages: bool = False) -> list[Seen]:
    """What looking it up comes to, in each order of the list; each on a `page` of its own."""
    pending: list[Buy] = []

    def listing(asked: dict[str, Any]) -> dict[str, Any]:
        if not pages:
            return {**NO_BUYS, "media_buys": pending}
        at = int(asked["pagination"].get("cursor", 0))
        more = at + 1 < len(pending)
        told = {"has_more": more, **({"cursor": str(at + 1)} if more else {})}
        return {**NO_BUYS, "media_buys": pending[at : at + 1], "pagination": told}

    with serve(shop(list_tasks=NO_TASKS, get_media_buys=listing)) as server:
        operation = stood(f"{server.url}/mcp")
        seen = []
        for order in orders_of(listed):
            pending[:] = ours(order, operation)
            seen.append(asyncio.run(look_up(lookup_of(operation))))
    return seen


@pytest.mark.parametrize("pages", [False, True], ids=["one page", "a page each"])
@pytest.mark.parametrize("status", LIVE)
def test_the_one_that_lives_is_what_was_bought(status: str, pages: bool) -> None:
    for seen in found([*DEAD, buy("mb-3", status)], pages=pages):
        assert (seen.status, (seen.payload or {}).get("media_buy_id")) == ("completed", "mb-3")


def test_of_those_that_are_over_the_one_that_was_bought_counts() -> None:
    for seen in found(DEAD):
        assert (seen.status, (seen.payload or {}).get("media_buy_id")) == ("completed", "mb-2-canceled")


def test_the_same_one_on_two_pages_is_one() -> None:
    for seen in found([buy("mb-3", "active"), buy("mb-3", "active")], pages=True):
        assert (seen.payload or {}).get("media_buy_id") == "mb-3"


def test_none_of_several_that_live_is_chosen() -> None:
    for seen in found([*DEAD, buy("mb-3", "active"), buy("mb-4", "paused")]):
        assert (seen.status, seen.raw_status, seen.payload) == ("unknown", SEVERAL, None)
        assert seen.message == "The seller shows more than one media buy with our ids: mb-3, mb-4."


@pytest.mark.parametrize(
    "stands",
    [
        {"status": S.CALLING_ADCP},
        {"status": S.SUBMITTED, "task_id": ""},
        {"status": S.WORKING, "task_id": ""},
        {"status": S.SUBMITTED, "task_id": TASK},
    ],
    ids=["no answer", "submitted", "working", "a task that nothing tells of"],
)
def test_people_say_which_of_several_it_is(stands: dict[str, Any]) -> None:
    two = [buy("mb-3", "active"), buy("mb-4", "active")]

    def listing(_asked: dict[str, Any]) -> dict[str, Any]:
        return {**NO_BUYS, "media_buys": ours(two, operation)}

    with serve(shop(get_media_buys=listing)) as server:
        columns = {name: value for name, value in stands.items() if name != "status"}
        operation = stood(f"{server.url}/mcp", stands["status"], **columns)
        seen = asyncio.run(look_up(lookup_of(_without_tasks(operation))))
    observe_looked_up(operation, seen)
    sweep()

    operation = fresh(operation)
    assert (operation.status, operation.result) == (S.TIMED_OUT, None)
    assert (
        "more than one media buy with our ids: mb-3, mb-4" in Approval.objects.get().evidence["last_message"]
    )


def _without_tasks(operation: Operation) -> Operation:
    operation.seller.tools = ["create_media_buy", "get_media_buys"]
    operation.seller.save(update_fields=["tools"])
    return operation


def observe_looked_up(operation: Operation, seen: Seen) -> None:
    if operation.status == S.CALLING_ADCP:
        see(operation, silent())
    observation = see(operation, seen, "reconcile")
    assert observation.outcome == "indeterminate"
