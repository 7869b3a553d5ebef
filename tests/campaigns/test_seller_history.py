"""A seller's record, as an approver reads it: what was ordered there, and nothing that we ended before."""

from __future__ import annotations

import pytest

from campaigns.seller_history import seller_history
from orders.questions import ask_deal
from orders.services import purchases_of
from tasks_app import ids
from tasks_app.lifecycle.transitions import transition
from tests.factories import approve_deal, make_deal, make_seller, make_user
from tests.orders import late

pytestmark = pytest.mark.django_db


def test_what_was_never_ordered_says_nothing_of_its_seller() -> None:
    seller = make_seller()
    viewer = make_user("Approver")

    def told() -> dict[str, str]:
        return dict(seller_history(viewer, seller.pk, without=ids.new_id(), bought=[]))

    rejected, expired, withdrawn = (make_deal(seller=seller, account=not at) for at in range(3))
    ask_deal(rejected)
    late.decide("deal", "reject")
    transition(expired, "expired", actor="system")
    approve_deal(withdrawn)
    transition(late.fresh(withdrawn), "cancelled", actor="system", reason="Called off")
    assert told() == {"Deals before": "none, this would be the first"}

    booked, operation = late.booking(seller)
    late.say(operation, "completed", late.bought(booked))
    lost, purchase = late.booking(seller)
    late.say(purchase, "failed")
    assert purchases_of(late.fresh(lost)).get().sent_at is not None
    found = told()
    assert (found["Orders"], found["Failed"]) == ("2", "1")
    assert "Cancelled after the order" not in found

    transition(late.fresh(booked), "cancelled", actor="system", reason="As asked")
    assert told()["Cancelled after the order"] == "1"
