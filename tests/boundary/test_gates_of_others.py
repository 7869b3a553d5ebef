"""What waits at a gate waits for itself: a seller that is off holds up no other's, and is told in words."""

from __future__ import annotations

from datetime import timedelta

import pytest

from orders.acts import deal_cancel_ask
from orders.questions import ask_deal
from tasks_app import clock, ids
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.approvals.together import batch_decide, report_of
from tasks_app.commands.kill_switch import kill_switch_refusal, stops
from tasks_app.commands.models import KillSwitch
from tasks_app.commands.questions import gates_ask_again
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.ordering import order_command, order_run
from tasks_app.sellers.models import Seller
from tasks_app.troubles.models import RowTrouble
from tests.boundary.conftest import purchase, stopped
from tests.factories import make_deal, make_seller, make_user
from tests.operations.making import fresh
from tests.orders.live import booked

pytestmark = pytest.mark.django_db


def held(name: str) -> Operation:
    return order_run(order=purchase(seller=make_seller(name)), actor="system")


def test_one_held_order_of_a_seller_that_is_off_holds_up_no_other() -> None:
    stopped()
    stuck, other = held("Off"), held("Well")
    Seller.objects.filter(name="Off").update(active=False)
    stopped(on=False)

    assert gates_ask_again() == 1
    assert fresh(other).send_at is not None
    assert (fresh(stuck).status, fresh(stuck).send_at) == (S.REQUESTED, None)
    assert order_command(stuck).waiting_since is not None
    assert not RowTrouble.objects.exists(), "that a seller is off is nobody's fault"

    Seller.objects.update(active=True)
    assert gates_ask_again() == 1
    assert fresh(stuck).send_at is not None


def test_letting_it_pass_while_its_seller_is_off_is_refused_in_words() -> None:
    stopped()
    stuck = held("Off")
    Seller.objects.update(active=False)
    asked = Approval.objects.get(kind="kill_switch")
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve")
    with pytest.raises(DecisionRefusedError, match=r"^Off is switched off\.$") as refused:
        approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve")
    assert refused.value.code == "impossible"
    asked.refresh_from_db()
    assert (asked.status, asked.decisions.count()) == ("open", 1)
    assert fresh(stuck).send_at is None


def test_a_change_whose_seller_is_off_is_refused_in_words_alone_and_in_a_batch() -> None:
    first, second = booked(make_seller("Off"), media_buy_id="mb-a"), make_deal(seller=make_seller("Well"))
    deal_cancel_ask(deal_id=first.pk, user=make_user("Buyer"), reason="No more")
    one, two = Approval.objects.get(kind="deal_change"), ask_deal(second)
    Seller.objects.filter(name="Off").update(active=False)

    with pytest.raises(DecisionRefusedError, match="Off is switched off"):
        approval_decide(approval_id=one.pk, user=make_user("Approver"), verdict="approve")

    shown = {one.pk: one.evidence_digest, two.pk: two.evidence_digest}
    user = make_user("Approver", is_superuser=True)
    told = report_of(batch_decide(shown=shown, user=user, verdict="approve"), user)
    assert [(line.code, line.message) for line in told] == [("impossible", "Off is switched off."), ("", "")]
    assert [Approval.objects.get(pk=pk).status for pk in shown] == ["open", "approved"]


def test_the_kill_switch_turned_last_holds_whatever_the_hosts_clocks_say() -> None:
    now = clock.now()
    ahead = now + timedelta(seconds=5)
    with clock.injected(lambda: ahead):  # a web server whose clock is ahead turns it on, and off
        stopped()
        stopped(on=False)
    KillSwitch.objects.create(id=ids.first_id_at(ahead), on=False, reason="over", actor="system", at=ahead)

    stopped()  # another, whose clock is right

    assert stops().everywhere == "A drill"
    assert kill_switch_refusal(on=True, reason="x", actor="system") == "It is on already."
    assert next(iter(KillSwitch.objects.all())).on
