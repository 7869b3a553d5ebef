"""A purchase that came to nothing here, of which a webhook names a media buy all the same: the seller is
asked until it says how its task ended, and what contradicts the end is a person's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.adcp.types import WireError
from tasks_app.adcp.webhook_body import read_webhook
from tasks_app.operations import policy
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.dispatch import claim_polls, finish
from tasks_app.operations.models import Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tests.adcp.raw_server import RawServer, serve
from tests.factories import make_seller
from tests.operations.making import BOUGHT, answer, fresh, see, stand
from tests.operations.sweeping import shop, sweep, tools
from tests.webhooks.signing import payload

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


class Record:
    """The seller's record of the task, which may change, and how often it was asked for."""

    def __init__(self, status: str, **told: Any) -> None:
        self.told = {"task_id": "task-buy", "task_type": "create_media_buy", "status": status, **told}
        self.asked = 0

    def __call__(self, _asked: dict[str, Any]) -> dict[str, Any]:
        self.asked += 1
        return self.told


@pytest.fixture
def later() -> Iterator[Callable[..., None]]:
    """Our clock, moved on by so much."""
    moved = [clock.now()]

    def move(**much: float) -> None:
        moved[0] += timedelta(**much)

    with clock.injected(lambda: moved[0]):
        yield move


def ended(server: RawServer, status: str, **columns: Any) -> Operation:
    seller = make_seller(url=f"{server.url}/mcp", webhook_mode="none")
    operation = stand(status, seller=seller, task_id="task-buy")
    Operation.objects.filter(pk=operation.pk).update(**columns)
    return fresh(operation)


def names_a_buy(operation: Operation, word: str = "active", **told: Any) -> Observation:
    """A webhook with the buy's word under the task that bought it."""
    body = payload(word, task_id="task-buy", **{"result": dict(BOUGHT), **told})
    seen = read_webhook(body, task_type=operation.task_type, any_status=True)[1]
    observation: Observation = see(operation, seen, "webhook")
    return observation


COMPLETED: dict[str, Any] = {"result": {**BOUGHT, "media_buy_status": "active"}}
NOTHING = {"error": {"code": "PRODUCT_UNAVAILABLE", "message": "gone"}}


@pytest.mark.parametrize("status", ["failed", "canceled", "rejected"])
def test_a_buy_that_runs_of_a_purchase_that_came_to_nothing_is_a_persons(
    status: str, later: Callable[..., None]
) -> None:
    record = Record("completed", **COMPLETED)
    with serve(shop(get_task_status=record, **{"tasks/get": record})) as server:
        operation = ended(server, status)
        assert fresh(operation).next_poll_at is None
        assert names_a_buy(operation).outcome == "indeterminate"
        later(seconds=10)
        sweep()
        sweep()

    conflict = Conflict.objects.get(operation=operation, resolved_at=None)
    assert conflict.second["value"]["media_buy_id"] == "mb-1"
    assert (fresh(operation).status, fresh(operation).next_poll_at, record.asked) == (status, None, 1)


def test_a_purchase_whose_task_is_unknown_is_looked_up_by_our_context(later: Callable[..., None]) -> None:
    """Refused at once, so that the seller named no task of it."""

    def bought(_asked: dict[str, Any]) -> dict[str, Any]:
        buy = {**BOUGHT, "media_buy_status": "active", "context": {"operation_id": str(operation.pk)}}
        return {"status": "completed", "media_buys": [buy], "pagination": {"has_more": False}}

    none = {"status": "completed", "tasks": [], "pagination": {"has_more": False}}
    with serve(shop(list_tasks=none, get_media_buys=bought)) as server:
        operation = ended(server, "rejected", task_id="")
        names_a_buy(operation)
        later(seconds=10)
        sweep()
    assert Conflict.objects.filter(operation=operation, resolved_at=None).exists()
    assert fresh(operation).send_at is None


NONE = {"status": "completed", "pagination": {"has_more": False}}
# What a seller without a status tool tells of the purchase elsewhere, by the tool.
ELSEWHERE: dict[str, Callable[[Operation], dict[str, Any]]] = {
    "get_media_buys": lambda operation: {
        **NONE,
        "media_buys": [
            {**BOUGHT, "media_buy_status": "active", "context": {"operation_id": str(operation.pk)}}
        ],
    },
    "list_tasks": lambda _operation: {
        **NONE,
        "tasks": [{"task_id": "task-buy", "task_type": "create_media_buy", "status": "completed"}],
    },
}


@pytest.mark.parametrize("status", ["failed", "canceled", "rejected"])
@pytest.mark.parametrize("shows", ELSEWHERE)
def test_a_seller_without_a_status_tool_is_asked_by_what_it_has(
    shows: str, status: str, later: Callable[..., None]
) -> None:
    def told(_asked: dict[str, Any]) -> dict[str, Any]:
        return ELSEWHERE[shows](operation)

    with serve(shop(**{shows: told})) as server:
        operation = ended(server, status)
        Seller.objects.update(tools=["create_media_buy", shows])
        names_a_buy(operation)
        later(seconds=10)
        sweep()
        sweep()
        assert tools(server) == [shows]
    assert Conflict.objects.filter(operation=operation, resolved_at=None).exists()
    assert fresh(operation).next_poll_at is None


