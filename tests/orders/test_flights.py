"""A flight that has begun, or is over, is never sent as it was, whichever way it would leave: people take new
dates, which are approved again, or call it off."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from campaigns.decisions import campaign_decide
from campaigns.models import Campaign
from orders.ask import Ask
from orders.changes.send import change_ask
from orders.flights import BEGUN, OVER
from orders.models import Deal
from orders.purchases import purchase_ask
from orders.questions import FLIGHT, ask_deal
from orders.services import deal_book
from tasks_app import clock, days, ids
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide, approvals_expire_due
from tasks_app.approvals.together import batch_decide
from tasks_app.commands.kill_switch import stops
from tasks_app.commands.questions import gates_ask_again
from tasks_app.jobs.worker import drain
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
from tasks_app.people.actors import actor_key
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
from tests.orders.live import booked, says
from tests.support import undone

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
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
    return lambda: _try(asked, budgets={1: 9000})


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


def _try(asked: Approval, **more: Any) -> None:
    with pytest.raises(DecisionRefusedError) as refused:
        approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve", **more)
    assert refused.value.code == "changed"


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


@pytest.mark.parametrize("way", WAYS)
def test_what_has_begun_is_never_sent_as_it_was(way: str) -> None:
    goes_on = WAYS[way]()
    deal = Deal.objects.get()
    for over in (False, True):
        with undone():
            _people_give_new_dates(deal, goes_on, over)
    _people_call_it_off(deal, goes_on)


def _people_give_new_dates(deal: Deal, goes_on: Callable[[], None], over: bool) -> None:
    when = (deal.end_at if over else deal.start_at) + timedelta(hours=1)
    with at(when):
        goes_on()
        assert sent() == []
        asked = Approval.objects.get(subject_id=deal.pk, status="open", subject_type="deal")
        assert (asked.kind, asked.evidence["passed"]) == (FLIGHT, OVER if over else BEGUN)

        approval_decide(
            approval_id=asked.pk,
            user=make_user("Approver"),
            verdict="approve",
            expected_digest=asked.evidence_digest,
        )

        assert sent() == [], "approved again first"
        again = Approval.objects.get(kind="deal", status="open")
        now = Deal.objects.get(pk=again.subject_id)
        assert (now.start_at, now.end_at) == (_moment(asked, "new_start"), _moment(asked, "new_end"))
        assert when < now.start_at < now.end_at
        assert deal.pk in (now.pk, now.follows_id)
        for _ in range(again.quorum):
            approval_decide(approval_id=again.pk, user=make_user("Approver"), verdict="approve")
        if stops().everywhere is not None:
            stopped(on=False)
        if now.campaign_id is not None:  # its job would
            deal_book(deal=fresh(now))
        (bought,) = sent()
        publish_due(limit=10)
        assert datetime.fromisoformat(bought["start_time"]) == now.start_at
        assert datetime.fromisoformat(bought["end_time"]) == now.end_at
        assert Deal.objects.filter(status="booking").get() == now
        assert not Approval.objects.filter(status="open").exists()


def _people_call_it_off(deal: Deal, goes_on: Callable[[], None]) -> None:
    with at(deal.start_at):
        goes_on()
        sent()
        decide(FLIGHT, "reject")
        assert sent() == []
        publish_due(limit=10)
        sent()
    assert fresh(deal).status == "cancelled"
    assert not Approval.objects.filter(status="open").exists()
    assert not Operation.objects.filter(settled_at=None).exists()


def _moment(asked: Approval, name: str) -> datetime:
    return datetime.fromisoformat(asked.evidence[name])


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
    assert not Approval.objects.filter(kind=FLIGHT).exists()


def test_what_was_turned_away_is_not_late_while_people_are_asked_for_new_dates() -> None:
    deal = make_deal()
    approve_deal(deal)
    operation = deal_book(deal=deal)
    claim_one(operation_id=operation.pk)
    observed(operation_id=operation.pk, seen=Seen(kind="answer", status="auth-required"), channel="reply")
    give_back(operation.pk)
    with at(deal.start_at):
        Operation.objects.update(send_at=clock.now(), deadline_at=clock.now())
        assert sent() == []
        assert Approval.objects.filter(kind=FLIGHT, status="open").exists()
        time_out_due(limit=5)
        operation.refresh_from_db()
        assert operation.status == "auth_required"
        decide(FLIGHT, "reject")
        sent()
    assert fresh(deal).status == "cancelled"
    assert not Approval.objects.filter(status="open").exists()


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


@pytest.mark.parametrize("verdict", ["approve", "reject"])
@pytest.mark.parametrize("way", CHANGES)
def test_a_change_to_dates_that_have_passed_is_not_sent(way: str, verdict: str) -> None:
    deal, operation = moved(start_time=timedelta(days=-3), end_time=timedelta(days=40))
    goes_on = CHANGES[way]()
    with at(deal.start_at - timedelta(days=3)):
        goes_on()
        assert sent() == []
        asked = Approval.objects.get(kind="deal_change", status="open")
        assert (asked.evidence["passed"], asked.evidence["operation_id"]) == (BEGUN, str(operation.pk))
        offered = json.loads(asked.evidence["new_dates"])
        assert datetime.fromisoformat(offered["start_time"]) == _moment(asked, "new_start")
        decide("deal_change", verdict)
        assert sent() == []
        operation.refresh_from_db()
        assert operation.settled_at is not None
        if verdict == "reject":
            assert not Approval.objects.filter(kind="deal_change", status="open").exists()
            return
        again = Approval.objects.get(kind="deal_change", status="open")
        assert again.pk != asked.pk
        assert "passed" not in again.evidence
        decide("deal_change", "approve")
        (changed,) = sent()
        assert datetime.fromisoformat(changed["start_time"]) == _moment(asked, "new_start") > clock.now()
        assert datetime.fromisoformat(changed["end_time"]) == deal.start_at + timedelta(days=40)


@pytest.mark.parametrize("way", [name for name in CHANGES if name not in ("decision", "held by the switch")])
def test_a_change_whose_dates_have_passed_while_another_is_asked_about_is_given_up(way: str) -> None:
    """Two are not asked about at once: who asked for the first is told, and may ask again."""
    deal, first = moved(start_time=timedelta(days=-3), end_time=timedelta(days=40))
    CHANGES[way]()
    arguments = {"media_buy_id": deal.media_buy_id, "packages": [{"package_id": "pkg-1", "budget": 20000}]}
    second = change_ask(
        Ask(user=make_user("Integration"), task="update_media_buy", seller=deal.seller, arguments=arguments)
    )
    Approval.objects.filter(status="open").update(due_at=clock.now() + timedelta(days=90))
    with at(deal.start_at - timedelta(days=3)):
        assert sent() == []
        first.refresh_from_db()
        asked = Approval.objects.get(status="open")
        assert (first.settled_at is not None, first.published_at) == (True, None)
        assert asked.reference in first.message
        assert asked.evidence["operation_id"] == str(second.pk)
        publish_due(limit=10)
        assert Approval.objects.get(status="open").pk == asked.pk


@pytest.mark.parametrize("way", [name for name in CHANGES if name not in ("decision", "held by the switch")])
def test_a_change_whose_dates_have_passed_of_a_deal_that_is_over_is_given_up(way: str) -> None:
    deal, change = moved(start_time=timedelta(days=-3), end_time=timedelta(days=40))
    CHANGES[way]()
    says(fresh(deal), "canceled", revision=9)
    assert fresh(deal).status == "cancelled"
    with at(deal.start_at - timedelta(days=3)):
        assert sent() == []
        change.refresh_from_db()
        assert change.settled_at is not None
        assert not Approval.objects.filter(status="open").exists()


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


def test_what_is_put_forward_too_late_is_asked_for_new_dates_at_once() -> None:
    start = clock.now().replace(microsecond=0) - timedelta(hours=2)
    deal = make_deal(start_at=start, end_at=start + timedelta(days=20))
    asked = ask_deal(deal)
    assert (asked.kind, asked.evidence["passed"]) == (FLIGHT, BEGUN)
    assert _moment(asked, "new_end") == deal.end_at, "it ends as it would have"
    first = days.day_of(_moment(asked, "new_start"), deal.zone)
    assert first - days.today(deal.zone) == timedelta(days=2)
    Approval.objects.update(due_at=start + timedelta(days=9))
    with at(clock.now() + timedelta(days=1)):  # still ahead: what was shown holds
        assert decide(FLIGHT, "approve").status == "approved"
    deal = fresh(deal)
    assert (deal.status, deal.start_at, deal.follows) == ("quoted", _moment(asked, "new_start"), None)
    assert {line.start_at for line in deal.lines.all()} == {deal.start_at}
    assert Approval.objects.get(kind="deal", status="open").subject_id == deal.pk


def test_new_dates_that_have_come_too_close_are_shown_anew() -> None:
    start = clock.now().replace(microsecond=0) - timedelta(hours=2)
    asked = ask_deal(make_deal(start_at=start, end_at=start + timedelta(days=20)))
    Approval.objects.update(due_at=start + timedelta(days=15))
    with at(_moment(asked, "new_start")):
        with pytest.raises(DecisionRefusedError) as refused:
            decide(FLIGHT, "approve")
        assert refused.value.code == "changed"
        again = Approval.objects.get(status="open")
        assert (again.kind, again.replaces) == (FLIGHT, asked)
        assert _moment(again, "new_start") > clock.now()


def test_an_approved_deal_is_asked_about_until_somebody_decides() -> None:
    approve_deal(make_deal())
    deal = Deal.objects.get()
    with at(deal.start_at):
        drain()
    first = Approval.objects.get(kind=FLIGHT)
    with at(first.due_at):
        approvals_expire_due()
    again = Approval.objects.get(kind=FLIGHT, status="open")
    assert again.pk != first.pk
    assert fresh(deal).status == "accepted"


def test_an_integrators_purchase_keeps_all_that_was_asked_for() -> None:
    operation = asked_for()
    deal = Deal.objects.get()
    Approval.objects.update(due_at=deal.end_at)
    with at(deal.start_at):
        _try(Approval.objects.get(status="open"))
        asked = Approval.objects.get(kind=FLIGHT)
        decide(FLIGHT, "approve")
        new = Operation.objects.exclude(pk=operation.pk).get(task_type="create_media_buy")
        assert new.requested_by == operation.requested_by == asked.requested_by
        assert Approval.objects.get(status="open").opened_by == "system"
    assert new.request["invoice_recipient"] == operation.request["invoice_recipient"]
    start, end = (datetime.fromisoformat(new.request[name]) for name in ("start_time", "end_time"))
    assert (start, end) == (_moment(asked, "new_start"), _moment(asked, "new_end"))
    second = new.request["packages"][1]
    assert start <= datetime.fromisoformat(second["start_time"]) < datetime.fromisoformat(second["end_time"])
    assert datetime.fromisoformat(second["end_time"]) <= end
    assert Operation.objects.get(pk=operation.pk).status == "canceled"


def test_who_asked_decides_neither_on_new_dates_nor_on_what_follows() -> None:
    asker = make_user("Administrator")
    deal = make_deal(requested_by=actor_key(asker))
    approve_deal(deal)
    with at(deal.start_at):
        drain()
        for kind in (FLIGHT, "deal"):
            with pytest.raises(DecisionRefusedError) as refused:
                decide(kind, "approve", user=asker)
            assert refused.value.code == "own_request"
            decide(kind, "approve")


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


def test_it_is_in_the_queue_on_its_pages_and_in_the_api() -> None:
    asked_for()
    decide("deal", "approve")
    deal = Deal.objects.get()
    with at(deal.start_at):
        drain()
        asked = Approval.objects.get(kind=FLIGHT)
        approver = make_user("Approver", is_staff=True)
        browser, api = Client(), APIClient()
        browser.force_login(approver, backend="tasks_app.people.holders.RoleBackend")
        api.force_authenticate(approver)
        page = browser.get(reverse("admin:tasks_app_approval_change", args=[asked.pk])).content.decode()
        queue = browser.get(reverse("admin:tasks_app_approval_changelist")).content.decode()
        deals = browser.get(reverse("admin:orders_deal_change", args=[deal.pk])).content.decode()
        told = api.get(f"/api/v1/approvals/{asked.pk}/").json()
        operation = api.get(f"/api/v1/operations/{Operation.objects.get().pk}/").json()
    for shown in (BEGUN, "New flight", "Takes the new dates", "Calls the deal off"):
        assert shown in page
    assert asked.reference in queue
    assert asked.reference in deals
    assert told["effects"]["approve"].startswith("Takes the new dates")
    assert (told["evidence"]["passed"], operation["approval_id"]) == (BEGUN, str(asked.pk))
