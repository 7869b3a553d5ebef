"""Who makes a call: one worker at a time, within the seller's slots, and another when that one is killed."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from tasks_app import clock, ids
from tasks_app.approvals.models import Approval
from tasks_app.lifecycle.transitions import create_many, transition_many
from tasks_app.operations.dispatch import (
    claim_one,
    claim_polls,
    claim_sends,
)
from tasks_app.operations.lease import CallLease
from tasks_app.operations.leases import Lease, leases_forget, leases_release, leases_renew
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tests.adcp.raw_server import Request, serve
from tests.database import Database
from tests.ending import ending, line_of
from tests.factories import make_seller
from tests.operations.making import TASK, answer, ask, fresh, leased_until, see, stand
from tests.operations.sweeping import answering, calls, sweep
from tests.support import PATIENCE_S, joined, rows_read, until

ROOT = Path(__file__).resolve().parents[2]
DONE = {"status": "completed", "media_buy_id": "mb-1", "packages": []}


@contextmanager
def claimer(what: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is ready and waits for a line."""
    command = [sys.executable, "-m", "tests.operations.claimer", what]
    pipe = subprocess.PIPE
    with ending(subprocess.Popen(command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe)) as process:
        yield process


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def line(process: subprocess.Popen[str]) -> str:
    return line_of(process.stdout)


def crowd(seller: Seller, count: int) -> None:
    """So many submitted operations, each with a task of its own, in a few statements."""
    one = ask(seller=seller)
    rows = [
        Operation(
            id=ids.new_id(),
            reference=f"C-{number}",
            purpose=f"crowd:{number}",
            task_type=one.task_type,
            seller=seller,
            team=one.team,
            requested_by="system",
            request_text=one.request_text,
            request=one.request,
            idempotency_key=f"crowd-{number}",
            task_id=f"crowd-{number}",
        )
        for number in range(count)
    ]
    create_many(rows, actor="system", reason="Many at once")
    crowd = Operation.objects.filter(purpose__startswith="crowd:")
    transition_many(crowd, S.CALLING_ADCP, actor="system", changes={"sent_at": clock.now()})
    transition_many(crowd, S.SUBMITTED, actor="system")


