"""A seller's slots are fair between jobs, and held only while a call is out."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.operations.lease import CallLease
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.turns import sharing
from tests.adcp.raw_server import Request, serve
from tests.database import Database
from tests.factories import make_seller
from tests.operations.making import ask, stand
from tests.operations.sweeping import answering, calls, sweep


@pytest.mark.django_db
class TestTurns:
    """The order in which operations are due, without calls."""

    def turns(self) -> list[str]:
        return list(Operation.objects.order_by("turn_at", "pk").values_list("request__po_number", flat=True))

    def asked(self, name: str, share: uuid.UUID | None = None) -> None:
        arguments = {"po_number": name}
        if share is None:
            ask(arguments=arguments)
            return
        with sharing(share):
            ask(arguments=arguments)

    def test_shares_take_turns_and_what_waits_longest_is_not_overtaken_for_ever(self) -> None:
        now, big, small = clock.now(), uuid.uuid4(), uuid.uuid4()
        with clock.injected(lambda: now):
            for number in range(4):
                self.asked(f"big-{number}", big)
            for number in range(2):
                self.asked(f"small-{number}", small)
            self.asked("alone")
        assert self.turns() == ["big-0", "small-0", "alone", "big-1", "small-1", "big-2", "big-3"]

    def test_each_seller_has_turns_of_its_own(self) -> None:
        now, share = clock.now(), uuid.uuid4()
        with clock.injected(lambda: now), sharing(share):
            here, there = ask(seller=make_seller("Here")), ask(seller=make_seller("There"))
        assert here.turn_at == there.turn_at == now
        assert here.share == there.share == share


def test_a_slot_is_held_while_the_call_is_out_and_not_while_the_seller_works(committed_db: Database) -> None:
    out: list[int] = []

    def answer(request: Request) -> dict[str, Any]:
        out.append(CallLease.objects.filter(until__gt=clock.now()).count())
        return {"status": "submitted", "task_id": f"task-{len(out)}"}

    with serve(answering(answer)) as server:
        seller = make_seller(url=f"{server.url}/mcp", slots=1)
        for _ in range(3):
            ask(seller=seller)
        sweep()

    assert out == [1, 1, 1], "one call at a time"
    assert set(Operation.objects.values_list("status", flat=True)) == {S.SUBMITTED}
    assert not CallLease.objects.exists()


def test_what_is_due_to_be_looked_at_takes_turns_with_what_is_due_to_be_sent(committed_db: Database) -> None:
    told = {"status": "submitted", "task_id": "task-1"}
    with serve(answering(told)) as server:
        seller = make_seller(url=f"{server.url}/mcp", slots=1)
        for _ in range(6):
            ask("get_products", seller=seller, arguments={"brief": "x"})
        stand(S.SUBMITTED, seller=seller, next_poll_at=clock.now())
        sweep()

    tools = [request.json["params"]["name"] for request in calls(server)]
    assert tools.index("get_task_status") <= 2
