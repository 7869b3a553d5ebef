"""An ended deal is copied with new dates: a new quote that somebody else approves."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from django.test import Client
from django.urls import reverse

from orders.acts import ActRefusedError
from orders.deal_copies import copy_deal, offered_days
from orders.models import Deal
from tasks_app import days
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.lifecycle.transitions import transition
from tests.factories import make_deal, make_line, make_team, make_user
from tests.orders.late import decide, fresh
from tests.orders.live import booked

pytestmark = pytest.mark.django_db


def ended() -> Deal:
    """A deal whose second package runs in the last days of the flight."""
    deal = make_deal(make_line(), make_line(product_id="b"))
    deal.lines.filter(position=2).update(start_at=deal.end_at - timedelta(days=5))
    transition(deal, "expired", actor="system", reason="Nobody decided")
    return fresh(deal)


def test_a_copy_has_the_same_packages_within_its_own_flight() -> None:
    lost, user = ended(), make_user("Buyer")
    first, last = offered_days(lost)
    copy = copy_deal(
        deal_id=lost.pk, user=user, first=first + timedelta(days=40), last=last + timedelta(days=40)
    )
    assert (copy.status, copy.follows, copy.currency) == ("quoted", lost, lost.currency)
    assert days.day_of(copy.start_at, copy.zone) == first + timedelta(days=40)
    old, new = lost.lines.get(position=2), copy.lines.get(position=2)
    assert (new.product_id, new.budget, new.end_at) == (old.product_id, old.budget, copy.end_at)
    assert copy.start_at < new.start_at < new.end_at
    assert Approval.objects.get(kind="deal", status="open").subject_id == copy.pk
    with pytest.raises(DecisionRefusedError):
        decide("deal", "approve", user=user)
    decide("deal", "approve")
    assert fresh(copy).status == "accepted"


@pytest.mark.parametrize(
    ("first", "last", "why"),
    [
        (None, date(2030, 1, 1), "first and the last day"),
        (date(2030, 1, 2), date(2030, 1, 1), "before the first"),
        (date(2020, 1, 1), date(2030, 1, 1), "has begun"),
    ],
)
def test_dates_that_are_no_flight_are_refused(first: date | None, last: date | None, why: str) -> None:
    lost = ended()
    with pytest.raises(ActRefusedError, match=why):
        copy_deal(deal_id=lost.pk, user=make_user("Buyer"), first=first, last=last)
    assert Deal.objects.count() == 1


def test_only_an_ended_deal_of_ones_team_is_copied_once_by_a_buyer() -> None:
    lost = ended()
    first, last = offered_days(lost)
    dates = {"first": first, "last": last}
    with pytest.raises(ActRefusedError, match="no right"):
        copy_deal(deal_id=lost.pk, user=make_user("Auditor"), **dates)
    stranger = make_user("Buyer", team=make_team("Another"), name="stranger")
    with pytest.raises(ActRefusedError, match="no such deal"):
        copy_deal(deal_id=lost.pk, user=stranger, **dates)
    copy_deal(deal_id=lost.pk, user=make_user("Buyer"), **dates)
    with pytest.raises(ActRefusedError, match="for the same order"):
        copy_deal(deal_id=lost.pk, user=make_user("Buyer"), **dates)
    running = booked(lost.seller)
    with pytest.raises(ActRefusedError, match="only a deal that has ended"):
        copy_deal(deal_id=running.pk, user=make_user("Buyer"), **dates)


def test_it_is_a_form_on_the_page_of_the_deal() -> None:
    lost, client = ended(), Client()
    client.force_login(make_user("Buyer", is_staff=True), backend="tasks_app.people.holders.RoleBackend")
    page = reverse("admin:orders_deal_change", args=[lost.pk])
    first, last = offered_days(lost)
    assert f'name="first" class="fd-in below" required value="{first}"' in client.get(page).content.decode()
    refused = client.post(page, {"act": "copy", "first": "soon", "last": str(last)})
    assert (refused.status_code, Deal.objects.count()) == (409, 1)
    made = client.post(page, {"act": "copy", "first": str(first), "last": str(last)})
    assert (made.status_code, Deal.objects.count()) == (302, 2)
    assert "Copy with new dates" not in client.get(page).content.decode()
