"""The dates of deals in SQL are those that one deal's page tells."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from orders.cost_dates import cost_dates
from orders.models import Deal, DealLine
from orders.models import DealStatus as S
from orders.next_dates import with_dates
from orders.services import deal_book
from tasks_app import clock, days
from tasks_app.lifecycle.transitions import transition
from tests.factories import approve_deal, make_deal
from tests.orders.live import booked

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
NEW_YORK = "America/New_York"
KINDS = ("hold", "creative", "cancel", "start", "end")
HOLDS = [
    "{}T12:30:00+02:00",
    "{}T12:30:15.123456-05:00",
    "{}T12:30:00Z",
    "{} 12:30+00:00",
    "2027-02-31T12:00:00Z",
    "9999-12-31T23:59:59Z",
    "2027-13-01T00:00:00Z",
    "soon",
    7,
]


def notice(interval: Any, unit: Any = "days", fee: str = "full_commitment") -> dict[str, Any]:
    return {"notice_period": {"interval": interval, "unit": unit}, "cancellation_fee": {"type": fee}}


def put(row: Deal | DealLine, **columns: Any) -> None:
    type(row)._default_manager.filter(pk=row.pk).update(**columns)


def told(deal: Deal) -> dict[str, Any]:
    """The deal's dates in SQL, of a time without bounds."""
    bounds = {"since": clock.EARLIEST, "until": clock.LATEST}
    found = {}
    for kind in ("hold", "creative", "cancel"):
        row = with_dates(Deal.objects.filter(pk=deal.pk), [kind], **bounds).first()
        if row is not None:
            found[kind] = vars(row)["next_date"]
    return found


def shown(deal: Deal) -> dict[str, Any]:
    return {one.kind: one.at for one in cost_dates(deal, list(deal.lines.all()), ())}


PATHS: dict[S, tuple[S, ...]] = {
    S.QUOTED: (),
    S.NEGOTIATING: (),
    S.EXPIRED: (),
    S.ACCEPTED: (S.ACCEPTED,),
    S.BOOKING: (S.ACCEPTED, S.BOOKING),
    S.FAILED: (S.ACCEPTED, S.BOOKING),
    S.BOOKED: (S.BOOKED,),
    S.CANCELLED: (S.BOOKED,),
    S.DELIVERING: (S.BOOKED,),
    S.COMPLETED: (S.BOOKED, S.DELIVERING),
    S.MAKEGOOD_PENDING: (S.BOOKED, S.DELIVERING),
    S.PARTIALLY_CANCELED: (S.BOOKED,),
}


def in_status(status: S, **fields: Any) -> Deal:
    """A deal that came there as deals do."""
    by = PATHS[status]
    deal = booked(**fields) if S.BOOKED in by else make_deal(**fields)
    if S.ACCEPTED in by:
        approve_deal(deal)
    if S.BOOKING in by:
        deal_book(deal=deal)
    deal.refresh_from_db()
    for step in (*(one for one in by if one == S.DELIVERING), status):
        if deal.status != step:
            transition(deal, step, actor="system", reason="A test")
            deal.refresh_from_db()
    return deal


@pytest.mark.parametrize("status", list(S))
def test_the_same_dates_in_each_status(status: S) -> None:
    day = days.today("UTC") + timedelta(days=31)
    deal = in_status(status, terms={"hold_expires_at": f"{day}T12:00:00+00:00"})
    put(deal.lines.get(), terms={"cancellation_policy": notice(7)})
    put(deal, creative_deadline=clock.now() + timedelta(days=3))
    deal.refresh_from_db()
    assert deal.status == status
    assert told(deal).keys() == shown(deal).keys()


@pytest.mark.parametrize("said", HOLDS, ids=range(len(HOLDS)))
def test_a_hold_is_the_moment_that_its_seller_stated(said: Any) -> None:
    written = said.format(date(2027, 5, 31)) if isinstance(said, str) else said
    deal = make_deal(terms={"hold_expires_at": written})
    found, expected = told(deal).get("hold"), shown(deal).get("hold")
    if expected is not None:
        assert found == expected
    assert (found is None) == (expected is None) or said == "2027-02-31T12:00:00Z"


@pytest.mark.parametrize(
    "policy",
    [
        notice(7),
        notice(36, "hours"),
        notice(2, "week"),
        notice(1.5, "day"),
        notice("7"),
        notice(7, fee="none"),
        notice(-1),
        notice("many"),
        notice(7, "moons"),
        notice(None),
        None,
        {"notice_period": 7, "cancellation_fee": {"type": "full_commitment"}},
        "none",
        {},
    ],
    ids=range(14),
)
def test_the_last_moment_to_cancel(policy: Any) -> None:
    start = days.start_of(date(2027, 11, 10), NEW_YORK)  # clocks go back on 7 November
    deal = in_status(S.ACCEPTED, start_at=start, end_at=start + timedelta(days=9), zone=NEW_YORK)
    put(deal.lines.get(), terms={"cancellation_policy": policy}, start_at=start)
    deal.refresh_from_db()
    found, expected = told(deal).get("cancel"), shown(deal).get("cancel")
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert abs(found - expected) <= timedelta(hours=1)


@pytest.mark.parametrize("passed", [timedelta(hours=3), timedelta(hours=23)], ids=str)
def test_what_could_be_cancelled_until_yesterday_comes_behind_what_has_a_date_ahead(
    passed: timedelta,
) -> None:
    """It is among them for the sake of its day, which may not be over; it takes no place of theirs."""
    now = clock.now()
    late = in_status(S.ACCEPTED, start_at=now - passed + timedelta(days=7), end_at=now + timedelta(days=90))
    put(late.lines.get(), terms={"cancellation_policy": notice(7)}, start_at=late.start_at)
    far = {"start_at": now + timedelta(days=40), "end_at": now + timedelta(days=80)}
    soon = make_deal(seller=late.seller, account=False, **far)
    put(soon, creative_deadline=now + timedelta(days=6))
    found = with_dates(Deal.objects.all(), KINDS, since=now, until=now + timedelta(days=100))
    assert [deal.pk for deal in found] == [soon.pk, late.pk]
    of_one = with_dates(Deal.objects.all(), ["cancel"], since=now, until=now + timedelta(days=100))
    assert [deal.pk for deal in of_one] == [late.pk]
