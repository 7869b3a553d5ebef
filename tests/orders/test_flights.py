"""A flight that has begun is never bought, whichever way its purchase would leave: its deal ends."""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from campaigns.decisions import campaign_decide
from campaigns.models import Campaign
from orders.ask import Ask
from orders.changes.send import change_ask
from orders.flights import BEGUN, OVER
from orders.models import UNDECIDED, Change, Deal
from orders.purchases import purchase_ask
from orders.questions import ask_deal
from orders.services import deal_book
from tasks_app import clock, ids
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide, approvals_expire_due
from tasks_app.approvals.together import batch_decide
from tasks_app.commands.kill_switch import stops
from tasks_app.commands.questions import gates_ask_again
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import create
from tasks_app.notifications.models import Notification
from tasks_app.operations.answers import _renewed
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_one, claim_polls, claim_sends
from tasks_app.operations.lookup import NOT_FOUND
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish_due
from tasks_app.operations.services import OperationRefusedError
from tasks_app.operations.steered import SteeringRefusedError
from tasks_app.operations.steering import operation_resend
from tasks_app.sellers.accounts_told import account_record
from tasks_app.sellers.models import Account, Seller
from tests.boundary.conftest import asked as gate
from tests.boundary.conftest import stopped
from tests.factories import (
    approve_deal,
    make_account,
    make_advertiser,
    make_deal,
    make_line,
    make_seller,
    make_team,
    make_user,
)
from tests.operations.making import give_back, not_sent, observed
from tests.orders.late import answered, decide, fresh, paused
from tests.orders.live import booked
from tests.support import undone

pytestmark = pytest.mark.django_db
_DISPATCH = Path(__file__).parents[2] / "tasks_app" / "operations" / "dispatch.py"


def at(when: datetime) -> Any:
    return clock.injected(lambda: when)


def sent() -> list[dict[str, Any]]:
    """What leaves at this moment, with its dates."""
    drain()
    gates_ask_again()
    drain()
    calls = [call for call in claim_sends(limit=10) if call.lookup is None]
    return [call.arguments for call in calls if call.tool in ("create_media_buy", "update_media_buy")]


def sends(operation: Operation) -> Seen:
    """The call goes out and comes to nothing: nobody was there."""
    assert claim_one(operation_id=operation.pk) is not None
    observed(operation_id=operation.pk, seen=not_sent(), channel="reply")
    give_back(operation.pk)
    return not_sent()


# --- every way by which a purchase leaves, up to where its flight begins ---------------------------
Way = Callable[[], Callable[[], None]]


def _decision() -> Callable[[], None]:
    asked = ask_deal(make_deal())
    Approval.objects.update(due_at=clock.now() + timedelta(days=90))
    return lambda: _try(asked)


def _decision_in_part() -> Callable[[], None]:
    asked = ask_deal(make_deal(make_line(minimum=None)))
    Approval.objects.update(due_at=clock.now() + timedelta(days=90))
    return lambda: _try(asked, budgets={1: Decimal(9000)})


def _several() -> Callable[[], None]:
    asked = ask_deal(make_deal())
    Approval.objects.update(due_at=clock.now() + timedelta(days=90))
    shown = {asked.pk: asked.evidence_digest}

    def said() -> None:
        batch_decide(shown=shown, user=make_user("Approver"), verdict="approve")

    return said


def _of_a_campaign() -> Callable[[], None]:
    campaign = Campaign(
        id=ids.new_id(),
        reference="CMP-2026-900003",
        team=make_team(),
        name="S",
        requested_by="system",
        brief={},
    )
    create(campaign, actor="system", reason="A brief")
    asked = ask_deal(make_deal(campaign_id=campaign.pk))
    Approval.objects.update(due_at=clock.now() + timedelta(days=90))
    shown = {asked.pk: asked.evidence_digest}
    said: dict[str, Any] = {"campaign": campaign, "verdict": "approve", "parts": {asked.pk: {}}}
    return lambda: campaign_decide(user=make_user("Approver"), shown=shown, **said) and None


def _release() -> Callable[[], None]:
    """Approved in time; its job comes to it too late."""
    approve_deal(make_deal())
    return lambda: None


def _integrators() -> Callable[[], None]:
    """An integrator's own purchase, released too late."""
    asked_for()
    decide("deal", "approve")
    return lambda: None


def _account() -> Callable[[], None]:
    """It waited for the account."""
    deal = make_deal()
    Account.objects.update(status="pending_approval")
    approve_deal(deal)
    drain()

    def opened() -> None:
        account = Account.objects.get()
        answer = {"status": "active", **account.reference}
        account_record(advertiser=account.advertiser, seller=account.seller, answer=answer)

    return opened


def _held_by_the_switch() -> Callable[[], None]:
    approve_deal(make_deal())
    stopped()
    drain()
    return lambda: stopped(on=False)


