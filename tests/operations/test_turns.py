"""A seller's slots are fair between jobs, and held only while a call is out."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from tasks_app import clock
from tasks_app.operations.claims import claim_due
from tasks_app.operations.lease import CallLease
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.turns import AGED, sharing, turns_prioritise
from tests.adcp.raw_server import Request, serve
from tests.database import Database
from tests.factories import make_seller
from tests.operations.making import ask, stand
from tests.operations.sweeping import answering, calls, sweep

pytestmark = pytest.mark.deep


@pytest.mark.django_db
class TestTurns:
    """The order in which operations are due, without calls."""

    def turns(self) -> list[str]:
        return list(Operation.objects.order_by("turn_at", "pk").values_list("request__po_number", flat=True))

    def asked(self, name: str, share: uuid.UUID | None = None, priority: int = 100) -> None:
        arguments = {"po_number": name}
        if share is None:
            ask(arguments=arguments)
            return
        with sharing(share, priority=priority):
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

    def claimed(self, limit: int = 100) -> list[str]:
        with transaction.atomic():
            due = claim_due(column="send_at", statuses=[S.REQUESTED], due_by=clock.now(), limit=limit)
        named = {one.pk: one.request["po_number"] for one in Operation.objects.all()}
        return [named[one.id] for one in due.due]

    def test_lower_priority_goes_first_and_equals_take_turns(self) -> None:
        now, many, few, urgent = clock.now(), uuid.uuid4(), uuid.uuid4(), uuid.uuid4()
        make_seller(slots=100)
        with clock.injected(lambda: now):
            for number in range(2):
                self.asked(f"many-{number}", many)
            self.asked("few", few)
            for number in range(3):
                self.asked(f"urgent-{number}", urgent, priority=5)
        later = now + timedelta(seconds=1)
        with clock.injected(lambda: later):
            assert self.claimed() == ["urgent-0", "urgent-1", "urgent-2", "many-0", "few", "many-1"]

    def test_what_has_waited_too_long_is_not_kept_waiting_by_any_priority(self) -> None:
        then, aged, urgent = clock.now(), uuid.uuid4(), uuid.uuid4()
        make_seller(slots=100)
        with clock.injected(lambda: then):
            self.asked("aged", aged, priority=1000)
        with clock.injected(lambda: then + AGED):
            for number in range(2):
                self.asked(f"urgent-{number}", urgent, priority=0)
            assert self.claimed() == ["aged", "urgent-0", "urgent-1"]

    def behind_a_backlog(self, *, slots: int, sellers: int = 1) -> None:
        """Six aged operations and three urgent ones, at each of so many sellers."""
        then = clock.now() - AGED - timedelta(minutes=1)
        for seller in [make_seller(f"Seller {number}", slots=slots) for number in range(sellers)]:
            for number in range(6):
                moment = then + timedelta(seconds=number)
                with clock.injected(lambda moment=moment: moment):
                    ask(seller=seller, arguments={"po_number": f"aged-{number}"})
            for number in range(3):
                with sharing(uuid.uuid4(), priority=0):
                    ask(seller=seller, arguments={"po_number": f"urgent-{number}"})

    def called(self, *, limit: int, rounds: int) -> list[str]:
        """What is claimed in so many rounds; the calls of each have ended before the next."""
        names: list[str] = []
        for _ in range(rounds):
            names += self.claimed(limit)
            Operation.objects.filter(pk__in=CallLease.objects.values("id")).update(send_at=None)
            CallLease.objects.all().delete()
        return names

    MIXED = ("aged-0", "urgent-0", "aged-1", "urgent-1", "aged-2", "urgent-2", "aged-3", "aged-4", "aged-5")

    @pytest.mark.parametrize("slots", [1, 2, 3, 4, 9])
    def test_a_backlog_however_old_has_every_second_slot_and_no_more(self, slots: int) -> None:
        self.behind_a_backlog(slots=slots)
        names = self.called(limit=100, rounds=9)
        assert names[:6] == list(self.MIXED[:6])
        assert sorted(names[6:]) == list(self.MIXED[6:])

    @pytest.mark.parametrize("slots", [1, 2, 9])
    def test_a_process_with_room_for_one_call_takes_urgent_and_aged_in_turns_too(self, slots: int) -> None:
        self.behind_a_backlog(slots=slots)
        assert self.called(limit=1, rounds=9) == list(self.MIXED)

    @pytest.mark.parametrize("limit", [1, 2, 3])
    def test_the_backlogs_of_several_sellers_do_not_hold_back_what_is_urgent(self, limit: int) -> None:
        self.behind_a_backlog(slots=2, sellers=3)
        names = self.called(limit=limit, rounds=27)
        assert len(names) == 27
        kinds = [name.partition("-")[0] for name in names]
        assert kinds[:18].count("urgent") >= 8
        assert kinds[:18].count("aged") >= 8

    def test_another_priority_of_a_job_reaches_what_it_has_still_to_send(self) -> None:
        one, other = uuid.uuid4(), uuid.uuid4()
        make_seller(slots=100)
        self.asked("one", one)
        self.asked("other", other)
        assert turns_prioritise(other, 1) == 1
        assert self.claimed() == ["other", "one"]

    def test_each_seller_has_turns_of_its_own(self) -> None:
        now, share = clock.now(), uuid.uuid4()
        with clock.injected(lambda: now), sharing(share):
            here, there = ask(seller=make_seller("Here")), ask(seller=make_seller("There"))
        assert here.turn_at == there.turn_at == now
        assert here.share == there.share == share


def test_a_slot_is_held_while_the_call_is_out_and_not_while_the_seller_works(committed_db: Database) -> None:
    out: list[int] = []

    def answer(request: Request) -> dict[str, Any]:
        out.append(CallLease.objects.count())
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
