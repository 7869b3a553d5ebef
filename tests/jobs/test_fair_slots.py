"""A seller's slots are fair between jobs, and go by their priority."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tasks_app.jobs.actions import Result, Run, WaitForOperation
from tasks_app.jobs.steering import job_priority_set
from tasks_app.jobs.worker import drain
from tasks_app.operations.models import Operation
from tasks_app.operations.reads import read_ensure
from tasks_app.sellers.models import Seller
from tests.adcp.raw_server import serve
from tests.database import Database
from tests.factories import make_seller, make_team, make_user
from tests.jobs.conftest import Bench
from tests.operations.sweeping import answering, arguments, calls, sweep

READ = {"status": "completed", "products": []}


def briefs(server: Any) -> list[str]:
    """What the seller was asked, in order."""
    return [arguments(request)["brief"] for request in calls(server)]


def asking(seller: Seller) -> Callable[[Run], Result]:
    """An action that asks the seller for what its job is called."""

    def ask_for(run: Run) -> Result:
        operation = read_ensure(
            purpose=run.purpose("ask"),
            task_type="get_products",
            seller=seller,
            arguments={"brief": run.job.inputs["name"]},
            actor="system",
            team=make_team(),
        )
        return WaitForOperation(operation_id=operation.pk)

    return ask_for


def with_recipes(bench: Bench, seller: Seller) -> None:
    """`many` asks once for each of a list, `one` once."""
    bench.action("ask", asking(seller), kind="idempotent")
    bench.recipe({"id": "many", "action": "ask", "for_each": "{{ inputs.list }}"}, name="many")
    bench.recipe({"id": "one", "action": "ask"}, name="one")


def test_a_job_with_many_operations_keeps_another_with_one_waiting_for_one_call_at_most(
    committed_db: Database, bench: Bench
) -> None:
    with serve(answering(READ)) as server:
        with_recipes(bench, make_seller(url=f"{server.url}/mcp", slots=1))
        bench.start("many", inputs={"name": "many", "list": list(range(30))})
        drain()
        bench.start("one", inputs={"name": "one"})
        drain()
        assert Operation.objects.filter(send_at__isnull=False).count() == 31
        sweep()

    asked = briefs(server)
    assert len(asked) == 31
    assert asked.index("one") <= 2


@pytest.mark.parametrize("moved", [False, True], ids=["begun with", "moved to"])
def test_the_job_of_the_lower_priority_has_the_sellers_slot_first(
    committed_db: Database, bench: Bench, moved: bool
) -> None:
    """It is asked for last, of a seller with one slot; `moved`: when it was asked for already."""
    with serve(answering(READ)) as server:
        with_recipes(bench, make_seller(url=f"{server.url}/mcp", slots=1))
        bench.start("many", inputs={"name": "many", "list": list(range(4))}, priority=100)
        drain()
        urgent = bench.start("one", inputs={"name": "urgent"}, priority=200 if moved else 5)
        drain()
        assert Operation.objects.filter(send_at__isnull=False).count() == 5
        if moved:
            ada = make_user("Administrator")
            job_priority_set(job_id=urgent.pk, priority=5, actor=ada, reason="The client waits")
        sweep()

    assert briefs(server) == ["urgent", *["many"] * 4]