def _passed_by_people() -> Callable[[], None]:
    """People let it pass the kill switch."""
    approve_deal(make_deal())
    stopped()
    drain()
    Approval.objects.update(due_at=clock.now() + timedelta(days=90))

    def passed() -> None:
        with suppress(DecisionRefusedError):  # what they were shown has begun since: they are shown that
            approval_decide(approval_id=gate().pk, user=make_user("Approver"), verdict="approve")
        asked = gate()
        for _ in range(asked.quorum - asked.decisions.count()):
            approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve")

    return passed


def _on_its_way() -> Callable[[], None]:
    """Released, and waiting for one of the seller's slots."""
    deal = make_deal()
    approve_deal(deal)
    deal_book(deal=deal)
    return lambda: None


def _stopped_on_its_way() -> Callable[[], None]:
    """Released, then taken off the way by the kill switch."""
    _on_its_way()
    stopped()
    assert claim_sends(limit=5) == []
    return lambda: stopped(on=False)


def _tried_again() -> Callable[[], None]:
    """An attempt that certainly never arrived."""
    deal = make_deal()
    approve_deal(deal)
    sends(deal_book(deal=deal))
    return lambda: None


def _resent() -> Callable[[], None]:
    """The same, sent again by a person while the seller still recognises its key."""
    start = clock.now().replace(microsecond=0) + timedelta(hours=2)
    deal = make_deal(start_at=start, end_at=start + timedelta(hours=4))
    approve_deal(deal)
    operation = deal_book(deal=deal)
    sends(operation)
    return lambda: (
        operation_resend(operation_id=operation.pk, user=make_user("Ad Ops"), reason="Now") and None
    )


def turned_away(operation: Operation) -> None:
    """The call goes out, and its seller wants other credentials first."""
    assert claim_one(operation_id=operation.pk) is not None
    wanted = Seen(kind="answer", status="auth-required", raw_status="auth-required")
    observed(operation_id=operation.pk, seen=wanted, channel="reply")
    give_back(operation.pk)


def _credentials_wanted() -> Callable[[], None]:
    deal = make_deal()
    approve_deal(deal)
    turned_away(deal_book(deal=deal))
    return lambda: None


def _seller_let_go() -> Callable[[], None]:
    """Tried once; its seller is switched off, and on again."""
    _tried_again()
    Seller.objects.update(active=False)
    with at(clock.now() + timedelta(hours=2)):
        assert claim_sends(limit=5) == []
    return lambda: Seller.objects.update(active=True) and None


WAYS: dict[str, Way] = {
    "decision": _decision,
    "decision in part": _decision_in_part,
    "several decided": _several,
    "a campaign's parts": _of_a_campaign,
    "release": _release,
    "an integrator's": _integrators,
    "the account": _account,
    "held by the switch": _held_by_the_switch,
    "passed by people": _passed_by_people,
    "on its way": _on_its_way,
    "stopped on its way": _stopped_on_its_way,
    "tried again": _tried_again,
    "sent again": _resent,
    "credentials are wanted": _credentials_wanted,
    "the seller's gate": _seller_let_go,
}


UNDECIDED_WAYS = {"decision", "decision in part", "several decided", "a campaign's parts"}


def _try(asked: Approval, **more: Any) -> None:
    with pytest.raises(DecisionRefusedError):
        approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve", **more)


def asked_for() -> Operation:
    """What an integrator asks for: with a recipient of invoices, and one package that starts later."""
    advertiser, seller = make_advertiser(), make_seller()
    make_account(advertiser, seller)
    start = clock.now().replace(microsecond=0) + timedelta(days=10)
    late = {"start_time": (start + timedelta(days=2)).isoformat()}
    late["end_time"] = (start + timedelta(days=20)).isoformat()
    arguments = {
        "brand": {"domain": advertiser.brand_domain},
        "start_time": start.isoformat(),
        "end_time": (start + timedelta(days=28)).isoformat(),
        "total_budget": {"amount": 3000, "currency": "USD"},
        "invoice_recipient": {"name": "Lindqvist Coffee Group AB"},
        "packages": [
            {"product_id": "p", "pricing_option_id": "o", "budget": 1500},
            {"product_id": "q", "pricing_option_id": "o", "budget": 1500, **late},
        ],
    }
    user = make_user("Integration")
    return purchase_ask(Ask(user=user, task="create_media_buy", seller=seller, arguments=arguments))


def test_what_has_begun_is_never_sent_and_ends_its_deal() -> None:
    for way, go_on in WAYS.items():
        for over in (False, True):
            with undone():
                _is_never_sent(way, go_on, over)


