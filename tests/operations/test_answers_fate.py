"""What becomes of an answer that left: lost, refused for now, worked on; it is never sent twice."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pauses import request_let_go
from tasks_app.people.models import User
from tests.adcp.raw_server import RawServer, serve
from tests.operations.making import answer as told
from tests.operations.making import fresh, see
from tests.operations.pausing import (
    BOUGHT,
    answering,
    done,
    invocation,
    messages,
    paused,
    paused_purchase,
    release,
    say,
)
from tests.operations.sweeping import sweep

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


def test_an_answer_whose_fate_is_unknown_is_a_persons_and_never_sent_again(ops: User) -> None:
    with serve(answering(paused(), lambda _: b"", done())) as server:
        operation = paused_purchase(server)
        say(operation, ops)
        release()
        sweep()
        later = clock.now() + timedelta(hours=1)
        with clock.injected(lambda: later):
            sweep()
        assert len(messages(server)) == 2
    assert fresh(operation).status == S.TIMED_OUT
    question = Approval.objects.get(kind="overdue", status="open")
    assert "answer_left_at" in question.evidence
    assert "not known" in question.evidence["last_message"]


def test_an_answer_whose_fate_is_unknown_is_looked_at_where_the_seller_named_a_task(ops: User) -> None:
    with serve(answering(paused(), lambda _: b"", done({**BOUGHT, "task_id": "t-1"}))) as server:
        operation = paused_purchase(server)
        Operation.objects.filter(pk=operation.pk).update(task_id="t-1", next_poll_at=None)
        say(operation, ops)
        release()
        sweep()
        sweep()
        asked = [invocation(message).get("task_id") for message in messages(server)]
    assert asked == [None, None, "t-1"]


def test_a_worker_that_dies_with_the_answer_sends_it_no_second_time(quill: RawServer, ops: User) -> None:
    operation = paused_purchase(quill)
    say(operation, ops)
    release()
    assert len(claim_sends(limit=5, out=Counter())) == 1  # and the worker is gone

    later = clock.now() + timedelta(hours=1)
    with clock.injected(lambda: later):
        assert claim_sends(limit=5, out=Counter()) == []
        assert time_out_due(limit=5) == 1
    assert "answer_left_at" in Approval.objects.get(kind="overdue").evidence


def test_an_answer_that_surely_did_not_leave_is_sent_again(ops: User) -> None:
    with serve(answering(paused(), done())) as server:
        operation = paused_purchase(server)
        say(operation, ops)
        release()
        let_go = fresh(operation).deadline_at
        url = operation.seller.url
        type(operation.seller).objects.update(url="http://127.0.0.1:9")
        sweep()
        type(operation.seller).objects.update(url=url)
        deadline = fresh(operation).deadline_at
        later = clock.now() + timedelta(minutes=5)
        with clock.injected(lambda: later):
            sweep()
        assert len(messages(server)) == 2
    assert deadline == let_go, "its own deadline again"
    assert fresh(operation).status == S.COMPLETED


def test_an_answer_that_is_refused_for_now_leaves_again_when_its_seller_asks(ops: User) -> None:
    busy = {"code": "RATE_LIMITED", "message": "Later", "recovery": "transient", "retry_after": 3000}
    with serve(answering(paused(), done({"status": "failed", "adcp_error": busy}), done())) as server:
        operation = paused_purchase(server)
        say(operation, ops)
        release()
        before = clock.now()
        sweep()
        due = fresh(operation).send_at
        assert due is not None
        assert due > before + timedelta(minutes=45)
        sweep()
        assert len(messages(server)) == 2
        with clock.injected(lambda: due + timedelta(seconds=1)):
            sweep()
        assert len(messages(server)) == 3
    assert fresh(operation).status == S.COMPLETED


def test_an_answer_that_its_seller_works_on_is_sent_no_second_time_and_is_what_counts(ops: User) -> None:
    """It came twice on its way, say by a gateway: what it changes is being done under its own key."""
    busy = {"code": "IDEMPOTENCY_IN_FLIGHT", "message": "Working", "recovery": "transient"}
    with serve(answering(paused(), done({"status": "failed", "adcp_error": busy}))) as server:
        operation = paused_purchase(server)
        say(operation, ops, packages=[{"product_id": "p", "budget": 15_000}])
        release()
        sweep()
        assert len(messages(server)) == 2
    later = clock.now() + timedelta(hours=1)
    with clock.injected(lambda: later):
        assert claim_sends(limit=5, out=Counter()) == []
    see(operation, told("working", task_id=fresh(operation).task_id or None), "poll")
    assert request_let_go(fresh(operation), left=True)["packages"] == [{"product_id": "p", "budget": 15_000}]
    current = operation.continuations.get()
    assert (current.stale_at, current.note) == (None, "the seller works on it")
    assert claim_sends(limit=5, out=Counter()) == []


def test_a_seller_that_works_on_an_answer_is_not_asked_sooner_than_it_says(ops: User) -> None:
    busy = {"code": "IDEMPOTENCY_IN_FLIGHT", "message": "Working", "recovery": "transient", "retry_after": 90}
    with serve(answering(paused(), done({"status": "failed", "adcp_error": busy}))) as server:
        operation = paused_purchase(server)
        say(operation, ops, packages=[{"product_id": "p", "budget": 15_000}])
        release()
        Operation.objects.filter(pk=operation.pk).update(task_id="t-1", next_poll_at=None)
        before = clock.now()
        sweep()
    due = fresh(operation).next_poll_at
    assert due is not None
    assert due >= before + timedelta(seconds=90)
