"""A seller's slots are fair between jobs."""

from __future__ import annotations

from typing import Any

from tasks_app.jobs.actions import Result, Run, WaitForOperation
from tasks_app.jobs.worker import drain
from tasks_app.operations.models import Operation
from tasks_app.operations.reads import read_ensure
from tests.adcp.raw_server import serve
from tests.database import Database
from tests.factories import make_seller, make_team
from tests.jobs.conftest import Bench
from tests.operations.sweeping import answering, arguments, calls, sweep

READ = {"status": "completed", "products": []}


def po_numbers(server: Any) -> list[str]:
    return [arguments(request)["brief"] for request in calls(server)]


def test_a_job_with_many_operations_keeps_another_with_one_waiting_for_one_call_at_most(
    committed_db: Database, bench: Bench
) -> None:
    with serve(answering(READ)) as server:
        seller = make_seller(url=f"{server.url}/mcp", slots=1)

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

        bench.action("ask", ask_for, kind="idempotent")
        bench.recipe({"id": "many", "action": "ask", "for_each": "{{ inputs.list }}"}, name="many")
        bench.recipe({"id": "one", "action": "ask"}, name="one")
        bench.start("many", inputs={"name": "many", "list": list(range(30))})
        drain()
        bench.start("one", inputs={"name": "one"})
        drain()
        assert Operation.objects.filter(send_at__isnull=False).count() == 31
        sweep()

    asked = po_numbers(server)
    assert len(asked) == 31
    assert asked.index("one") <= 2