def _is_never_sent(way: str, make: Way, over: bool) -> None:
    goes_on = make()
    deal = Deal.objects.get()
    with at((deal.end_at if over else deal.start_at) + timedelta(hours=1)):
        goes_on()
        assert sent() == [], way
        publish_due(limit=10)
        drain()
        deal.refresh_from_db()
        is_undecided = deal.status in UNDECIDED  # its approval was refused; it expires
        assert is_undecided == (way in UNDECIDED_WAYS), (way, deal.status)
        if is_undecided:
            return
        assert deal.status in ("cancelled", "failed"), (way, deal.status)
        reason = AuditEntry.objects.filter(entity_id=deal.pk).latest("seq").reason
        assert reason.startswith(OVER if over else BEGUN), (way, reason)
        assert not Operation.objects.filter(settled_at=None).exists(), way
        assert not Approval.objects.filter(status="open").exists(), way
        assert Notification.objects.filter(kind="flight_begun", subject_id=deal.pk).count() == 1, way


# --- what an earlier attempt may have bought, and changes -----------------------------------------
def test_what_may_have_been_bought_is_looked_up_and_then_asked_about() -> None:
    """Nobody knows what became of the call: it is neither sent again for a flight that has begun nor called
    off; the seller is asked what it has, then people."""
    deal = make_deal()
    approve_deal(deal)
    operation = deal_book(deal=deal)
    claim_one(operation_id=operation.pk)
    observed(operation_id=operation.pk, seen=Seen(kind="no_answer", status="unknown"), channel="reply")
    give_back(operation.pk)
    with at(deal.start_at):
        for _ in range(3):
            Operation.objects.filter(pk=operation.pk, next_poll_at=None, looked_up_at=None).update(
                send_at=clock.now()
            )
            assert sent() == []
            Operation.objects.filter(pk=operation.pk).exclude(next_poll_at=None).update(
                next_poll_at=clock.now()
            )
            for call in claim_polls(limit=5):
                nothing = Seen(kind="answer", status="unknown", raw_status=NOT_FOUND)
                observed(operation_id=call.operation_id, seen=nothing, channel="reconcile")
                give_back(call.operation_id)
        time_out_due(limit=5)
        publish_due(limit=5)
    operation.refresh_from_db()
    assert (operation.status, operation.attempts) == ("timed_out", 1)
    assert fresh(deal).status == "booking"
    assert Approval.objects.filter(kind="overdue", status="open").exists()
    assert fresh(deal).status == "booking"


def moved(**dates: timedelta) -> tuple[Deal, Operation]:
    """A booked deal, and a change of its dates that an integrator asks for."""
    deal = booked()
    Seller.objects.update(slots=4)  # its media buy is read back too
    arguments = {name: (deal.start_at + by).isoformat() for name, by in dates.items()}
    wanted = {"media_buy_id": deal.media_buy_id, **arguments}
    user = make_user("Integration")
    ask = Ask(user=user, task="update_media_buy", seller=deal.seller, arguments=wanted)
    operation = change_ask(ask)
    Approval.objects.filter(status="open").update(due_at=clock.now() + timedelta(days=90))
    return deal, operation


def _change_decided() -> Callable[[], None]:
    def said() -> None:
        with pytest.raises(DecisionRefusedError):
            decide("deal_change", "approve")

    return said


def _change_held() -> Callable[[], None]:
    stopped()
    decide("deal_change", "approve")
    return lambda: stopped(on=False)


def _change_on_its_way() -> Callable[[], None]:
    decide("deal_change", "approve")
    return lambda: None


def _change_tried_again() -> Callable[[], None]:
    decide("deal_change", "approve")
    sends(Operation.objects.get(task_type="update_media_buy"))
    return lambda: None


def _change_turned_away() -> Callable[[], None]:
    decide("deal_change", "approve")
    turned_away(Operation.objects.get(task_type="update_media_buy"))
    return lambda: None


CHANGES: dict[str, Way] = {
    "decision": _change_decided,
    "held by the switch": _change_held,
    "on its way": _change_on_its_way,
    "tried again": _change_tried_again,
    "credentials are wanted": _change_turned_away,
}


def test_a_change_to_dates_that_have_passed_is_given_up_and_told() -> None:
    for way, go_on in CHANGES.items():
        with undone():
            _is_given_up(way, go_on)


def _is_given_up(way: str, make: Way) -> None:
    deal, operation = moved(start_time=timedelta(days=-3), end_time=timedelta(days=40))
    goes_on = make()
    with at(deal.start_at - timedelta(days=3)):
        goes_on()
        assert sent() == [], way
        operation.refresh_from_db()
        if way == "decision":  # it was refused: it can be rejected
            decide("deal_change", "reject")
            operation.refresh_from_db()
        assert operation.settled_at is not None, way
        publish_due(limit=10)
        assert not Approval.objects.filter(status="open").exists(), way
        assert not Change.objects.filter(closed_at=None).exists(), way


