"""Tools that a seller does not have are not called: by whatever way, for every task that we know."""

from __future__ import annotations

import asyncio

import pytest

from tasks_app.adcp.tasks import TASK_NAMES
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.execution import CHANGE, TASKS
from tasks_app.operations.line import UnreadableError, line_to
from tasks_app.operations.models import READS, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.ordering import Order, order_propose, order_run
from tasks_app.operations.reads import read_ensure
from tasks_app.operations.services import OperationRefusedError
from tasks_app.sellers.models import Seller
from tests.factories import make_seller, make_team

pytestmark = pytest.mark.django_db
EVERY = sorted(READS | set(TASKS.values()))
ALWAYS = "get_adcp_capabilities"  # how a seller says what it has


def ask(seller: Seller, task: str) -> Operation:
    if task in READS:
        return read_ensure(
            purpose=f"test:{task}",
            task_type=task,
            seller=seller,
            arguments={},
            actor="system",
            team=make_team(),
        )
    return order_run(order=order(seller, task), actor="system")


def order(seller: Seller, task: str) -> Order:
    kind = next(kind for kind, name in TASKS.items() if name == task)
    return Order(kind=kind, purpose=f"test:{task}", seller=seller, arguments={}, team=make_team())


def without(task: str) -> Seller:
    return make_seller(tools=sorted(TASK_NAMES - {task}))


def test_every_task_that_we_ask_for_is_known_to_be_adcps() -> None:
    assert set(EVERY) <= TASK_NAMES


@pytest.mark.parametrize("task", sorted(set(EVERY) - {ALWAYS}))
def test_a_task_the_seller_has_no_tool_for_is_refused_in_words(task: str) -> None:
    seller = without(task)
    with pytest.raises(OperationRefusedError, match=f"Norrland Digital lists no tool {task}"):
        ask(seller, task)
    if task not in READS:
        with pytest.raises(OperationRefusedError, match=f"lists no tool {task}"):
            order_propose(order=order(seller, task), actor="system")
    assert not Operation.objects.exists()


@pytest.mark.parametrize("tools", [[], ["media_buying", "signals"]], ids=["no list", "names of its own"])
@pytest.mark.parametrize("task", EVERY)
def test_where_it_is_not_known_what_a_seller_has_it_is_asked(task: str, tools: list[str]) -> None:
    assert claim_one(operation_id=ask(make_seller(tools=tools), task).pk) is not None


def test_what_a_seller_can_do_is_always_asked() -> None:
    assert claim_one(operation_id=ask(without(ALWAYS), ALWAYS).pk) is not None


@pytest.mark.parametrize("task", sorted(set(EVERY) - {ALWAYS}))
def test_a_tool_that_went_before_the_call_left_is_not_called(task: str) -> None:
    operation = ask(make_seller(tools=sorted(TASK_NAMES)), task)
    Seller.objects.update(tools=sorted(TASK_NAMES - {task}))
    assert claim_one(operation_id=operation.pk) is None
    operation.refresh_from_db()
    assert operation.status == S.FAILED
    assert f"lists no tool {task}" in operation.message
    assert not operation.observations.exists(), "nothing was asked"


@pytest.mark.parametrize("task", sorted(set(EVERY) - {ALWAYS}))
def test_readings_that_are_no_operation_leave_it_too(task: str) -> None:
    with pytest.raises(UnreadableError, match=f"lists no tool {task}"):
        asyncio.run(line_to(without(task)).ask(task, {}))
    Seller.objects.update(tools=[])
    asked = asyncio.run(line_to(Seller.objects.get()).ask(task, {}))
    assert asked.kind == "not_sent", "it was called, and nobody listens there"


def test_a_status_tool_that_a_person_named_is_believed() -> None:
    seller = make_seller(tools=["get_products"], status_tool="look_at_task")
    assert seller.offers("look_at_task")
    assert not seller.offers("get_task_status")


def test_titles_of_its_own_do_not_leave_a_seller_unpolled() -> None:
    assert make_seller(tools=["media_buying"]).task_tool == "get_task_status"
    assert make_seller("Another", tools=["get_products"]).task_tool is None


def test_a_purchase_that_may_have_arrived_is_still_followed() -> None:
    operation = ask(make_seller(tools=sorted(TASK_NAMES)), TASKS[CHANGE])
    assert claim_one(operation_id=operation.pk) is not None
    Seller.objects.update(tools=["get_products"])
    Operation.objects.update(send_at=operation.created_at)
    operation.refresh_from_db()
    assert operation.status == S.CALLING_ADCP
    claim_one(operation_id=operation.pk)
    operation.refresh_from_db()
    assert operation.status == S.CALLING_ADCP, "it is not called failed: the seller may have acted"
