"""A seller is in use from the first deal with it that we hold, wherever that came from."""

from __future__ import annotations

import pytest

from orders.models import Deal
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tasks_app.sellers.models import Seller
from tasks_app.sellers.trust import row_change
from tests.factories import make_deal, make_seller, make_user
from tests.orders.asking import adopt

pytestmark = pytest.mark.django_db
THEIRS = {"url": "http://127.0.0.1:66/mcp", "jwks_url": "https://elsewhere.example/jwks.json"}


@pytest.fixture
def ops() -> User:
    return make_user("Ad Ops")


@pytest.mark.parametrize("how", ["adopted", "imported"])
def test_a_seller_whose_media_buys_we_hold_is_relied_on(how: str, ops: User) -> None:
    """One person's own server would tell us how they stand, and end them."""
    deal: Deal = adopt(ops) if how == "adopted" else make_deal()
    assert not Operation.objects.filter(seller=deal.seller).exists()
    made = row_change(row=deal.seller, values=THEIRS, actor=ops)
    assert made.changed == []
    assert made.waiting is not None


def test_an_imported_seller_is_switched_on_at_first_by_one_person_and_never_again(ops: User) -> None:
    seller = make_seller(active=False)
    make_deal(seller=seller)
    assert row_change(row=seller, values={"active": True}, actor=ops).changed == ["active"]
    row_change(row=seller, values={"active": False}, actor=make_user("Administrator"))
    assert row_change(row=seller, values={"active": True}, actor=ops).changed == []
    assert not Seller.objects.get(pk=seller.pk).active
