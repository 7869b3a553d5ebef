"""Nothing is bought or changed under an account that is not active, whatever was let go before: it waits,
ends with the account, or is looked up at the seller; cancellations go on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from orders.acts import deal_cancel_ask
from orders.ask import Ask, AskRefusedError
from orders.changes.send import change_ask
from orders.models import Deal
from orders.services import deal_book
from tasks_app import clock
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.lease import CallLease
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.overdue import wait_on
from tasks_app.operations.publish import publish_due
from tasks_app.sellers.accounts import AWAITED, ENDED
from tasks_app.sellers.accounts_told import account_record
from tasks_app.sellers.models import Account, Seller, SellerBreaker
from tests.factories import approve_deal, make_account, make_advertiser, make_deal, make_user
from tests.operations.making import ask, give_back, not_sent, observed, silent
from tests.orders.late import answered, decide, paused
from tests.orders.live import booked

pytestmark = pytest.mark.django_db


def _purchase() -> Operation:
    approve_deal(make_deal())
    return deal_book(deal=Deal.objects.get())


def _changed(**arguments: Any) -> Operation:
    deal = booked()
    return _asked(deal, packages=[{"package_id": "pkg-1", "budget": 20_000}], **arguments)


def _asked(deal: Deal, **arguments: Any) -> Operation:
    told = {"media_buy_id": deal.media_buy_id, **arguments}
    asker = make_user("Integration")
    return change_ask(Ask(user=asker, task="update_media_buy", seller=deal.seller, arguments=told))


def _change() -> Operation:
    operation = _changed()
    decide("deal_change", "approve")
    return operation


def _again() -> Operation:
    """A purchase that was tried, and never arrived."""
    operation = _purchase()
    _try(operation, not_sent())
    return operation


def _answer() -> Operation:
    operation = paused(_purchase())
    answered(operation)
    decide("answer", "approve")
    return operation


def _try(operation: Operation, seen: Any) -> None:
    assert claim_one(operation_id=operation.pk) is not None
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    give_back(operation.pk)
    Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())


ORDERS: dict[str, Callable[[], Operation]] = {
    "a purchase": _purchase,
    "a change": _change,
    "one tried again": _again,
    "an answer": _answer,
}


def becomes(status: str) -> None:
    """Its seller says so."""
    account = Account.objects.select_related("seller", "advertiser").get()
    answer = {"status": status, **account.reference}
    account_record(advertiser=account.advertiser, seller=account.seller, answer=answer)


def leaves() -> list[str]:
    Seller.objects.update(slots=9)
    return [call.tool for call in claim_sends(limit=9) if call.tool.endswith("media_buy")]


@pytest.mark.parametrize("status", AWAITED)
@pytest.mark.parametrize("what", ORDERS)
def test_it_waits_for_the_account_however_long_and_then_leaves(what: str, status: str) -> None:
    """For an answer its seller waits: when that is overdue, people say whether they wait on."""
    operation = ORDERS[what]()
    becomes(status)
    assert leaves() == []
    later = operation.deadline_at + timedelta(hours=1)
    before, asked = Operation.objects.values_list("status", "message").get(pk=operation.pk)
    with clock.injected(lambda: later - timedelta(hours=2)):
        assert leaves() == []
    with clock.injected(lambda: later):
        assert leaves() == []
        time_out_due(limit=9)
        now = Operation.objects.get(pk=operation.pk)
        if what == "an answer":
            assert (now.status, now.message) == (S.TIMED_OUT, asked)
            wait_on(now, actor="system", reason="The account comes", send_again=True)
        else:
            assert (now.status, now.message.startswith("The account with")) == (before, True)
        becomes("active")
        Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
        assert len(leaves()) == 1


@pytest.mark.parametrize("status", ENDED)
@pytest.mark.parametrize("what", ORDERS)
def test_it_ends_with_the_account(what: str, status: str) -> None:
    operation = ORDERS[what]()
    Account.objects.update(status=status)
    assert leaves() == []
    publish_due(limit=9)
    now = Operation.objects.get(pk=operation.pk)
    if what == "an answer":  # the seller has it: people answer anew, or stop waiting
        assert (now.status, now.send_at) == (S.INPUT_REQUIRED, None)
        return
    assert now.status in (S.CANCELED, S.FAILED)
    assert "account with" in now.message
    assert (Deal.objects.get().status in ("cancelled", "failed")) == (what != "a change")


@pytest.mark.parametrize("status", [*AWAITED, *ENDED])
def test_what_may_have_been_bought_is_looked_up(status: str) -> None:
    operation = _purchase()
    _try(operation, silent())
    Account.objects.update(status=status)
    assert leaves() == []
    now = Operation.objects.get(pk=operation.pk)
    assert (now.status, now.send_at, now.next_poll_at is not None) == (S.CALLING_ADCP, None, True)


@pytest.mark.parametrize("status", [*AWAITED, *ENDED])
def test_a_cancellation_goes_on_and_another_change_is_refused_in_words(status: str) -> None:
    deal = booked()
    Account.objects.update(status=status)
    with pytest.raises(AskRefusedError, match="the account with"):
        _asked(deal, packages=[{"package_id": "pkg-1", "budget": 20_000}])
    deal_cancel_ask(deal_id=deal.pk, user=make_user("Buyer"), reason="Enough")
    decide("deal_change", "approve")
    assert leaves() == ["update_media_buy"]


def beside_another(slots: int) -> tuple[Operation, Operation]:
    """An order that waits for its account, due before another whose account is active, at one seller."""
    kept = _purchase()
    becomes("suspended")
    other = make_account(advertiser=make_advertiser("Beta"), seller=kept.seller)
    asked = ask("create_media_buy", seller=kept.seller, account=other)
    Seller.objects.update(slots=slots)
    Operation.objects.filter(pk=kept.pk).update(turn_at=clock.now() - timedelta(hours=1))
    return kept, asked


@pytest.mark.parametrize("batch", [None, 200])
def test_what_waits_for_its_account_is_no_probe_of_a_seller_that_failed(batch: int | None) -> None:
    kept, other = beside_another(slots=1)
    row = SellerBreaker.objects.create(seller=kept.seller, state="open", failures=5, probe_at=clock.now())
    assert claim_sends(limit=9, batch=batch) == []
    now = SellerBreaker.objects.get()
    assert (now.state, now.probe_at) == (row.state, row.probe_at), "no call is out that would probe it"
    assert not CallLease.objects.exists()
    assert [call.operation_id for call in claim_sends(limit=9, batch=batch)] == [other.pk]
    assert SellerBreaker.objects.get().state == "half-open"


def test_what_waits_for_its_account_is_looked_at_after_what_may_leave() -> None:
    """It has the seller's one slot once; afterwards it is due again only after the other."""
    kept, other = beside_another(slots=1)
    assert claim_sends(limit=9) == []
    Operation.objects.filter(pk=kept.pk).update(send_at=clock.now())
    assert [call.operation_id for call in claim_sends(limit=9)] == [other.pk]