@pytest.mark.parametrize("has", ["create_media_buy", *ELSEWHERE])
def test_a_seller_without_a_status_tool_that_shows_nothing_is_asked_seldom_and_not_for_ever(
    has: str, later: Callable[..., None]
) -> None:
    with serve(shop(get_media_buys={**NONE, "media_buys": []}, list_tasks={**NONE, "tasks": []})) as server:
        operation = ended(server, "failed")
        Seller.objects.update(tools=["create_media_buy", has])
        names_a_buy(operation)
        later(seconds=10)
        sweep()
        again = fresh(operation).next_poll_at
        assert again is not None
        assert again > clock.now() + timedelta(minutes=5)
        assert tools(server) == [has] * (has in ELSEWHERE)
        later(days=8)
        sweep()
        sweep()
    left = fresh(operation)
    assert (left.next_poll_at, left.send_at, left.status) == (None, None, "failed")


def test_what_came_to_nothing_undoubted_is_not_looked_up(later: Callable[..., None]) -> None:
    with serve(shop()) as server:
        operation = ended(server, "failed", next_poll_at=clock.now())
        Seller.objects.update(tools=["create_media_buy", *ELSEWHERE])
        later(seconds=10)
        sweep()
        assert tools(server) == []
    assert not Operation.objects.filter(pk=operation.pk, next_poll_at__lte=clock.now()).exists()


def test_a_look_up_that_finds_nothing_sends_nothing_again(later: Callable[..., None]) -> None:
    none = {"status": "completed", "pagination": {"has_more": False}}
    with serve(shop(list_tasks={**none, "tasks": []}, get_media_buys={**none, "media_buys": []})) as server:
        operation = ended(server, "rejected", task_id="")
        before = fresh(operation)
        names_a_buy(operation)
        later(seconds=10)
        sweep()
    left = fresh(operation)
    assert (left.send_at, left.deadline_at, left.looked_up_at) == (None, before.deadline_at, None)
    assert left.next_poll_at is not None
    assert left.next_poll_at > clock.now() + timedelta(minutes=5)


def test_however_many_webhooks_name_it_the_seller_is_asked_once_in_the_shortest_wait(
    later: Callable[..., None],
) -> None:
    record = Record("failed", **NOTHING)
    with serve(shop(get_task_status=record, **{"tasks/get": record})) as server:
        operation = ended(server, "failed")
        due = []
        for number in range(20):
            names_a_buy(operation, ("active", "paused")[number % 2])
            due.append(fresh(operation).next_poll_at)
            later(seconds=0.1)
            sweep()
        assert (len(set(due)), record.asked) == (1, 0), "none moves the look, none makes one of its own"
        later(seconds=10)
        for _ in range(3):
            sweep()
        assert (record.asked, fresh(operation).next_poll_at) == (1, None), "it says what is known: over"
        names_a_buy(operation)
        sweep()
    again = fresh(operation).next_poll_at
    assert record.asked == 1
    assert again is not None
    assert again >= clock.now() + policy.floor(operation.seller)
    assert not Conflict.objects.exists()


@pytest.mark.parametrize("first", ["down", "working"])
def test_a_look_that_tells_no_end_is_made_again_seldom_and_not_for_ever(
    first: str, later: Callable[..., None]
) -> None:
    record = Record("working")
    has = {} if first == "down" else {"get_task_status": record, "tasks/get": record}
    with serve(shop(**has)) as server:
        operation = ended(server, "failed")
        names_a_buy(operation)
        later(seconds=10)
        sweep()
        again = fresh(operation).next_poll_at
        assert again is not None
        assert again > clock.now() + timedelta(minutes=5), "seldom"
        later(days=8)
        sweep()
    assert fresh(operation).next_poll_at is None


def test_what_is_told_while_the_seller_is_asked_is_asked_about_again(later: Callable[..., None]) -> None:
    with serve(shop()) as server:
        operation = ended(server, "failed")
        names_a_buy(operation)
        later(seconds=10)
        (call,) = claim_polls(limit=1)
        later(seconds=1)
        names_a_buy(operation)
        error = WireError(code="PRODUCT_UNAVAILABLE", recovery="terminal")
        finish([(call, answer("failed", task_id="task-buy", payload=BOUGHT, error=error))])
    assert operation.observations.latest("id").outcome == "duplicate"
    assert fresh(operation).next_poll_at == clock.now() + policy.floor(operation.seller)


@pytest.mark.parametrize("told", ["no buy", "a change", "a status of the task"])
def test_nothing_else_that_comes_after_an_end_has_the_seller_asked(told: str) -> None:
    kind = "update_media_buy" if told == "a change" else "create_media_buy"
    operation = stand(S.FAILED, kind, task_id="task-buy")
    word = "working" if told == "a status of the task" else "active"
    result = {"note": "none"} if told == "no buy" else dict(BOUGHT)
    assert names_a_buy(operation, word, task_type=kind, result=result).outcome == "stale"
    assert fresh(operation).next_poll_at is None
