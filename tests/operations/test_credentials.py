"""What waits for credentials goes on when a person renews them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations import answers, policy
from tasks_app.operations.answers import credentials_use_again
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tasks_app.sellers.models import Account, Seller
from tasks_app.sellers.services import SellerChange, seller_change
from tasks_app.sellers.trust import credentials_tell, row_change
from tasks_app.troubles.models import RowTrouble
from tests.adcp.raw_server import serve
from tests.clocks import Clock
from tests.factories import make_seller, make_user
from tests.operations.making import answer as told
from tests.operations.making import ask, fresh, see, silent, stand
from tests.operations.pausing import SECRET_TASK, answering, done, pause, paused, paused_purchase
from tests.operations.sweeping import sweep
from tests.orders.test_answering import waits

pytestmark = pytest.mark.django_db


def test_new_credentials_answer_a_pause_that_asked_for_them(ops: User) -> None:
    with serve(answering(paused("Log in.", state="AUTH_REQUIRED"), done())) as server:
        operation = paused_purchase(server, token="old")
        assert operation.status == S.AUTH_REQUIRED
        _renew(operation, ops)
        sweep()

        first, second = [r for r in server.requests if r.rpc_method == "SendMessage"]
        assert second.json["params"]["message"]["taskId"] == SECRET_TASK
        assert (first.headers["authorization"], second.headers["authorization"]) == (
            "Bearer old",
            "Bearer new-token",
        )
    assert fresh(operation).status == S.COMPLETED


def test_new_credentials_make_a_task_due_to_be_looked_at(ops: User) -> None:
    operation = stand(S.AUTH_REQUIRED, next_poll_at=clock.now() + timedelta(hours=1))
    _renew(operation, ops)
    due = fresh(operation).next_poll_at
    assert due is not None
    assert due <= clock.now()


@pytest.mark.usefixtures("still")
def test_new_credentials_send_a_refused_call_again_at_once(ops: User) -> None:
    operation = ask()
    claim_one(operation_id=operation.pk)
    see(operation, told("auth-required"))
    later = fresh(operation).send_at
    _renew(operation, ops)
    due = fresh(operation).send_at
    assert later is not None
    assert due is not None
    assert due <= clock.now() < later


@pytest.mark.parametrize("way", ["sent again", "looked at"])
def test_what_goes_on_with_new_credentials_has_its_whole_time(still: Clock, ops: User, way: str) -> None:
    """What passed until they came was not the seller's, as where they answer a pause."""
    if way == "looked at":
        operation = stand(S.AUTH_REQUIRED, next_poll_at=clock.now() + timedelta(days=9))
    else:
        operation = ask()
        claim_one(operation_id=operation.pk)
        see(operation, told("auth-required"))
    still.now = fresh(operation).deadline_at - timedelta(minutes=5)
    _renew(operation, ops)
    now = fresh(operation)
    assert now.deadline_at == still.now + policy.deadline(now.task_type, now.seller)


@pytest.mark.parametrize("paused_there", [False, True], ids=["looked at", "answered"])
def test_a_row_that_cannot_go_on_keeps_neither_the_credentials_nor_the_others(
    ops: User, monkeypatch: pytest.MonkeyPatch, paused_there: bool
) -> None:
    seller = make_seller(slots=9)
    bad, well = (stand(S.AUTH_REQUIRED, seller=seller, task_id=f"t-{one}", next_poll_at=None) for one in "ab")
    if paused_there:
        for operation in (bad, well):
            _pause(operation)
    mended = _spoilt(monkeypatch, bad)
    _renew(bad, ops)

    seller.refresh_from_db()
    assert seller.token == "new-token"
    assert not _waits(well)
    assert _waits(bad)
    trouble = RowTrouble.objects.get()
    assert (trouble.row, trouble.times) == (bad.pk, 1)
    with clock.injected(lambda: trouble.at):
        assert credentials_use_again() == 0, "it is put back for a while"
    with clock.injected(lambda: trouble.again_at):
        assert credentials_use_again() == 0
    trouble.refresh_from_db()
    assert trouble.times == 2

    mended()
    with clock.injected(lambda: trouble.again_at):
        assert credentials_use_again() == 1
    assert not _waits(bad)
    assert not RowTrouble.objects.exists()


@pytest.mark.parametrize("put_back", [False, True], ids=["at once", "put back"])
@pytest.mark.parametrize("asked_of", ["people", "the kill switch"])
def test_who_gave_the_credentials_does_not_release_what_goes_on_with_them(
    ops: User, monkeypatch: pytest.MonkeyPatch, asked_of: str, put_back: bool
) -> None:
    operation = waits("auth-required")
    if asked_of == "people":
        Account.objects.update(payment_terms="prepay")  # what people approved is not what would be asked for
    else:
        kill_switch_set(on=True, reason="A drill", actor="system")
    mended = _spoilt(monkeypatch, operation) if put_back else None
    gave = _renew(operation, ops)
    if mended:
        mended()
        _tried_again()

    question = Approval.objects.get(status="open")
    assert question.requested_by == actor_key(gave)
    with pytest.raises(DecisionRefusedError):
        approval_decide(approval_id=question.pk, user=gave, verdict="approve", comment="So.")


