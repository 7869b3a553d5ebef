"""What the explanation and the page of an operation say may happen, against trying it: its deadline, a
worker, and those who steer it, on every ground it may stand on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import transaction

from orders.services import deal_book
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.desk.explain import Explanation, explain
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.presenters import operation_next
from tasks_app.operations.resend import may_have_acted
from tasks_app.operations.steering import SteeringRefusedError, operation_poll, operation_stop
from tasks_app.people.roles import ROLES, STEER_OPERATION
from tests.factories import approve_deal, make_deal, make_user
from tests.operations.making import fresh, leased_until, stand
from tests.orders.asking import asked

pytestmark = pytest.mark.django_db


def _unsent() -> Operation:
    """A purchase that is to be sent next."""
    deal = make_deal()
    approve_deal(deal)
    return deal_book(deal=deal)


def _stopped() -> Operation:
    operation = _unsent()
    kill_switch_set(on=True, reason="A drill", actor="system")
    return operation


def _at_gate(what: str) -> Operation:
    asked(what, make_user("Administrator"))
    return Operation.objects.get(task_type="create_media_buy")


def _gate_then_stopped() -> Operation:
    operation = _at_gate("a purchase at a gate")
    kill_switch_set(on=True, reason="A drill", actor="system")
    return operation


_GROUNDS: dict[str, Callable[[], Operation]] = {
    "to be sent": _unsent,
    "to be sent, stopped": _stopped,
    "at a gate, stopped before it was sent": lambda: _at_gate("a purchase that is stopped"),
    "at a gate after one try": lambda: _at_gate("a purchase at a gate"),
    "at a gate after one try, stopped": _gate_then_stopped,
    "its call is lost": lambda: stand(S.CALLING_ADCP, send_at=clock.now()),
    "it is looked up": lambda: stand(S.CALLING_ADCP, send_at=None, next_poll_at=clock.now()),
    "its call is out": lambda: stand(S.CALLING_ADCP, out_until=clock.now() + timedelta(hours=1)),
    **{
        status: lambda s=status: stand(s)  # type: ignore[misc]
        for status in (S.SUBMITTED, S.WORKING, S.INPUT_REQUIRED, S.AUTH_REQUIRED, S.TIMED_OUT, S.COMPLETED)
    },
}


def _tried(act: Callable[[], object]) -> bool:
    """Whether it is not refused; everything is as before afterwards."""
    with transaction.atomic():
        try:
            act()
        except SteeringRefusedError:
            return False
        finally:
            transaction.set_rollback(True)
    return True


def _told(operation: Operation) -> Explanation:
    return explain(operation.reference, make_user("Administrator"))


@pytest.mark.parametrize("ground", _GROUNDS)
def test_what_those_who_steer_it_are_said_to_do_they_can_and_nothing_else(ground: str) -> None:
    operation = fresh(_GROUNDS[ground]())
    user = make_user(next(role for role, rights in ROLES.items() if STEER_OPERATION in rights))
    said = " ".join(one.does for one in _told(operation).who)
    polls = _tried(lambda: operation_poll(operation_id=operation.pk, user=user))
    stops = _tried(lambda: operation_stop(operation_id=operation.pk, user=user, reason="No answer"))
    if operation.status not in (S.INPUT_REQUIRED, S.AUTH_REQUIRED):  # there, what it waits for is named alone
        assert ("ask the seller now" in said, "stop waiting" in said) == (polls, stops)


@pytest.mark.parametrize("ground", _GROUNDS)
def test_what_is_said_of_its_deadline_happens(ground: str) -> None:
    operation = fresh(_GROUNDS[ground]())
    told = _told(operation).otherwise
    Operation.objects.filter(pk=operation.pk).update(deadline_at=clock.now())
    time_out_due(limit=10)
    after = fresh(operation)
    assert ("it fails" in told) == (after.status == "failed"), told
    looked_up = after.next_poll_at is not None and operation.next_poll_at is None
    assert ("the seller is asked whether it knows it" in told) == (
        operation.status == S.CALLING_ADCP and (looked_up or "out" in ground)
    ), told
    assert ("it is overdue" in told) == (
        after.status == S.TIMED_OUT and operation.status not in (S.TIMED_OUT, S.CALLING_ADCP)
    ), told


@pytest.mark.parametrize("ground", _GROUNDS)
def test_it_is_said_to_be_sent_by_itself_where_it_is(ground: str) -> None:
    operation = fresh(_GROUNDS[ground]())
    does = " ".join(one.does for one in _told(operation).who if one.who == "A worker")
    page = operation_next(operation)
    Operation.objects.filter(pk=operation.pk, send_at__isnull=False).update(send_at=clock.now())
    before = leased_until(operation)
    sent = bool(claim_sends(limit=10))
    assert ("sends" in does) == (sent or before is not None), does
    assert (page.what == "Waits for a decision") <= (not sent)
    assert (page.what in ("The call is out", "Is sent at once")) <= (sent or before is not None), page
    assert page.stopped <= (not sent)


@pytest.mark.parametrize("ground", ["at a gate after one try", "at a gate after one try, stopped"])
def test_what_may_have_reached_its_seller_is_said_so(ground: str) -> None:
    operation = fresh(_GROUNDS[ground]())
    told = _told(operation).waiting_for
    assert (may_have_acted(operation), "was not reached" in told) == (False, True), told
    Operation.objects.filter(pk=operation.pk).update(attempts=2)  # one of them without a word
    operation = fresh(operation)
    told = _told(operation).waiting_for
    assert (may_have_acted(operation), "was not reached" in told) == (True, False), told


@pytest.mark.parametrize("ground", [one for one in _GROUNDS if one.startswith("at a gate")])
def test_the_question_at_its_gate_is_named(ground: str) -> None:
    operation = fresh(_GROUNDS[ground]())
    question = Approval.objects.get(status="open")
    told = _told(operation)
    assert any(question.reference in one.does for one in told.who), told.who
    assert operation_next(operation).glyph == "person"
