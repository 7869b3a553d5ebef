"""Whatever else is seen of a task while our answer waits for its turn: the answer leaves, or people are told
that it does not; what was asked first is never sent in its place."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.adcp.types import Seen, WireError
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.commands.questions import gates_ask_again
from tasks_app.notifications.models import Notification
from tasks_app.operations.answer_stages import answer_of
from tasks_app.operations.answers import operation_answer
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.dispatch import claim_sends
from tasks_app.operations.models import PENDING, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.overdue import overdue_ask
from tasks_app.operations.selectors import answer_looked_after
from tasks_app.operations.steering import operation_stop
from tasks_app.sellers.models import Account, Seller
from tests.boundary.conftest import stopped
from tests.factories import make_account, make_advertiser, make_user
from tests.operations.grounds import ANSWERS
from tests.operations.making import (
    TASK,
    answer,
    crashed,
    failed,
    fresh,
    garbled,
    not_sent,
    see,
    silent,
    stand,
    unknown,
)
from tests.operations.pausing import SECRET_CONTEXT, SECRET_TASK, pause, release

pytestmark = [pytest.mark.deep, pytest.mark.django_db]

_OF_ANOTHER = {"task_id": "native-2", "context_id": SECRET_CONTEXT}
_OF_THE_SAME = {"task_id": SECRET_TASK, "context_id": SECRET_CONTEXT}
_SEEN: dict[str, Callable[[], Seen]] = {
    **{
        status: lambda status=status: answer(status, task_id=TASK)  # type: ignore[misc]
        for status in (
            "submitted",
            "working",
            "input-required",
            "auth-required",
            "completed",
            "canceled",
            "rejected",
        )
    },
    "asks without a name": lambda: answer("input-required"),
    "asks by another task": lambda: answer("input-required", task_id=TASK, continuation=_OF_ANOTHER),
    "asks by the same task": lambda: answer("input-required", task_id=TASK, continuation=_OF_THE_SAME),
    "nothing known": lambda: unknown("requires_approval", task_id=TASK),
    "an error that names no task": lambda: unknown(
        "failed", error=WireError(code="REFERENCE_NOT_FOUND", message="No such task", recovery="correctable")
    ),
    "another task": lambda: answer("submitted", task_id="another"),
    "failed for now": lambda: failed("SERVICE_UNAVAILABLE", "transient"),
    "failed for good": lambda: failed("PRODUCT_UNAVAILABLE", task_id=TASK),
    "a crash": crashed,
    "silence": silent,
    "no AdCP": garbled,
    "not sent": not_sent,
}
_GROUNDS = (
    "its answer is to be sent",
    "credentials were given, to be sent",
    "waited on, its answer to be sent",
    "its answer is to be sent, its seller off",
)


def _wait_on() -> None:
    overdue, noor = Approval.objects.get(kind="overdue", status="open"), make_user("Approver", name="Noor")
    approval_decide(approval_id=overdue.pk, user=noor, verdict="approve", comment="Wait.")


def _told() -> QuerySet[Notification]:
    return Notification.objects.filter(kind="answer_held_back")


@pytest.mark.parametrize("channel", ["poll", "webhook", "reply", "reconcile"])
@pytest.mark.parametrize("ground", _GROUNDS)
@pytest.mark.parametrize("what", _SEEN)
def test_it_leaves_or_people_are_told(ground: str, what: str, channel: str) -> None:
    operation = ANSWERS[ground]()
    see(operation, _SEEN[what](), channel)
    Seller.objects.update(active=True)
    after = fresh(operation)
    given = Continuation.objects.get(generation=1)
    if not given.is_given:
        assert _told().exists() or after.status not in PENDING
        assert after.send_at is None
    if after.status not in PENDING:
        return  # an end, which is told, or overdue: then people are asked
    Operation.objects.filter(send_at__isnull=False).update(send_at=clock.now())
    left = claim_sends(limit=10)
    assert [call.continuation is not None for call in left] == ([True] if given.is_given else [])


@pytest.mark.parametrize("ground", ["its question can be answered", "its answer is with people"])
def test_who_goes_on_while_people_wait_on_needs_no_answer(ground: str) -> None:
    """Overdue, and waited on: its question was open all the time, until its seller works."""
    operation = stand(S.SUBMITTED, overdue_at=clock.now())
    pause(operation)
    if ground != "its question can be answered":
        operation_answer(operation_id=operation.pk, generation=1, user=make_user("Ad Ops"), text="Sweden.")
    see(operation, answer("submitted", task_id=TASK), "webhook")  # maybe from before it asked
    assert Continuation.objects.get().is_usable
    see(operation, answer("submitted", task_id=TASK), "poll")
    assert not Continuation.objects.get().is_usable
    assert not Approval.objects.filter(kind="answer", status="open").exists()


def test_what_was_asked_first_is_not_sent_for_an_answer_that_was_replaced() -> None:
    """The reply to what was sent again by hand comes late, and names another task of the transport."""
    operation = ANSWERS["its answer is to be sent"]()
    see(operation, _SEEN["asks by another task"]())
    assert claim_sends(limit=10) == []
    assert "asks anew" in _told().get().title
    first, second = Continuation.objects.order_by("generation")
    assert (first.is_usable, first.consumed_at, second.is_answerable) == (False, None, True)


@pytest.mark.parametrize("what", ["working", "asks by another task"])
def test_of_an_answer_at_its_own_gate_people_are_told_and_nobody_is_asked_any_more(what: str) -> None:
    operation = ANSWERS["its answer is at the switch"]()
    see(operation, _SEEN[what]())
    assert _told().count() == 1
    gates_ask_again()
    assert not Approval.objects.filter(status="open").exists()
    stopped(on=False)
    gates_ask_again()
    assert claim_sends(limit=10) == []


def test_what_its_seller_works_on_is_not_answered_once_people_wait_on() -> None:
    operation = ANSWERS["overdue, its answer not sent"]()
    see(operation, answer("working", task_id=TASK), "webhook")  # maybe from before it asked
    assert Continuation.objects.get().is_given
    see(operation, answer("working", task_id=TASK), "poll")
    assert "went on by itself: working" in _told().get().title
    overdue_ask(fresh(operation))
    _wait_on()
    assert fresh(operation).status == S.SUBMITTED
    assert claim_sends(limit=10) == []


def test_who_refuses_what_was_asked_first_refuses_no_answer_that_is_asked_about() -> None:
    operation = ANSWERS["its order waits at a gate, and its answer is with people"]()
    gate = Approval.objects.get(kind="risk_gate", status="open")
    approval_decide(
        approval_id=gate.pk, user=make_user("Approver", name="Noor"), verdict="reject", comment="No."
    )
    assert Approval.objects.get(status="open").kind == "answer"
    assert Continuation.objects.get(operation=operation).is_given


def test_an_answer_to_a_read_does_not_leave_over_another_protocol() -> None:
    operation = ANSWERS["a read whose answer is to be sent"]()
    Seller.objects.update(protocol="mcp")
    assert claim_sends(limit=10) == []
    assert "no way to answer" in _told().get().title
    assert fresh(operation).send_at is None


# ---- an account that is not active any more


def _under(status: str) -> Operation:
    operation = ANSWERS["its answer is to be sent"]()
    account = make_account(make_advertiser(), operation.seller, status)
    Operation.objects.update(account=account, message="Which markets?", send_at=clock.now())
    return fresh(operation)


@pytest.mark.parametrize("status", ["pending_approval", "payment_required", "suspended"])
def test_it_waits_for_its_account_until_it_is_overdue(status: str) -> None:
    """What the seller asked is to be read still, and its time runs on: people are asked in the end."""
    operation = _under(status)
    assert claim_sends(limit=10) == []
    waits = fresh(operation)
    assert waits.send_at not in (None, operation.send_at)
    assert (waits.deadline_at, waits.message) == (operation.deadline_at, "Which markets?")
    Account.objects.update(status="active")
    later = clock.now() + timedelta(minutes=2)
    with clock.injected(lambda: later):
        assert len(claim_sends(limit=10)) == 1


def test_the_answer_about_a_cancellation_leaves_under_any_account() -> None:
    asked_for = {"media_buy_id": "mb-1", "canceled": True}
    operation = stand(S.INPUT_REQUIRED, "update_media_buy", arguments=asked_for)
    make_account(make_advertiser(), operation.seller, "suspended")
    Operation.objects.update(account=Account.objects.get())
    pause(operation)
    operation_answer(operation_id=operation.pk, generation=1, user=make_user("Ad Ops"), text="Yes.")
    release()
    said = answer_of(fresh(operation))
    assert said is not None
    assert (said.shut, Operation.objects.filter(answer_looked_after()).count()) == ("", 1)
    assert len(claim_sends(limit=10)) == 1


def test_under_an_account_that_has_ended_it_is_held_back() -> None:
    _under("closed")
    assert claim_sends(limit=10) == []
    assert "closed" in _told().get().title


# ---- overdue, and waited on


def test_an_answer_at_the_switch_outlives_that_somebody_stops_waiting() -> None:
    """While people decide whether to wait on, what they let go is kept with its question at the gate."""
    operation = ANSWERS["its answer was found at the switch"]()
    [gate] = Approval.objects.filter(status="open")
    operation_stop(operation_id=operation.pk, user=make_user("Ad Ops", name="Sol"), reason="Too late")
    gates_ask_again()
    assert Approval.objects.get(pk=gate.pk).status == "open"
    _wait_on()
    stopped(on=False)
    gates_ask_again()
    Operation.objects.filter(send_at__isnull=False).update(send_at=clock.now())
    [call] = claim_sends(limit=10)
    assert call.continuation is not None