def test_a_change_that_moves_no_date_is_sent_while_the_flight_runs() -> None:
    """It names the start that there is, or only what still comes."""
    deal, _ = moved(start_time=timedelta(0), end_time=timedelta(days=40))
    with at(deal.start_at + timedelta(days=1)):
        decide("deal_change", "approve")
        (changed,) = sent()
        assert datetime.fromisoformat(changed["start_time"]) == deal.start_at


def _answer_on_its_way() -> Operation:
    """Released, and waiting for one of the seller's slots."""
    operation = paused(_purchase())
    answered(operation)
    decide("answer", "approve")
    return operation


def _answer_held_by_the_switch() -> Operation:
    operation = paused(_purchase())
    answered(operation)
    stopped()
    decide("answer", "approve")
    return operation


def _answer_by_new_credentials() -> Operation:
    operation = paused(_purchase(), "auth-required", "Who are you?")
    _renewed(operation.seller, "system")
    return operation


def _purchase() -> Operation:
    approve_deal(make_deal())
    return deal_book(deal=Deal.objects.get())


ANSWERS: dict[str, Callable[[], Operation]] = {
    "on its way": _answer_on_its_way,
    "held by the switch": _answer_held_by_the_switch,
    "new credentials": _answer_by_new_credentials,
}


@pytest.mark.parametrize("way", ANSWERS)
def test_an_answer_about_what_has_begun_is_not_sent_as_it_was(way: str) -> None:
    """It would send the whole purchase with its past start: the pause is answered anew, with new dates."""
    operation = ANSWERS[way]()
    deal = Deal.objects.get()
    Operation.objects.update(deadline_at=deal.end_at + timedelta(days=9))
    Continuation.objects.update(expires_at=deal.end_at + timedelta(days=9))
    with at(deal.start_at + timedelta(hours=1)):
        if stops().everywhere is not None:
            stopped(on=False)
        assert sent() == []
        assert Notification.objects.filter(kind="answer_held_back", subject_id=operation.pk).exists()
        with pytest.raises(SteeringRefusedError, match=BEGUN):
            answered(operation)
        later = {
            "start_time": (deal.start_at + timedelta(days=2)).isoformat(),
            "end_time": deal.end_at.isoformat(),
        }
        answered(operation, **later)
        assert Approval.objects.get(kind="answer", status="open").evidence["sent"]["start_time"]
        decide("answer", "approve")
        (bought,) = sent()
        assert bought["start_time"] == later["start_time"]


def test_an_answer_is_decided_before_its_flight_begins() -> None:
    start = clock.now().replace(microsecond=0) + timedelta(hours=2)
    approve_deal(make_deal(start_at=start, end_at=start + timedelta(days=5)))
    operation = paused(deal_book(deal=Deal.objects.get()))
    answered(operation)
    asked = Approval.objects.get(kind="answer", status="open")
    assert asked.due_at == start
    Approval.objects.update(due_at=start + timedelta(days=5))
    with at(start):
        with pytest.raises(DecisionRefusedError) as refused:
            decide("answer", "approve")
        assert refused.value.code == "changed"
        assert sent() == []


# --- the question -----------------------------------------------------------------------------------
def test_a_deal_is_decided_before_its_flight_begins() -> None:
    start = clock.now().replace(microsecond=0) + timedelta(hours=2)
    asked = ask_deal(make_deal(start_at=start, end_at=start + timedelta(days=5)))
    assert asked.due_at == start


def test_what_nobody_decided_before_its_flight_expires() -> None:
    start = clock.now().replace(microsecond=0) + timedelta(hours=2)
    deal = make_deal(start_at=start, end_at=start + timedelta(days=5))
    ask_deal(deal)
    with at(start):
        approvals_expire_due()
    assert fresh(deal).status == "expired"


def test_deal_book_refuses_what_has_begun() -> None:
    approve_deal(make_deal())
    deal = Deal.objects.get()
    with at(deal.start_at), pytest.raises(OperationRefusedError, match=BEGUN):
        deal_book(deal=fresh(deal))


@pytest.mark.rule
def test_a_purchase_leaves_through_one_door_and_that_asks() -> None:
    """Whatever is sent as it was frozen is read in one function, which asks whether it is still wanted before
    anything else is done with it."""
    tree = ast.parse(_DISPATCH.read_text())
    reads = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(one, ast.Attribute) and one.attr == "request_text" for one in ast.walk(node))
    ]
    assert [node.name for node in reads] == ["_take_send"]
    looks = next(
        one for one in ast.walk(reads[0]) if isinstance(one, ast.Call) and _name(one) == "is_still_wanted"
    )
    others = {"may_leave", "transition", "_call", "resend_is_safe"}
    later = [one.lineno for one in ast.walk(reads[0]) if isinstance(one, ast.Call) and _name(one) in others]
    assert later
    assert looks.lineno < min(later)


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""
