"""Media buys read again: no seller gets more than its share of a claim while others are due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from orders import mirror
from orders.models import Deal, DealMirror
from tasks_app import clock
from tasks_app.sellers.models import Seller
from tests.factories import make_seller
from tests.orders.live import booked

pytestmark = pytest.mark.django_db
CLAIM = 8


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "_CLAIM", CLAIM)


def due(seller: Seller, count: int, *, since: datetime) -> list[Deal]:
    """So many media buys of the seller that are to be read, the first for the longest."""
    deals = [booked(seller, media_buy_id=f"{seller.slug}-{number}") for number in range(count)]
    for number, deal in enumerate(deals):
        DealMirror.objects.filter(deal=deal).update(due_at=since + timedelta(seconds=number))
    return deals


def claimed() -> list[str]:
    """What a claim takes, by the names that sellers know it by."""
    return [due.media_buy_id for errand in mirror._claim() for batch in errand.batches for due in batch.due]


def named(deals: Sequence[Deal]) -> list[str]:
    return [deal.media_buy_id for deal in deals]


def test_a_seller_with_more_due_than_a_claim_takes_starves_no_other() -> None:
    long, lately = clock.now() - timedelta(hours=2), clock.now() - timedelta(hours=1)
    many = due(make_seller("Many"), CLAIM + 2, since=long)
    few = due(make_seller("Few"), 2, since=lately)

    taken = claimed()

    assert set(named(few)) < set(taken)
    assert sorted(set(taken) - set(named(few))) == sorted(named(many[: CLAIM - 2])), "its oldest"


def test_several_with_much_due_take_turns() -> None:
    for name, hours in (("One", 2), ("Other", 1)):
        due(make_seller(name), CLAIM, since=clock.now() - timedelta(hours=hours))

    by_seller = Counter(name.rpartition("-")[0] for name in claimed())

    assert by_seller == {"one": CLAIM // 2, "other": CLAIM // 2}


def test_alone_it_leaves_a_part_for_whoever_comes() -> None:
    due(make_seller("Many"), CLAIM + 2, since=clock.now() - timedelta(hours=2))

    assert len(claimed()) == CLAIM - 1