@pytest.mark.parametrize("paused_there", [False, True], ids=["looked at", "answered"])
def test_credentials_answer_no_pause_that_came_after_them(
    ops: User, monkeypatch: pytest.MonkeyPatch, paused_there: bool
) -> None:
    """What was put back goes on by other means, and the seller asks for credentials again: not these."""
    operation = stand(S.AUTH_REQUIRED, next_poll_at=None)
    if paused_there:
        _pause(operation)
    mended = _spoilt(monkeypatch, operation)
    _renew(operation, ops)
    mended()
    Continuation.objects.update(stale_at=clock.now())
    for status in (S.WORKING, S.AUTH_REQUIRED):
        transition(fresh(operation), status, actor="system", changes={"next_poll_at": None})
    if paused_there:
        _pause(operation, 2)

    assert _tried_again() == 0
    assert _waits(operation)
    assert not RowTrouble.objects.exists(), "it waits for people now"


@pytest.mark.parametrize("since", ["taken away", "nobody is on record"])
def test_what_was_put_back_waits_for_people_where_nobody_gave_what_it_would_go_on_with(
    ops: User, monkeypatch: pytest.MonkeyPatch, since: str
) -> None:
    operation = stand(S.AUTH_REQUIRED, next_poll_at=None)
    _pause(operation)
    mended = _spoilt(monkeypatch, operation)
    if since == "taken away":
        _renew(operation, ops)
        row_change(row=operation.seller, values={"token": None}, actor=ops)
    else:
        credentials_tell(operation.seller, "system")
    mended()

    assert _tried_again() == 0
    assert _waits(operation)
    assert not RowTrouble.objects.exists()


def _tried_again() -> int:
    """What was put back is due again; answers how many went on."""
    again_at = RowTrouble.objects.get().again_at
    with clock.injected(lambda: again_at):
        return credentials_use_again()


def _spoilt(monkeypatch: pytest.MonkeyPatch, bad: Operation) -> Callable[[], None]:
    """Whatever is to be done with one operation cannot be done, until the answer is called."""
    real = answers.continuation_current

    def current(operation: Operation) -> Continuation | None:
        if operation.pk == bad.pk:
            raise ValueError("nobody can read this")
        return real(operation)

    monkeypatch.setattr(answers, "continuation_current", current)
    return lambda: monkeypatch.setattr(answers, "continuation_current", real)


def _waits(operation: Operation) -> bool:
    """Whether nothing has been done about it: it is not looked at, and nothing was answered."""
    answered = Continuation.objects.filter(operation=operation, answered_at__isnull=False)
    return fresh(operation).next_poll_at is None and not answered.exists()


def _pause(operation: Operation, generation: int = 1) -> None:
    Continuation.objects.create(
        operation=operation,
        generation=generation,
        kind="auth",
        descriptor=json.dumps({"task_id": "t", "context_id": "c"}),
        asked="Log in.",
        at=clock.now(),
        expires_at=clock.now() + timedelta(days=9),
    )


def _renew(operation: Operation, user: User) -> User:
    """Answers who let the new credentials hold."""
    seller, approver = operation.seller, make_user("Approver")
    names = ("name", "slots", "active", "jwks_url", "allow_private")
    change = SellerChange(**{name: getattr(seller, name) for name in names}, token="new-token")
    assert seller_change(seller=seller, change=change, actor=user).changed == []
    asked = Approval.objects.get(kind="seller_trust", status="open")
    approval_decide(approval_id=asked.pk, user=approver, verdict="approve")
    seller.refresh_from_db()
    return approver


@pytest.mark.parametrize("task_id", ["", "task-1"])
def test_a_pause_that_can_be_answered_no_more_goes_on_as_what_never_paused(task_id: str, ops: User) -> None:
    """Its seller speaks MCP since: the same is sent again, or its task looked at."""
    operation = stand(S.AUTH_REQUIRED, task_id=task_id, next_poll_at=None)
    pause(operation, kind="auth")
    Seller.objects.update(protocol="mcp")
    _renew(fresh(operation), ops)
    assert Continuation.objects.get().answered_at is None
    after = fresh(operation)
    assert (after.send_at is not None, after.next_poll_at is not None) == (not task_id, bool(task_id))


def test_what_was_sent_again_and_is_lost_is_not_bought_beside_it_by_new_credentials(ops: User) -> None:
    """Refused for its credentials, it was sent again, and no reply came; the answer has another key."""
    operation = stand(S.AUTH_REQUIRED, task_id="")
    see(operation, told("auth-required"))
    pause(operation, kind="auth")
    Operation.objects.update(attempts=2)
    see(operation, silent())
    _renew(fresh(operation), ops)
    assert Continuation.objects.get().answered_at is None
    [call] = claim_sends(limit=10)
    assert call.continuation is None
    assert call.arguments["idempotency_key"] == operation.idempotency_key
