"""An order that nobody let go does not leave, whoever made it due: the look before each attempt asks the
deal, and the question that was approved."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from orders.ask import Ask
from orders.changes.send import change_ask
from orders.models import Deal
from orders.purchases import purchase_ask
from orders.services import deal_book
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.models import Operation
from tests.factories import approve_deal, make_account, make_advertiser, make_seller, make_user
from tests.orders.asking import booked
from tests.orders.late import BUY, decide
from tests.owning import as_the_product

pytestmark = pytest.mark.django_db


def purchase() -> Operation:
    """An integrator's, its deal quoted."""
    advertiser, seller = make_advertiser(), make_seller()
    make_account(advertiser, seller)
    start = clock.now().replace(microsecond=0) + timedelta(days=10)
    arguments: dict[str, Any] = {
        "brand": {"domain": advertiser.brand_domain},
        "start_time": start.isoformat(),
        "end_time": (start + timedelta(days=9)).isoformat(),
        "total_budget": {"amount": 9000, "currency": "USD"},
        "packages": [{"product_id": "p", "pricing_option_id": "o", "budget": 9000, "bid_price": 3}],
    }
    asker = make_user("Integration")
    return purchase_ask(Ask(user=asker, task="create_media_buy", seller=seller, arguments=arguments))


def change() -> Operation:
    """An integrator's, of a booked deal."""
    deal, _ = booked(asker := make_user("Integration"))
    arguments = {"media_buy_id": BUY, "packages": [{"package_id": "pkg-1", "budget": 9000}]}
    return change_ask(Ask(user=asker, task="update_media_buy", seller=deal.seller, arguments=arguments))


ORDERS = {"a purchase": (purchase, "deal"), "a change": (change, "deal_change")}


def made_due(operation: Operation) -> None:
    """One column, written as the application's role."""
    with as_the_product():
        assert Operation.objects.filter(pk=operation.pk).update(send_at=clock.now()) == 1


def stays(operation: Operation) -> None:
    assert claim_one(operation_id=operation.pk) is None
    assert [call for call in claim_sends(limit=5) if call.operation_id == operation.pk] == []
    operation.refresh_from_db()
    assert (operation.status, operation.attempts, operation.send_at) == ("requested", 0, None)


@pytest.mark.parametrize("what", ORDERS)
def test_it_does_not_leave_while_people_are_asked(what: str) -> None:
    make, kind = ORDERS[what]
    operation = make()
    made_due(operation)
    stays(operation)
    assert Approval.objects.get(kind=kind, status="open").decisions.count() == 0


@pytest.mark.parametrize("what", ORDERS)
def test_it_leaves_once_they_have_approved_it(what: str) -> None:
    make, kind = ORDERS[what]
    operation = make()
    made_due(operation)
    stays(operation)
    decide(kind, "approve")
    if kind == "deal":
        deal_book(deal=Deal.objects.get())
    assert claim_one(operation_id=operation.pk) is not None


def test_a_purchase_waits_while_its_deal_is_negotiated() -> None:
    operation = purchase()
    transition(Deal.objects.get(), "negotiating", actor="system")
    made_due(operation)
    stays(operation)


def test_an_approved_purchase_waits_for_its_booking() -> None:
    operation = purchase()
    approve_deal(Deal.objects.get())
    made_due(operation)
    stays(operation)
    deal_book(deal=Deal.objects.get())
    assert claim_one(operation_id=operation.pk) is not None


def test_the_approval_of_another_change_lets_none_go() -> None:
    operation = change()
    approved = decide("deal_change", "approve")
    Approval.objects.filter(pk=approved.pk).update(
        evidence={**approved.evidence, "operation_id": str(approved.pk)}
    )
    stays(operation)