@pytest.mark.parametrize("status", AWAITED)
def test_a_flight_that_began_ends_its_deal_though_its_account_is_awaited(status: str) -> None:
    operation = _purchase()
    becomes(status)
    with clock.injected(lambda: Deal.objects.get().start_at + timedelta(hours=1)):
        assert leaves() == []
    assert Operation.objects.get(pk=operation.pk).status == "canceled"
    assert Deal.objects.get().status == "failed"


def _cancellation() -> Operation:
    deal_cancel_ask(deal_id=booked().pk, user=make_user("Buyer"), reason="The client withdrew.")
    decide("deal_change", "approve")
    return Operation.objects.get(task_type="update_media_buy")


def _lost() -> Operation:
    """A purchase whose answer did not come."""
    operation = _purchase()
    _try(operation, silent())
    return Operation.objects.get(pk=operation.pk)


def _read() -> Operation:
    operation = _purchase()
    return ask("get_products", seller=operation.seller, account=operation.account)


NOT_FOR_IT: dict[str, Callable[[], Operation]] = {
    "a cancellation": _cancellation,
    "may be bought": _lost,
    "a read": _read,
}


@pytest.mark.parametrize("what", NOT_FOR_IT)
def test_what_does_not_wait_for_its_account_has_no_time_of_it(what: str) -> None:
    """Its seller may have it, or it leaves under any account: it is late when it was to be."""
    operation = NOT_FOR_IT[what]()
    becomes("suspended")
    with clock.injected(lambda: operation.deadline_at - timedelta(minutes=1)):
        becomes("active")
    assert Operation.objects.get(pk=operation.pk).deadline_at == operation.deadline_at


@pytest.mark.parametrize("status", AWAITED)
@pytest.mark.parametrize("what", ["a purchase", "one tried again"])
def test_what_was_not_looked_at_meanwhile_has_its_time_once_the_account_is_active(
    what: str, status: str
) -> None:
    """Its seller is left alone, so that no claim gave it its time anew."""
    operation = ORDERS[what]()
    becomes(status)
    later = operation.deadline_at + timedelta(hours=1)
    SellerBreaker.objects.update_or_create(
        seller=operation.seller,
        defaults={"state": "open", "failures": 5, "probe_at": later + timedelta(days=1)},
    )
    with clock.injected(lambda: later):
        time_out_due(limit=9)
        becomes("active")
        time_out_due(limit=9)
        now = Operation.objects.get(pk=operation.pk)
        assert now.settled_at is None
        assert now.deadline_at is not None
        assert now.deadline_at > later
        assert now.send_at is not None
