"""What is in the way of what is to be sent is read for all at once, and no secret with it."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tasks_app import clock
from tasks_app.operations.blockers import Blocker, ShutBy, Then, blockers_of
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import SECRET_COLUMNS, Seller, SellerBreaker
from tests.factories import make_account, make_advertiser, make_seller
from tests.operations.making import stand

pytestmark = pytest.mark.django_db
MOST = 10  # queries
_LONG_AGO = timedelta(days=30)


def sellers() -> list[Seller]:
    """One that is well, one off, one left alone."""
    well, off, alone = (make_seller(name) for name in ("Well", "Off", "Alone"))
    Seller.objects.filter(pk=off.pk).update(active=False)
    soon = clock.now() + timedelta(minutes=5)
    SellerBreaker.objects.create(seller=alone, state="open", failures=5, probe_at=soon)
    return [well, off, alone]


def to_be_sent(seller: Seller, **columns: Any) -> uuid.UUID:
    operation = stand(S.REQUESTED, seller=seller)
    Operation.objects.filter(pk=operation.pk).update(**columns)
    return operation.pk


def stand_about(seller: Seller, number: int) -> list[uuid.UUID]:
    """To be sent under an account that is not active, held, and lost long ago, so many of each."""
    made = []
    for one in range(number):
        account = make_account(make_advertiser(f"Brand {seller.slug} {one}"), seller, "suspended")
        account.switched_off_by = "system"
        account.save(update_fields=["switched_off_by"])
        made += [
            to_be_sent(seller, account=account),
            to_be_sent(seller, send_at=None),
            stand(S.CALLING_ADCP, seller=seller, send_at=clock.now(), sent_at=clock.now() - _LONG_AGO).pk,
        ]
    return made


def test_however_many_they_are_it_takes_as_many_queries() -> None:
    counts, found = [], {}
    every = [pk for seller in sellers() for pk in stand_about(seller, 5)]
    for some in (every[:15], every):
        with CaptureQueriesContext(connection) as caught:
            found = blockers_of(some)
        counts.append(len(caught))
        sql = " ".join(query["sql"] for query in caught.captured_queries)
        assert {name for name in SECRET_COLUMNS if f'"{name}"' in sql} == set()
        assert not {name for name in ("capabilities", "request_text") if f'"{name}"' in sql}
    assert counts[1] <= MOST, counts
    assert len(every) == 45
    assert {one.by for one in found.values()} == {ShutBy.ACCOUNT, ShutBy.SELLER, ShutBy.KEY, ShutBy.ALONE}


def test_what_is_out_has_nothing_in_its_way() -> None:
    operation = stand(S.CALLING_ADCP, send_at=clock.now(), out_until=clock.now() + timedelta(hours=1))
    Seller.objects.update(active=False)
    assert blockers_of([operation.pk]) == {}
    assert blockers_of([]) == {}


def test_what_is_held_is_come_upon_once_it_is_let_go() -> None:
    seller = make_seller()
    operation = to_be_sent(seller, send_at=None)
    Seller.objects.update(active=False)
    why = f"{seller.name} is switched off"
    kept = Blocker(by=ShutBy.SELLER, why=why, then=Then.ENDS, held=True)
    assert blockers_of([operation]) == {operation: kept}
    assert kept.once_let_go == f"it ends without being sent: {why}"
    Operation.objects.update(send_at=clock.now())
    assert blockers_of([operation])[operation].held is False
