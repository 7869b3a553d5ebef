"""A seller that does not answer is left alone, probed by one call, and called again once it is back."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tasks_app.adcp.types import Seen, WireError
from tasks_app.notifications.models import Notification
from tasks_app.notifications.selectors import notifications_of
from tasks_app.operations.breaker import breaker_record, is_failure
from tasks_app.operations.dispatch import claim_polls, claim_sends
from tasks_app.operations.lease import CallLease
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.sellers.selectors import seller_breaker
from tests.adcp.raw_server import serve
from tests.clocks import Clock
from tests.database import Database
from tests.factories import make_seller, make_user
from tests.operations.making import answer, ask, crashed, failed, fresh, garbled, not_sent, silent, stand
from tests.operations.sweeping import answering, sweep

ROOT = Path(__file__).resolve().parents[2]
DONE = {"status": "completed", "media_buy_id": "mb-1", "packages": []}


@pytest.fixture
def time(still: Clock, settings: Any) -> Clock:
    settings.POLL_SCALE = 1.0
    return still


def record(seller: Seller, seen: Seen, times: int = 1) -> str:
    for _ in range(times):
        breaker_record(seller_id=seller.pk, seen=seen)
    return seller_breaker(seller).state


@pytest.mark.parametrize(
    ("seen", "failure"),
    [
        (silent(), True),
        (garbled(), True),
        (not_sent(), True),
        (failed("SERVICE_UNAVAILABLE", "transient"), True),
        (Seen(kind="garbled", error=WireError(code="RATE_LIMITED")), False),
        (failed("RATE_LIMITED", "transient"), False),
        (failed("PRODUCT_UNAVAILABLE"), False),
        (crashed(), False),
        (answer("auth-required"), False),
        (answer("completed"), False),
    ],
)
def test_what_counts_as_a_failure_is_the_server_not_its_word(seen: Seen, failure: bool) -> None:
    assert is_failure(seen) == failure


@pytest.mark.django_db
class TestStates:
    def test_five_failures_in_a_row_open_it_and_a_success_in_between_does_not(self, time: Clock) -> None:
        seller = make_seller()

        assert record(seller, silent(), 4) == "closed"
        assert record(seller, answer("completed")) == "closed"
        assert record(seller, silent(), 4) == "closed"
        assert record(seller, silent()) == "open"

        told = seller_breaker(seller)
        assert (told.failures, told.reason, told.since) == (5, "no answer in time", time.now)
        assert told.next_probe_at == time.now + timedelta(seconds=30)

    def test_both_numbers_are_the_sellers_own_where_it_has_them(self, time: Clock) -> None:
        seller = make_seller(timing={"breaker_failures": 2, "breaker_reset_s": 90.0})

        assert record(seller, silent(), 2) == "open"
        assert seller_breaker(seller).next_probe_at == time.now + timedelta(seconds=90)

    def test_left_alone_then_one_probe_at_a_time(self, time: Clock) -> None:
        seller = make_seller(slots=50)
        for _ in range(3):
            ask(seller=seller)
        stand(S.SUBMITTED, seller=seller, next_poll_at=time.now)
        record(seller, silent(), 5)

        assert claim_sends(limit=10) == []
        assert claim_polls(limit=10) == []
        time.now += timedelta(seconds=30)
        assert len(claim_sends(limit=10)) == 1
        assert seller_breaker(seller).state == "half-open"
        assert claim_sends(limit=10) == claim_polls(limit=10) == [], "one probe at a time"

    def test_a_failed_probe_leaves_it_alone_again_and_a_good_one_lets_all_out(self, time: Clock) -> None:
        seller = make_seller(slots=50)
        for _ in range(3):
            ask(seller=seller)
        record(seller, silent(), 5)
        opened = time.now
        time.now += timedelta(seconds=30)
        claim_sends(limit=10)

        assert record(seller, silent()) == "open"
        assert seller_breaker(seller).since == opened, "it is still the same trouble"
        assert claim_sends(limit=10) == []
        time.now += timedelta(seconds=30)
        assert len(claim_sends(limit=10)) == 1
        assert record(seller, answer("completed")) == "closed"
        assert len(claim_sends(limit=10)) == 2

    def test_a_probe_nobody_hears_of_is_made_again(self, time: Clock, settings: Any) -> None:
        seller = make_seller()
        ask(seller=seller)
        ask(seller=seller)
        record(seller, silent(), 5)
        time.now += timedelta(seconds=30)
        assert len(claim_sends(limit=10)) == 1

        time.now += timedelta(seconds=settings.OPERATION_LEASE_S + 1)
        assert len(claim_sends(limit=10)) == 1

    def test_other_sellers_are_called_meanwhile(self, time: Clock) -> None:
        dead, well = make_seller("Dead"), make_seller("Well")
        ask(seller=dead)
        operation = ask(seller=well)
        record(dead, silent(), 5)

        assert [call.operation_id for call in claim_sends(limit=10)] == [operation.pk]

    def test_ad_ops_hear_of_it_once_and_that_it_is_back(self, time: Clock) -> None:
        seller = make_seller()
        ask(seller=seller)
        record(seller, silent(), 5)
        for _ in range(2):
            time.now += timedelta(seconds=30)
            claim_sends(limit=1)
            CallLease.objects.all().delete()
            record(seller, silent())
        time.now += timedelta(seconds=30)
        claim_sends(limit=1)
        record(seller, answer("completed"))

        told = [(note.kind, note.subject_id) for note in Notification.objects.order_by("id")]
        assert told == [("seller_unreachable", seller.pk), ("seller_back", seller.pk)]
        assert notifications_of(make_user("Ad Ops")).count() == 2
        assert notifications_of(make_user("Finance")).count() == 0

    def test_the_sweep_counts_what_comes_of_its_calls(self, time: Clock) -> None:
        with serve(answering(DONE)) as server:
            seller = make_seller(url="http://127.0.0.1:9/mcp", slots=5, timing={"breaker_failures": 3})
            operations = [ask(seller=seller) for _ in range(3)]
            sweep()
            assert seller_breaker(seller).state == "open"
            Seller.objects.filter(pk=seller.pk).update(url=f"{server.url}/mcp")
            time.now += timedelta(seconds=31)
            sweep()

        assert seller_breaker(seller).state == "closed"
        assert {fresh(operation).status for operation in operations} == {S.COMPLETED}


def test_the_state_is_shared_by_processes(committed_db: Database) -> None:
    seller = make_seller()
    ask(seller=seller)
    for _ in range(5):
        breaker_record(seller_id=seller.pk, seen=silent())

    command = [sys.executable, "-m", "tests.operations.claimer", "claim"]
    claimed = subprocess.run(command, cwd=ROOT, input="\n", text=True, capture_output=True, check=True)

    assert claimed.stdout.split() == ["ready", "[]"]
