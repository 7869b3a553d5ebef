"""Time starts anew when somebody lets go: the kill switch, a person at a gate, an outage of ours."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approvals_expire_due
from tasks_app.commands.questions import gates_ask_again
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations import policy
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.ordering import order_run
from tasks_app.operations.overdue import wait_on
from tasks_app.operations.pulse import OUTAGE, pulse_beat
from tasks_app.operations.resend import cannot_have_acted, may_have_acted
from tasks_app.sellers.models import Seller
from tasks_app.troubles.models import RowTrouble
from tests.boundary.conftest import answered, purchase, stopped
from tests.factories import make_seller, make_team
from tests.operations.making import answer, ask, fresh, not_sent, see, silent, stand
from tests.troubles.poisoning import heal, poison

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
DAY = timedelta(days=1)


def queued(number: int = 3, **fields: object) -> list[Operation]:
    """Released, with a seller that takes one at a time."""
    seller = make_seller(slots=1)
    return [order_run(order=purchase(seller=seller, **fields), actor="system") for _ in range(number)]


def at(moment: datetime) -> object:
    return clock.injected(lambda: moment)


@pytest.mark.parametrize("swept", [True, False], ids=["swept meanwhile", "not swept"])
def test_what_the_kill_switch_held_for_days_is_sent_when_it_is_let_go(swept: bool) -> None:
    operations = queued()
    stopped()
    assert claim_sends(limit=10) == []
    later = clock.now() + 8 * DAY
    with at(later):
        if swept:
            time_out_due(limit=10)
        stopped(on=False)
        gates_ask_again()
        claim_sends(limit=10)
        time_out_due(limit=10)

        assert sorted(fresh(one).status for one in operations) == [S.CALLING_ADCP, S.REQUESTED, S.REQUESTED]
        assert all(fresh(one).deadline_at > later for one in operations)


def test_the_switch_of_another_team_gives_no_time() -> None:
    (operation,) = queued(1)
    other = make_team("Another")
    stopped(team=other)
    with at(operation.deadline_at + timedelta(seconds=1)):
        stopped(on=False, team=other)
        time_out_due(limit=10)
    assert fresh(operation).status == S.FAILED


def test_what_is_stopped_is_not_failed_as_never_sent() -> None:
    (operation,) = queued(1)
    read = ask("get_products", seller=operation.seller)
    stopped(team=operation.team)
    with at(operation.deadline_at + DAY):
        time_out_due(limit=10)
    assert (fresh(operation).status, fresh(read).status) == (S.REQUESTED, S.FAILED)


def test_what_a_person_lets_pass_has_its_whole_time() -> None:
    (operation,) = queued(1)
    stopped()
    assert claim_sends(limit=10) == []
    later = clock.now() + 8 * DAY
    with at(later):
        approvals_expire_due()
        answered("approve")
        time_out_due(limit=10)
        now = fresh(operation)
        assert now.status == S.REQUESTED
        assert now.deadline_at == later + policy.deadline(now.task_type, now.seller)


def test_after_an_outage_what_waits_to_be_sent_has_its_time_anew() -> None:
    first, *_ = operations = queued()
    pulse_beat()
    later = first.deadline_at + DAY
    with at(later):
        assert pulse_beat() == 3
        time_out_due(limit=10)
        assert {fresh(one).status for one in operations} == {S.REQUESTED}
        assert fresh(first).deadline_at == later + policy.deadline(first.task_type, first.seller)
        assert pulse_beat() == 0


def test_sweeps_without_a_gap_give_none() -> None:
    (operation,) = queued(1)
    pulse_beat()
    before, moment = fresh(operation).deadline_at, clock.now()
    for _ in range(3):
        moment += OUTAGE - timedelta(seconds=1)
        with at(moment):
            assert pulse_beat() == 0
    assert fresh(operation).deadline_at == before


def test_after_an_outage_what_a_seller_has_in_hand_is_looked_at_before_it_is_overdue() -> None:
    submitted, called = stand(S.SUBMITTED, task_id="t"), stand(S.CALLING_ADCP, send_at=None)
    pulse_beat()
    soon = clock.now() + timedelta(hours=1)
    Operation.objects.update(deadline_at=soon, next_poll_at=clock.now())
    gap = timedelta(hours=30)
    with at(clock.now() + gap):
        pulse_beat()
        time_out_due(limit=10)
        assert fresh(submitted).status == S.SUBMITTED
        assert fresh(called).looked_up_at is None
        assert fresh(submitted).deadline_at - soon >= gap - timedelta(seconds=1)


def test_what_could_not_be_given_its_time_has_it_before_it_is_late() -> None:
    (operation,) = queued(1)
    stopped()
    poison("tasks_app_operation", operation.pk)
    later = operation.deadline_at + DAY
    with at(later):
        stopped(on=False)
        time_out_due(limit=10)
    heal("tasks_app_operation")

    again = RowTrouble.objects.get(row=operation.pk).again_at + timedelta(seconds=1)
    with at(again):
        time_out_due(limit=10)
        now = fresh(operation)
        assert now.status == S.REQUESTED
        assert now.deadline_at == again + policy.deadline(now.task_type, now.seller)
    assert not RowTrouble.objects.exists()


@pytest.mark.parametrize("reached", [not_sent(), silent()], ids=["nobody", "perhaps the seller"])
def test_what_reached_nobody_and_is_stopped_is_not_late(reached: Seen) -> None:
    """What may have been done there is looked up all the same: it must not go unnoticed."""
    (operation,) = queued(1)
    (_call,) = claim_sends(limit=1)
    see(operation, reached)
    Operation.objects.update(send_at=clock.now())
    stopped()
    assert claim_one(operation_id=operation.pk) is None
    later = fresh(operation).deadline_at + DAY
    with at(later):
        time_out_due(limit=10)
        is_looked_up = fresh(operation).next_poll_at is not None
        assert is_looked_up == may_have_acted(operation) == (reached.kind != "not_sent")
        assert Operation.objects.filter(cannot_have_acted()).exists() != is_looked_up
        if is_looked_up:
            return
        stopped(on=False)
        gates_ask_again()
        time_out_due(limit=10)
        now = fresh(operation)
        assert (now.status, now.send_at is not None) == (S.CALLING_ADCP, True)
        assert now.deadline_at == later + policy.deadline(now.task_type, now.seller)
        assert claim_one(operation_id=operation.pk) is not None


# --- what was tried and is to be sent again, in each status in which we may hold it ------------------


def tried() -> dict[str, Operation]:
    """Purchases that certainly had no effect and are due to be sent again, by status: one that reached
    nobody, one that was turned away for its credentials, and such a one that people wait on for."""
    seller = make_seller(slots=9)
    called, refused, waited = (order_run(order=purchase(seller=seller), actor="system") for _ in range(3))
    assert len(claim_sends(limit=9)) == 3
    see(called, not_sent())
    for operation in (refused, waited):
        see(operation, answer("auth-required"))
    overdue = {"overdue_at": clock.now(), "overdue_told_at": clock.now(), "send_at": None}
    transition(fresh(waited), S.TIMED_OUT, actor="system", changes=overdue)
    wait_on(fresh(waited), actor="system", reason="They said soon", send_again=True)
    Operation.objects.update(send_at=clock.now())
    return {S.CALLING_ADCP: called, S.AUTH_REQUIRED: refused, S.SUBMITTED: waited}


def is_off(off: bool = True) -> None:
    Seller.objects.update(active=not off)


@pytest.mark.parametrize(
    ("holds", "claimed"),
    [(stopped, False), (stopped, True), (is_off, True)],
    ids=["stopped before its turn", "stopped at its turn", "at another gate"],
)
def test_what_is_to_be_sent_again_is_not_late_while_we_hold_it(holds: Any, claimed: bool) -> None:
    operations = tried()
    holds(True)
    if claimed:
        assert claim_sends(limit=9) == []
    later = max(fresh(one).deadline_at for one in operations.values()) + DAY
    with at(later):
        time_out_due(limit=10)
        assert {status: fresh(one).status for status, one in operations.items()} == {s: s for s in operations}
        assert not Approval.objects.filter(kind="overdue", status="open").exists()
        holds(False)
        gates_ask_again()
        time_out_due(limit=10)
        for status, operation in operations.items():
            now = fresh(operation)
            assert (now.status, now.send_at is not None) == (status, True)
            assert now.deadline_at == later + policy.deadline(now.task_type, now.seller)
        assert len(claim_sends(limit=9)) == len(operations)


def test_what_may_have_been_done_before_it_was_turned_away_does_not_go_unnoticed() -> None:
    (operation,) = queued(1)
    claim_sends(limit=1)
    see(operation, silent())
    Operation.objects.update(send_at=clock.now())
    claim_sends(limit=1)
    see(operation, answer("auth-required"))
    stopped()
    with at(fresh(operation).deadline_at + DAY):
        time_out_due(limit=10)
    assert fresh(operation).status == S.TIMED_OUT
    assert Approval.objects.filter(kind="overdue", status="open").exists()