@pytest.fixture
def long_leases(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Nobody's lease ends while the test goes on, however slow the machine."""
    monkeypatch.setenv("FLIGHTDECK_OPERATION_LEASE_S", "3600")
    settings.OPERATION_LEASE_S = 3600


def test_two_processes_share_what_is_due_and_take_nothing_twice(
    committed_db: Database, long_leases: None
) -> None:
    seller = make_seller(slots=100)
    due = {str(ask(seller=seller).pk) for _ in range(60)}

    with claimer("claim") as one, claimer("claim") as two:
        assert [line(one), line(two)] == ["ready\n", "ready\n"]
        begin(one)
        begin(two)
        taken = json.loads(line(one)) + json.loads(line(two))

    assert sorted(taken) == sorted(due)
    assert set(Operation.objects.values_list("status", "attempts")) == {(S.CALLING_ADCP, 1)}


def test_slots_are_those_of_all_processes_and_a_killed_ones_return(
    committed_db: Database, long_leases: None
) -> None:
    seller = make_seller(slots=3)
    for _ in range(20):
        ask(seller=seller)

    with claimer("claim") as one, claimer("claim") as two:
        assert [line(one), line(two)] == ["ready\n", "ready\n"]
        begin(one)
        begin(two)
        taken = json.loads(line(one)) + json.loads(line(two))

    assert len(taken) == len(set(taken)) == 3
    assert claim_sends(limit=10) == []
    # Both processes are gone, and nobody heard of their calls: the leases end.
    ends = max(CallLease.objects.values_list("until", flat=True))
    with clock.injected(lambda: ends + timedelta(seconds=1)):
        assert len(claim_sends(limit=10)) == 3


def test_what_somebody_holds_is_passed_over_not_waited_for(committed_db: Database) -> None:
    held, free = ask(), ask(seller=make_seller("Other"))
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Operation.objects.select_for_update(no_key=True).get(pk=held.pk)
            locked.set()
            done.wait(PATIENCE_S)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert locked.wait(PATIENCE_S)
    taken = claim_sends(limit=10, out=Counter())
    done.set()
    joined(holder)

    assert [call.operation_id for call in taken] == [free.pk]


def test_a_call_whose_seller_somebody_holds_too_long_is_left_to_a_sweep(committed_db: Database) -> None:
    seller = make_seller()
    with psycopg.connect(committed_db.urls.app) as other, transaction.atomic():
        other.execute("select from tasks_app_seller where id = %s for no key update", [seller.pk])
        with connection.cursor() as cursor:
            cursor.execute("set local lock_timeout = '200ms'")
        asked = ask(seller=seller)  # who asks makes it and claims it in one commit
        assert claim_one(operation_id=asked.pk) is None
    assert fresh(asked).status == S.REQUESTED
    assert [call.operation_id for call in claim_sends(limit=10)] == [asked.pk]


def test_a_worker_killed_in_the_call_is_followed_by_another_with_the_same_bytes(
    committed_db: Database, long_leases: None
) -> None:
    release = threading.Event()

    def hang(_request: Request) -> dict[str, Any]:
        release.wait(PATIENCE_S)
        return DONE

    with serve(answering(hang, DONE)) as server:
        operation = ask(seller=make_seller(url=f"{server.url}/mcp"))
        with claimer("sweep") as worker:
            line(worker)
            begin(worker)
            until(lambda: calls(server), "the call is out")
            assert sweep().calls == 0, "somebody has it"
            worker.kill()
            worker.wait()
        left, ends = fresh(operation), cast(datetime, leased_until(operation))
        release.set()
        with clock.injected(lambda: ends + timedelta(seconds=1)):
            assert sweep().sent == 1

    first, second = calls(server)
    assert (left.status, left.attempts) == (S.CALLING_ADCP, 1)
    assert first.body == second.body
    assert (fresh(operation).status, fresh(operation).attempts) == (S.COMPLETED, 2)


def test_no_seller_has_more_calls_out_than_slots(committed_db: Database) -> None:
    """Each call is answered only once another is out beside it: one slot would hang, three would show."""
    beside, out, most = threading.Barrier(2), [0], [0]
    counting = threading.Lock()

    def count(_request: Request) -> dict[str, Any]:
        with counting:
            out[0] += 1
            most[0] = max(most[0], out[0])
        beside.wait(PATIENCE_S)
        with counting:
            out[0] -= 1
        return {**DONE, "media_buy_id": f"mb-{uuid.uuid4()}"}

    with serve(answering(count)) as server:
        seller = make_seller(url=f"{server.url}/mcp", slots=2)
        for _ in range(6):
            ask(seller=seller)
        swept = sweep()

    assert (swept.sent, most[0], beside.broken) == (6, 2, False)
    assert set(Operation.objects.values_list("status", flat=True)) == {S.COMPLETED}


def plans(column: str) -> list[tuple[int, int]]:
    """Of each statement prepared by this connection that reads that column and leases: plans kept, made."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select generic_plans, custom_plans from pg_prepared_statements"
            " where statement like %s and statement like '%%insert into tasks_app_calllease%%'",
            [f"%t.{column}%"],
        )
        found: list[tuple[int, int]] = cursor.fetchall()
    return found


def to_send(seller: Seller) -> object:
    return ask("get_products", seller=seller)


def to_look_at(seller: Seller) -> object:
    return stand(S.SUBMITTED, seller=seller, task_id=uuid.uuid4().hex, next_poll_at=clock.now())


# Some are taken; the seller has no slot.
CLAIMED = pytest.mark.parametrize(
    ("due", "claim", "slots", "taken"),
    [
        (to_send, claim_sends, 2, 2),
        (to_look_at, claim_polls, 2, 2),
        (to_send, claim_sends, 0, 0),
        (to_look_at, claim_polls, 0, 0),
    ],
)


@pytest.mark.django_db
class TestClaims:
    """Without processes."""

    def test_slots_count_what_is_out_already_and_each_seller_has_its_own(self) -> None:
        one, two = make_seller("One", slots=2), make_seller("Two", slots=1)
        for seller in (one, one, one, two, two):
            ask(seller=seller)

        first = claim_sends(limit=10, out=Counter({one.pk: 1}))
        assert Counter(call.seller_id for call in first) == {one.pk: 1, two.pk: 1}
        assert claim_sends(limit=10, out=Counter({one.pk: 2, two.pk: 1})) == []

    def test_as_nothing_else_is_said_a_seller_has_one_slot(self) -> None:
        seller = make_seller()
        for _ in range(2):
            ask(seller=seller)
        assert len(claim_sends(limit=10)) == 1

    def test_a_seller_that_no_longer_declares_idempotency_is_sent_no_purchase(self) -> None:
        new, tried, read = ask(), ask(), ask("get_products")
        claim_one(operation_id=tried.pk)
        CallLease.objects.all().delete()
        Seller.objects.update(idempotency_ttl_s=None, slots=10)

        assert [call.operation_id for call in claim_sends(limit=5)] == [read.pk]
        assert (fresh(new).status, fresh(new).error["code"]) == (S.FAILED, "NO_IDEMPOTENCY")
        assert fresh(tried).status == S.CALLING_ADCP

    @pytest.mark.parametrize("written_again", [0, 20])
    def test_a_look_reads_what_there_is_room_for_however_much_is_due(self, written_again: int) -> None:
        """By PostgreSQL's own count, also once the server keeps its plan; nobody told the planner how much
        became due at once. In a table that was written much it expects a few rows, not one, and would sort
        them all."""
        seller = make_seller(slots=5)
        crowd(seller, 1_000)
        for _ in range(written_again):
            Operation.objects.update(next_poll_at=None)
        connection.cursor().execute("analyze tasks_app_operation")
        Operation.objects.update(next_poll_at=clock.now())
        for claims in range(1, 10):
            Seller.objects.update(slots=5 * claims)
            before = rows_read("tasks_app_operation")
            assert len(claim_polls(limit=5)) == 5
            assert rows_read("tasks_app_operation") - before < 100
        assert [made for made in plans("next_poll_at") if made[0]], "it was kept"

    def test_each_claim_of_sends_is_planned_for_its_moment(self) -> None:
        """A plan that the server keeps for all of them takes a third of everything for due: with a million
        settled operations it read all that a seller ever had, which is found on no small table."""
        seller = make_seller(slots=50)
        for _ in range(9):
            asked = ask(seller=seller)
            assert [call.operation_id for call in claim_sends(limit=5)] == [asked.pk]
        made = plans("turn_at")
        assert made
        assert all(kept == 0 and anew > 0 for kept, anew in made)

    @CLAIMED
    def test_what_the_transaction_reads_after_a_claim_is_planned_as_ever(
        self, due: Callable[[Seller], object], claim: Callable[..., list[Any]], slots: int, taken: int
    ) -> None:
        seller = make_seller(slots=slots)
        for _ in range(3):
            due(seller)
        with transaction.atomic():
            assert len(claim(limit=5)) == taken
            with connection.cursor() as cursor:
                for setting, default in (
                    ("enable_bitmapscan", "on"),
                    ("enable_sort", "on"),
                    ("plan_cache_mode", "auto"),
                ):
                    cursor.execute(f"show {setting}")
                    assert cursor.fetchone() == (default,)

    def test_one_seller_with_much_to_do_keeps_no_other_waiting(self) -> None:
        busy, other = make_seller("Busy", slots=1), make_seller("Other", slots=1)
        for _ in range(12):
            ask(seller=busy)
        last = ask(seller=other)

        claimed = [call.operation_id for call in claim_sends(limit=2)]
        assert last.pk in claimed
        assert len(claimed) == 2

    def test_polls_count_too(self) -> None:
        stand(S.SUBMITTED, next_poll_at=clock.now())

        seller = Operation.objects.get().seller
        assert claim_polls(limit=5, out=Counter({seller.pk: seller.slots})) == []
        assert len(claim_polls(limit=5, out=Counter())) == 1

    def test_a_lease_keeps_others_away_until_it_ends(self, settings: Any) -> None:
        operation = ask()
        now = clock.now()
        lease = timedelta(seconds=settings.OPERATION_LEASE_S)
        with clock.injected(lambda: now):
            (call,) = claim_sends(limit=5, out=Counter())
            assert claim_one(operation_id=operation.pk) is None
        with clock.injected(lambda: now + lease / 2):
            leases_renew([call.lease])
        with clock.injected(lambda: now + lease + timedelta(seconds=1)):
            assert claim_sends(limit=5, out=Counter()) == [], "it was renewed"
        with clock.injected(lambda: now + 2 * lease):
            again = claim_sends(limit=5, out=Counter())
        assert [call.operation_id for call in again] == [operation.pk]
        assert fresh(operation).attempts == 2

    def test_a_claim_of_looks_writes_leases_alone_and_a_look_is_counted_once_it_was_made(self) -> None:
        operation = stand(S.SUBMITTED, next_poll_at=clock.now())

        with CaptureQueriesContext(connection) as asked:
            assert len(claim_polls(limit=5)) == 1

        written = [one["sql"] for one in asked if one["sql"].lstrip().lower().startswith("update")]
        assert written == []
        assert leased_until(operation) is not None
        assert fresh(operation).polls == 0
        see(operation, answer("submitted", task_id=TASK), "poll")
        assert (fresh(operation).polls, leased_until(operation)) == (1, None)

    def test_news_beside_a_call_leaves_its_slot_taken_until_it_ends(self) -> None:
        operation = ask()
        claim_one(operation_id=operation.pk)

        see(operation, answer("working", task_id=TASK), "webhook")
        assert leased_until(operation) is not None, "the call is still out"
        see(operation, answer("submitted", task_id=TASK))
        assert leased_until(operation) is None

    def test_what_killed_workers_left_is_removed_after_a_while(self) -> None:
        gone, out = ask(), ask(seller=make_seller("Other"))
        for operation in (gone, out):
            claim_one(operation_id=operation.pk)
        CallLease.objects.filter(pk=gone.pk).update(until=clock.now() - timedelta(hours=2))

        assert leases_forget() == 1
        assert [lease.pk for lease in CallLease.objects.all()] == [out.pk]

    def test_handed_back_is_due_at_once_and_an_answered_one_is_not(self) -> None:
        operation, answered = ask(), stand(S.SUBMITTED)
        call = claim_one(operation_id=operation.pk)
        assert call is not None

        leases_release([call.lease, Lease(answered.pk, ids.new_id())])

        assert [call.operation_id for call in claim_sends(limit=5, out=Counter())] == [operation.pk]

    def test_what_is_not_due_or_has_ended_is_left(self) -> None:
        later = clock.now() + timedelta(minutes=1)
        seller = make_seller(slots=50)
        Operation.objects.filter(pk=ask(seller=seller).pk).update(send_at=later)
        for status in (S.COMPLETED, S.FAILED, S.TIMED_OUT, S.SUBMITTED):
            stand(status, task_id=f"task-{status}")

        assert claim_sends(limit=50, out=Counter()) == []
        with clock.injected(lambda: later):
            assert len(claim_sends(limit=50, out=Counter())) == 1

    def test_a_seller_switched_off_is_not_sent_to(self) -> None:
        fresh_one, tried = ask(), ask()
        claim_one(operation_id=tried.pk)
        seller = fresh_one.seller
        seller.active = False
        seller.save()
        CallLease.objects.all().delete()

        assert claim_sends(limit=5, out=Counter()) == []
        assert (fresh(fresh_one).status, fresh(fresh_one).error["code"]) == (S.FAILED, "SELLER_OFF")
        assert fresh(tried).status == S.CALLING_ADCP, "an earlier attempt may have bought"
        assert Approval.objects.get(kind="risk_gate").evidence["operation"] == str(tried.pk)
