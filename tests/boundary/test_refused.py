"""What a person refused at a gate leaves no more, whatever brings it back to where it would; and what they
let pass passes once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orders.models import Deal
from orders.services import deal_book
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approvals_expire_due
from tasks_app.commands.models import Command
from tasks_app.commands.questions import gates_ask_again
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_one, claim_polls, claim_sends
from tasks_app.operations.lookup import NOT_FOUND
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.publish import publish_due
from tasks_app.operations.steered import SteeringRefusedError
from tasks_app.operations.steering import operation_resend
from tasks_app.sellers.models import Seller
from tests.boundary.conftest import answered, stopped
from tests.factories import approve_deal, make_deal, make_user
from tests.operations.making import answer, failed, fresh, give_back, not_sent, observed, silent
from tests.orders.late import decide

pytestmark = pytest.mark.django_db
_TURNED_AWAY = Seen(kind="answer", status="auth-required", raw_status="auth-required")


def _switch(on: bool) -> None:
    stopped(on)


def _seller(on: bool) -> None:
    Seller.objects.update(active=not on)


GATES: dict[str, Callable[[bool], None]] = {"the kill switch": _switch, "a seller that is off": _seller}
# What came of the first attempt, and whether the seller can have bought by it.
ATTEMPTS: dict[str, tuple[Seen, bool]] = {
    "no answer": (silent(), True),
    "never arrived": (not_sent(), False),
    "busy": (failed("RATE_LIMITED", "transient"), False),
    "credentials awaited": (_TURNED_AWAY, False),
}


def ordered() -> tuple[Deal, Operation]:
    """A purchase that is due to be sent for the first time."""
    Seller.objects.update(slots=5)
    deal = make_deal()
    approve_deal(deal)
    operation = deal_book(deal=deal)
    return deal, operation


def attempt(operation: Operation, seen: Seen) -> None:
    """It is sent, with what comes of it, and is due again."""
    assert claim_one(operation_id=operation.pk) is not None
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    give_back(operation.pk)
    due_again(operation)


def due_again(operation: Operation) -> None:
    Operation.objects.filter(pk=operation.pk, settled_at=None).update(send_at=clock.now())


def looked_up(operation: Operation) -> None:
    """The seller is asked, and shows nothing of it."""
    Operation.objects.filter(pk=operation.pk).exclude(next_poll_at=None).update(next_poll_at=clock.now())
    for call in claim_polls(limit=5):
        nothing = Seen(kind="answer", status="unknown", raw_status=NOT_FOUND)
        observed(operation_id=call.operation_id, seen=nothing, channel="reconcile")
        give_back(call.operation_id)


def bought() -> list[str]:
    """What buys, of what leaves at this moment."""
    return [call.tool for call in claim_sends(limit=9) if call.tool == "create_media_buy"]


@pytest.mark.parametrize("what", ATTEMPTS)
@pytest.mark.parametrize("gate", GATES)
def test_what_was_refused_is_not_sent_when_the_gate_opens(gate: str, what: str) -> None:
    seen, may_have_bought = ATTEMPTS[what]
    deal, operation = ordered()
    attempt(operation, seen)
    GATES[gate](True)
    assert bought() == []
    answered("reject")
    GATES[gate](False)

    for _ in range(4):
        gates_ask_again()
        looked_up(operation)
        due_again(operation)  # whatever else would have it sent
        assert bought() == []
        time_out_due(limit=5)
        publish_due(limit=5)
    command = Command.objects.get(key=operation.purpose)
    assert (command.refused_at is not None, command.refused_why) == (True, "So be it.")
    now = fresh(operation)
    deal.refresh_from_db()
    if may_have_bought:
        assert (now.status, deal.status) == (S.TIMED_OUT, "booking")
        assert Approval.objects.get(status="open").kind == "overdue"
    else:
        assert (now.status, deal.status) == (S.FAILED, "failed")
        assert "So be it." in now.error["message"]


def _refused() -> Operation:
    _, operation = ordered()
    attempt(operation, silent())
    stopped()
    assert bought() == []
    answered("reject")
    stopped(False)
    return fresh(operation)


def test_nobody_sends_it_again_by_hand() -> None:
    operation = _refused()
    with pytest.raises(SteeringRefusedError, match="So be it"):
        operation_resend(operation_id=operation.pk, user=make_user("Ad Ops"), reason="All the same")


def test_waiting_on_for_it_sends_nothing() -> None:
    operation = _refused()
    looked_up(operation)
    time_out_due(limit=5)
    decide("overdue", "approve")
    assert fresh(operation).status == S.SUBMITTED
    assert bought() == []
    assert fresh(operation).status != S.FAILED, "the seller may have it"


def test_a_refusal_while_the_call_is_out_holds_for_what_comes_of_it() -> None:
    """The worker's call went on while people decided; it comes to nothing, and would be tried again."""
    _, operation = ordered()
    attempt(operation, not_sent())
    stopped()
    assert bought() == []
    Operation.objects.filter(pk=operation.pk).update(attempts=2)  # one that nobody has observed yet
    answered("reject")
    stopped(False)
    assert fresh(operation).status == S.CALLING_ADCP
    observed(operation_id=operation.pk, seen=not_sent(), channel="reply")
    due_again(operation)
    assert bought() == []
    assert fresh(operation).status == S.FAILED


def test_what_the_seller_shows_of_it_is_followed() -> None:
    operation = _refused()
    found = answer("submitted", task_id="task-found")
    observed(operation_id=operation.pk, seen=found, channel="reconcile")
    assert (fresh(operation).status, fresh(operation).task_id) == (S.SUBMITTED, "task-found")


def _passed_while_the_switch_is_on() -> Operation:
    """Two let one pass; the switch is turned off before it leaves."""
    stopped()
    deal, operation = ordered()
    answered("approve")
    deal.refresh_from_db()
    operation = deal_book(deal=deal)
    stopped(False)
    return operation


def _passed_at_its_seller() -> Operation:
    """A step that was tried before: a person lets its first attempt pass although the seller is off."""
    stopped()
    deal, operation = ordered()
    Command.objects.filter(key=operation.purpose).update(repeated=True)
    stopped(False)
    Seller.objects.update(active=False)
    _expire()
    answered("approve")
    deal.refresh_from_db()
    return deal_book(deal=deal)


def _expire() -> None:
    """Nobody decided on the first question; it is asked anew, about the gates that are closed now."""
    Approval.objects.filter(kind="kill_switch", status="open").update(due_at=clock.now())
    approvals_expire_due()


@pytest.mark.parametrize(
    ("passed", "gate"),
    [(_passed_while_the_switch_is_on, _switch), (_passed_at_its_seller, _seller)],
    ids=["the kill switch", "a seller that is off"],
)
def test_what_people_let_pass_passes_for_one_attempt(
    passed: Callable[[], Operation], gate: Callable[[bool], Any]
) -> None:
    operation = passed()
    attempt(operation, not_sent())
    assert Command.objects.get(key=operation.purpose).overrides == []
    gate(True)
    assert bought() == [], "the next attempt asks again"
    assert Approval.objects.filter(kind__in=("risk_gate", "kill_switch"), status="open").exists()
