"""Operations on every ground that they may stand on: held, out, asked of us, answered, overdue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from orders.services import deal_book
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.answers import operation_answer
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.overdue import wait_on
from tasks_app.operations.steering import operation_settle
from tasks_app.sellers.models import Account, Seller, SellerBreaker
from tests.boundary.conftest import answered
from tests.factories import approve_deal, make_account, make_advertiser, make_deal, make_seller, make_user
from tests.operations.making import (
    TASK,
    answer,
    failed,
    fresh,
    give_back,
    not_sent,
    see,
    silent,
    stand,
    unknown,
)
from tests.operations.pausing import pause, release
from tests.orders.asking import asked


def _unsent() -> Operation:
    """A purchase that is to be sent next."""
    deal = make_deal()
    approve_deal(deal)
    return deal_book(deal=deal)


def _reached_nobody() -> Operation:
    """A purchase that left for a seller that did not take the connection; to be sent again."""
    operation = _unsent()
    assert claim_one(operation_id=operation.pk) is not None
    see(operation, not_sent())
    return fresh(operation)


def _stopped() -> Operation:
    return _then_stopped(_unsent())


def _kept_back(operation: Operation, what: str) -> Operation:
    """It is due to be sent, and something beside people and gates is in its way."""
    status, _, off_by = what.partition(" ")
    if status in Account.Status.values:
        account = operation.account or make_account(make_advertiser(), operation.seller)
        Account.objects.filter(pk=account.pk).update(status=status, switched_off_by=off_by)
        Operation.objects.filter(pk=operation.pk).update(account=account)
        return operation
    columns: dict[str, dict[str, Any]] = {
        "off": {"active": False},
        "risk": {"idempotency_ttl_s": None},
        "tool": {"tools": ["get_products"]},
        "alone": {},
    }
    Seller.objects.update(**columns[what])
    if what == "alone":
        soon = clock.now() + timedelta(minutes=5)
        SellerBreaker.objects.create(seller=operation.seller, state="open", failures=5, probe_at=soon)
    return operation


KEPT_BACK = ("suspended", "suspended system", "pending_approval", "closed", "off", "risk", "tool", "alone")


def _at_the_switch() -> Operation:
    """Taken off the way by the kill switch, while people are asked whether it passes."""
    operation = _stopped()
    Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
    assert claim_sends(limit=10) == []
    return operation


def _lost_long_ago() -> Operation:
    """Its seller may have it, and recognises its key no longer."""
    month = clock.now() - timedelta(days=30)
    return stand(S.CALLING_ADCP, send_at=clock.now(), sent_at=month)


def _at_gate(what: str) -> Operation:
    asked(what, make_user("Administrator"))
    return Operation.objects.get(task_type="create_media_buy")


def _turned_away(*, stopped: bool = False, gate: bool = False) -> Operation:
    """A purchase whose seller wants other credentials; due to be sent again, or taken off the way since."""
    operation = _unsent()
    assert claim_one(operation_id=operation.pk) is not None
    see(operation, answer("auth-required"))
    if stopped:
        kill_switch_set(on=True, reason="A drill", actor="system")
    if gate:
        Seller.objects.update(active=False)
        Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
        assert claim_sends(limit=10) == []
    return operation


def _waited_on_at_a_gate() -> Operation:
    """Turned away until it was overdue; people wait on, and a gate has closed since."""
    operation = fresh(_turned_away())
    overdue = {"overdue_at": clock.now(), "overdue_told_at": clock.now(), "send_at": None}
    transition(operation, S.TIMED_OUT, actor="system", changes=overdue)
    wait_on(fresh(operation), actor="system", reason="They said soon", send_again=True)
    Seller.objects.update(active=False)
    assert claim_sends(limit=10) == []
    return operation


def _waited_on(operation: Operation) -> Operation:
    """Overdue; people wait on, and have the same sent again."""
    overdue = {"overdue_at": clock.now(), "overdue_told_at": clock.now(), "send_at": None}
    transition(operation, S.TIMED_OUT, actor="system", changes=overdue)
    wait_on(fresh(operation), actor="system", reason="They said soon", send_again=True)
    return operation


def _then_stopped(operation: Operation) -> Operation:
    kill_switch_set(on=True, reason="A drill", actor="system")
    return operation


def _told_of_by(*tools: str, **columns: Any) -> Operation:
    """With a seller that lists these tools beside those of buying."""
    seller = make_seller(tools=["get_products", "create_media_buy", *tools])
    return stand(S.SUBMITTED, seller=seller, next_poll_at=clock.now() + timedelta(minutes=1), **columns)


def _told_by_webhook(*tools: str) -> Operation:
    operation = _told_of_by(*tools)
    Seller.objects.update(webhook_mode=Seller.WebhookMode.HMAC)
    return operation


def _gate_then_stopped() -> Operation:
    operation = _at_gate("a purchase at a gate")
    kill_switch_set(on=True, reason="A drill", actor="system")
    return operation


def _overdue_untold() -> Operation:
    return stand(S.TIMED_OUT, seller=make_seller(tools=["get_products", "create_media_buy"]))


def _paused(
    task: str = "create_media_buy",
    *,
    good_for: timedelta = timedelta(days=9),
    status: str = S.INPUT_REQUIRED,
    **columns: Any,
) -> Operation:
    """Its seller asks, over a transport that can be continued."""
    operation = stand(status, task, deadline_at=clock.now() + timedelta(days=1), **columns)
    pause(operation, good_for=good_for)
    return operation


def _answered(task: str = "create_media_buy", *, status: str = S.INPUT_REQUIRED, **columns: Any) -> Operation:
    """Its question is answered; what changes something waits for somebody else to release that."""
    operation = _paused(task, status=status, **columns)
    operation_answer(operation_id=operation.pk, generation=1, user=make_user("Ad Ops"), text="Sweden.")
    return operation


def _released(*, stopped: bool = False, status: str = S.INPUT_REQUIRED) -> Operation:
    """The answer is let go; `stopped`: held at the kill switch at once."""
    operation = _answered(status=status)
    if stopped:
        kill_switch_set(on=True, reason="A drill", actor="system")
    release()
    return operation


def _answer_stopped() -> Operation:
    """The kill switch is turned once the answer is let go, and nobody has come by since."""
    operation = _released()
    kill_switch_set(on=True, reason="A drill", actor="system")
    return operation


def _answer_found_stopped() -> Operation:
    operation = _answer_stopped()
    assert claim_sends(limit=10) == []
    return operation


def _answer_asked_while_stopped() -> Operation:
    operation = _answered()
    kill_switch_set(on=True, reason="A drill", actor="system")
    return operation


def _answer_of_a_seller_that(**columns: Any) -> Operation:
    operation = _released()
    Seller.objects.update(**columns)
    return operation


def _answer_under_account(status: str, *, off_by: str = "") -> Operation:
    """Its account was active when the answer was let go, and is not any more."""
    operation = _released()
    account = make_account(make_advertiser(), operation.seller, status)
    Account.objects.update(switched_off_by=off_by)
    Operation.objects.update(account=account)
    return operation


def _let_past_a_seller_that_is_off() -> Operation:
    """People let its order pass although its seller is off; then it asked, and was answered."""
    operation = fresh(_turned_away(gate=True))
    question, noor = Approval.objects.get(status="open"), make_user("Approver", name="Noor")
    approval_decide(approval_id=question.pk, user=noor, verdict="approve", comment="So.")
    return _answered_now(operation)


def _released_now(operation: Operation) -> Operation:
    release()
    return operation


def _replays_no_key(operation: Operation) -> Operation:
    Seller.objects.update(idempotency_ttl_s=None)
    return operation


def _answered_now(operation: Operation) -> Operation:
    pause(operation)
    operation_answer(operation_id=operation.pk, generation=1, user=make_user("Ad Ops"), text="Sweden.")
    return operation


def _answer_and(status: str, channel: str = "poll", operation: Operation | None = None) -> Operation:
    """An answer is to be sent, and its seller says something else meanwhile."""
    operation = operation or _released()
    says = unknown if status == "unheard of" else answer
    see(operation, says(status, task_id=TASK), channel)
    return operation


def _answer_worked_on() -> Operation:
    """The reply to the answer says no more than that one of the same key is worked on."""
    operation = _answer_left(_released(), out=True)
    see(operation, failed("IDEMPOTENCY_IN_FLIGHT", "transient"))
    return operation


def _answer_lost_and_waited_on() -> Operation:
    """Nobody knows whether the answer arrived, people wait on, and the seller says that it asks."""
    operation = _waited_on(fresh(_answer_lost()))
    see(operation, answer("input-required", task_id=TASK), "poll")
    return operation


def _answer_and_settled() -> Operation:
    """It is to be sent, and somebody proposes an end of the operation by hand."""
    operation = _released()
    operation_settle(
        operation_id=operation.pk,
        user=make_user("Ad Ops", name="Sol"),
        end="failed",
        reason="They wrote",
        evidence="Letter of 19 November, no. 44",
    )
    return operation


def _answer_left(operation: Operation, *, out: bool = False) -> Operation:
    """The answer has left; `out`: its call is out still, else that was lost."""
    assert len(claim_sends(limit=10)) == 1
    if not out:
        give_back(operation.pk)
    return operation


def _answer_waited_on() -> Operation:
    """Overdue while its answer was to be sent; people wait on."""
    operation = _overdue_with_an_answer()
    wait_on(fresh(operation), actor="system", reason="They said soon", send_again=True)
    return operation


def _overdue_with_an_answer() -> Operation:
    operation = fresh(_released())
    overdue = {"overdue_at": clock.now(), "overdue_told_at": clock.now(), "send_at": None}
    transition(operation, S.TIMED_OUT, actor="system", changes=overdue)
    return operation


def _answer_of_another_protocol() -> Operation:
    operation = _answer_of_a_seller_that(protocol="mcp")
    assert claim_sends(limit=10) == []
    return operation


def _asks_again() -> Operation:
    operation = _released()
    see(operation, answer("input-required", task_id=TASK), "poll")
    return operation


def _answer_lost() -> Operation:
    operation = _answer_left(_released(), out=True)
    see(operation, silent())
    return operation


def _asks_anew() -> Operation:
    operation = _answer_lost()
    for status in ("working", "input-required"):
        see(operation, answer(status, task_id=TASK), "poll")
    return operation


def _let_past() -> Operation:
    operation = _released(stopped=True)
    answered("approve")
    return operation


def _read_answered_while_stopped() -> Operation:
    operation = _then_stopped(_paused("get_products"))
    operation_answer(operation_id=operation.pk, generation=1, user=make_user("Ad Ops"), text="Sweden.")
    return operation


ANSWERS: dict[str, Callable[[], Operation]] = {
    "its answer is with people": _answered,
    "its answer is with people, stopped": _answer_asked_while_stopped,
    "its answer is to be sent": _released,
    "its answer is to be sent, stopped": _answer_stopped,
    "its answer is to be sent, its seller off": lambda: _answer_of_a_seller_that(active=False),
    "its answer is to be sent, its seller replays no key": lambda: _answer_of_a_seller_that(
        idempotency_ttl_s=None
    ),
    "its answer is to be sent, its seller off, stopped": lambda: _then_stopped(
        _answer_of_a_seller_that(active=False)
    ),
    "its answer is to be sent, its seller left alone": lambda: _kept_back(_released(), "alone"),
    "its answer is to be sent, its account suspended": lambda: _answer_under_account("suspended"),
    "its answer is to be sent, its account switched off here": lambda: _answer_under_account(
        "suspended", off_by="system"
    ),
    "its answer is to be sent, its account suspended, stopped": lambda: _then_stopped(
        _answer_under_account("suspended")
    ),
    "its answer is to be sent, and its seller tells nothing known": lambda: _answer_and("unheard of"),
    "its answer is to be sent, and its seller goes on": lambda: _answer_and("submitted"),
    "its answer is to be sent, waited on, and its seller goes on": lambda: _answer_and(
        "submitted", operation=_answer_waited_on()
    ),
    "its answer is to be sent, waited on, and its seller went on": lambda: _answer_and(
        "submitted", "webhook", _answer_waited_on()
    ),
    "its answer is to be sent, and an end is proposed": _answer_and_settled,
    "its answer is worked on": _answer_worked_on,
    "its answer was lost, waited on, and its seller says that it asks": _answer_lost_and_waited_on,
    "its order passes its seller that is off, which replays no key": lambda: _replays_no_key(
        _released_now(_let_past_a_seller_that_is_off())
    ),
    "its order waits at a gate, and its answer is with people": lambda: _answered_now(
        fresh(_waited_on_at_a_gate())
    ),
    "its order passes its seller that is off, and its answer is with people": _let_past_a_seller_that_is_off,
    "its order passes its seller that is off, and its answer is to be sent": lambda: _released_now(
        _let_past_a_seller_that_is_off()
    ),
    "its answer is at the switch": lambda: _released(stopped=True),
    "its answer was found at the switch": _answer_found_stopped,
    "its answer has left": lambda: _answer_left(_released()),
    "its answer is out": lambda: _answer_left(_released(), out=True),
    "a read whose answer is to be sent": lambda: _answered("get_products"),
    "a read whose answer has left": lambda: _answer_left(_answered("get_products")),
    "credentials were given, with people": lambda: _answered(status=S.AUTH_REQUIRED),
    "credentials were given, to be sent": lambda: _released(status=S.AUTH_REQUIRED),
    "credentials were given, at the switch": lambda: _released(status=S.AUTH_REQUIRED, stopped=True),
    "credentials were given, left": lambda: _answer_left(_released(status=S.AUTH_REQUIRED)),
    "waited on, its answer to be sent": _answer_waited_on,
    "overdue, its answer not sent": _overdue_with_an_answer,
    "its answer is to be sent, and its seller says again that it asks": _asks_again,
    "its answer was lost": _answer_lost,
    "its answer was lost, and its seller asks anew": _asks_anew,
    "its answer was let past the switch": _let_past,
    "its answer was given, and its seller speaks MCP now": _answer_of_another_protocol,
    "a read that was answered while all is stopped": _read_answered_while_stopped,
    "waited on, its question open": lambda: _waited_on(fresh(_paused())),
    "credentials were told of in words, and it is sent again": lambda: _answered(
        status=S.AUTH_REQUIRED, task_id="", send_at=clock.now()
    ),
}
GROUNDS: dict[str, Callable[[], Operation]] = {
    **ANSWERS,
    "its question can be answered": _paused,
    "its question is too old to be answered": lambda: _paused(good_for=-timedelta(minutes=1)),
    "a read whose question can be answered": lambda: _paused("get_products"),
    "to be sent": _unsent,
    **{f"to be sent, {what}": lambda w=what: _kept_back(_unsent(), w) for what in KEPT_BACK},  # type: ignore[misc]
    **{
        f"its call is lost, {what}": lambda w=what: _kept_back(  # type: ignore[misc]
            stand(S.CALLING_ADCP, send_at=clock.now()), w
        )
        for what in KEPT_BACK
    },
    **{
        f"waited on, to be sent again, {what}": lambda w=what: _kept_back(  # type: ignore[misc]
            _waited_on(fresh(_turned_away())), w
        )
        for what in KEPT_BACK
    },
    "its call reached nobody, its account suspended": lambda: _kept_back(_reached_nobody(), "suspended"),
    "its call reached nobody, its account closed": lambda: _kept_back(_reached_nobody(), "closed"),
    "its call reached nobody, its seller left alone": lambda: _kept_back(_reached_nobody(), "alone"),
    "its call reached nobody": _reached_nobody,
    "turned away, its account suspended": lambda: _kept_back(_turned_away(), "suspended"),
    "turned away, its account closed": lambda: _kept_back(_turned_away(), "closed"),
    "turned away, its seller left alone": lambda: _kept_back(_turned_away(), "alone"),
    **{
        f"{where}, {what}": lambda m=make, w=what: _kept_back(m(), w)  # type: ignore[misc]
        for where, make in {
            "to be sent, stopped": _stopped,
            "its call reached nobody, stopped": lambda: _then_stopped(_reached_nobody()),
            "at the switch": _at_the_switch,
            "at a gate after one try": lambda: _at_gate("a purchase at a gate"),
            "at a gate, waited on": _waited_on_at_a_gate,
        }.items()
        for what in KEPT_BACK
    },
    "its call was lost long ago": _lost_long_ago,
    "its call was lost long ago, stopped": lambda: _then_stopped(_lost_long_ago()),
    "its call was lost long ago, its seller left alone": lambda: _kept_back(_lost_long_ago(), "alone"),
    "its call is out, its seller off": lambda: _kept_back(
        stand(S.CALLING_ADCP, send_at=clock.now(), out_until=clock.now() + timedelta(hours=1)), "off"
    ),
    "a read that is to be sent, its seller off": lambda: _kept_back(
        stand(S.REQUESTED, "get_products"), "off"
    ),
    "a read that is to be sent, its seller left alone": lambda: _kept_back(
        stand(S.REQUESTED, "get_products"), "alone"
    ),
    "a read whose call is lost, its seller left alone": lambda: _kept_back(
        stand(S.CALLING_ADCP, "get_products", send_at=clock.now()), "alone"
    ),
    "to be sent, stopped": _stopped,
    "at a gate, stopped before it was sent": lambda: _at_gate("a purchase that is stopped"),
    "at a gate after one try": lambda: _at_gate("a purchase at a gate"),
    "at a gate after one try, stopped": _gate_then_stopped,
    "its call is lost": lambda: stand(S.CALLING_ADCP, send_at=clock.now()),
    "it is looked up": lambda: stand(S.CALLING_ADCP, send_at=None, next_poll_at=clock.now()),
    "its call is lost, stopped": lambda: _then_stopped(stand(S.CALLING_ADCP, send_at=clock.now())),
    "waited on, to be sent again": lambda: _waited_on(fresh(_turned_away())),
    "waited on, to be sent again, stopped": lambda: _then_stopped(_waited_on(fresh(_turned_away()))),
    "its call is out, stopped": lambda: _then_stopped(
        stand(S.CALLING_ADCP, send_at=clock.now(), out_until=clock.now() + timedelta(hours=1))
    ),
    "its seller asks, and the same is sent again": lambda: stand(S.INPUT_REQUIRED, send_at=clock.now()),
    "its seller asks, and the same is stopped": lambda: _then_stopped(
        stand(S.INPUT_REQUIRED, send_at=clock.now())
    ),
    "sent again by hand": lambda: stand(S.SUBMITTED, send_at=clock.now()),
    "sent again by hand, stopped": lambda: _then_stopped(stand(S.SUBMITTED, send_at=clock.now())),
    "waited on, its answer lost": lambda: _waited_on(fresh(_answer_left(_released()))),
    "its call is out": lambda: stand(S.CALLING_ADCP, out_until=clock.now() + timedelta(hours=1)),
    "turned away": _turned_away,
    "turned away, stopped": lambda: _turned_away(stopped=True),
    "at a gate, turned away": lambda: _turned_away(gate=True),
    "at a gate, turned away, stopped": lambda: _turned_away(stopped=True, gate=True),
    "at a gate, waited on": _waited_on_at_a_gate,
    "its seller tells of no task": _told_of_by,
    "its seller has a tool of another name": lambda: _told_of_by("get_task"),
    "its seller tells by webhook": lambda: _told_by_webhook("get_task_status"),
    "its seller tells by webhook alone": _told_by_webhook,
    "its task has no name": lambda: _told_of_by("list_tasks", task_id=""),
    "its task has no name and cannot be looked for": lambda: _told_of_by(task_id=""),
    "overdue, its seller tells of no task": _overdue_untold,
    "a read whose call is lost": lambda: stand(S.CALLING_ADCP, "get_products", send_at=clock.now()),
    **{
        f"a read that is {status}": lambda s=status: stand(s, "get_products")  # type: ignore[misc]
        for status in (S.SUBMITTED, S.WORKING, S.INPUT_REQUIRED, S.AUTH_REQUIRED, S.TIMED_OUT)
    },
    **{
        status: lambda s=status: stand(s)  # type: ignore[misc]
        for status in (S.SUBMITTED, S.WORKING, S.INPUT_REQUIRED, S.AUTH_REQUIRED, S.TIMED_OUT, S.COMPLETED)
    },
}
