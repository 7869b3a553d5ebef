"""Today by role: each sees first what it needs first, with real numbers, bounded whatever is stored."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from campaigns.dashboard import Today, badges
from campaigns.today import cards, trends
from campaigns.today.layouts import layout_of
from campaigns.today.waits import waits_of
from orders.amounts import CONFIRMED
from orders.models import Deal
from tasks_app import clock
from tasks_app.approvals import presenters, selectors
from tasks_app.approvals.models import Decision
from tasks_app.operations.models import Operation
from tests.ui.pages import STAFF, ClientOf, read, stranger
from tests.ui.seed import Agency

TODAY = reverse("admin:index")
_FIRST = {
    "Buyer": "Your campaigns under way",
    "Approver": "Waiting for you",
    "Ad Ops": "Waiting for you",
    "Finance": "Committed against budget",
    "Auditor": "Decided lately",
    "Administrator": "Waiting for you",
}


@pytest.mark.parametrize("role", STAFF)
def test_each_role_sees_first_what_it_needs(agency: Agency, client_of: ClientOf, role: str) -> None:
    shown = read(client_of(role), TODAY)
    others = [shown.find(title) for title in set(_FIRST.values()) - {_FIRST[role]}]
    assert -1 < shown.find(_FIRST[role]) < min([at for at in others if at > -1], default=len(shown))


def test_a_buyer_reads_who_decides_on_their_requests(agency: Agency, client_of: ClientOf) -> None:
    today = client_of("Buyer").get(TODAY).context["today"]
    assert {row.place.campaign for row in today.asked.rows} == {
        "Tamarack Winter Boots",
        "Aldous Allergy Relief",
        "Lindqvist Cold Brew",
        "Halvorsen Autumn Service",
    }
    assert [campaign.name for campaign in today.campaigns][:2] == [
        "Tamarack Winter Boots",
        "Lindqvist Cold Brew",
    ]
    assert [entry.kind for entry in today.dates][:1] == ["hold"]


def test_a_buyer_sees_first_which_of_their_campaigns_failed(agency: Agency) -> None:
    failed = agency.campaigns["ostrom"]
    assert failed.status == "validation_failed"
    first, *_ = Today(agency.people["Buyer"]).attention
    assert (first.text, failed.reference in first.note) == (f"{failed.name}: its brief is not valid", True)
    assert first not in Today(agency.people["Administrator"]).attention


def test_what_was_given_up_is_not_in_flight(
    agency: Agency, client_of: ClientOf, tamper: Callable[..., None]
) -> None:
    today = Today(agency.people["Ad Ops"])
    paused = Operation.objects.get(status="input_required")
    assert paused.pk in {one.operation.pk for one in today.flying}
    tamper(paused, status="timed_out", settled_at=clock.now())
    assert paused.pk not in {one.operation.pk for one in Today(agency.people["Ad Ops"]).flying}


def test_what_is_in_flight_is_read_at_once_without_what_no_card_says(
    agency: Agency, django_assert_num_queries: Callable[..., Any]
) -> None:
    """One query besides tells which of the sellers' questions are answered."""
    who = agency.people["Ad Ops"]
    flying = cards.in_flight(who)
    cards.attention(who, (), {}, ())  # whom they see is read once
    with CaptureQueriesContext(connection) as of_others:
        cards.attention(who, (), {}, ())
    with django_assert_num_queries(len(of_others) + 1):
        assert cards.flying_rows(flying)
        assert cards.attention(who, flying, {}, ())
    assert all({"request", "result", "account_id"} <= one.get_deferred_fields() for one in flying)


def test_what_is_in_flight_has_its_age(agency: Agency, client_of: ClientOf) -> None:
    today = Today(agency.people["Ad Ops"])
    open_ = [one.operation for one in today.flying]
    assert {one.status for one in open_} <= {
        "calling_adcp",
        "submitted",
        "working",
        "input_required",
        "timed_out",
    }
    assert "get_products" not in {one.task_type for one in open_}, "reads cost nothing"
    page = read(client_of("Ad Ops"), TODAY)
    for one in today.flying:
        whole = (one.operation.deadline_at or clock.now()) - (one.operation.sent_at or clock.now())
        gone = clock.now() - (one.operation.sent_at or clock.now())
        assert one.age.percent == pytest.approx(min(100, 100 * gone / whole), abs=1)
        assert one.what in page
        assert one.age.right.replace("\xa0", " ") in page, "of how long"
    assert today.flying_oldest == min(one.sent_at or one.created_at for one in open_)
    assert "In flight with sellers" in page


def test_sellers_health_is_of_what_they_answered(
    agency: Agency, client_of: ClientOf, tamper: Callable[..., None]
) -> None:
    ops = agency.people["Ad Ops"]
    lines = {one.name: one for one in Today(ops).sellers}
    assert set(lines) == {seller.name for seller in agency.sellers.values()}
    for seller in agency.sellers.values():
        ended = Operation.objects.filter(seller=seller, settled_at__isnull=False)
        done = ended.filter(status="completed").count()
        said = lines[seller.name].success
        assert said == (pytest.approx(100 * done / ended.count()) if ended.exists() else None)
    paused = Operation.objects.get(status="input_required")
    tamper(paused, status="auth_required")
    first = Today(ops).sellers[0]
    assert (first.name, first.word) == (paused.seller.name, "Authorisation required")
    assert "Authorisation required" in read(client_of("Ad Ops"), TODAY)


def test_the_answers_chart_counts_good_and_bad(agency: Agency) -> None:
    drawn = Today(agency.people["Ad Ops"]).answers
    assert drawn is not None
    since = clock.now() - timedelta(days=trends.DAYS)
    ended = Operation.objects.filter(settled_at__gte=since)
    good = ended.filter(status="completed").count()
    assert drawn.lead.startswith(f"{good} of {ended.count()} completed")


def test_departures_are_in_money(agency: Agency) -> None:
    [one] = Today(agency.people["Finance"]).departures
    assert (one.approved, one.confirmed) == (Decimal(164000), Decimal(160500))
    assert one.fields == "budget, start"


def test_the_decisions_chart_counts_every_decision(agency: Agency) -> None:
    drawn = trends.decisions_chart(agency.people["Auditor"])
    assert drawn is not None
    count = Decision.objects.filter(at__gte=clock.now() - timedelta(days=trends.DAYS)).count()
    assert drawn.lead.startswith(f"{count} decisions in 14 days")
    assert "approved" in drawn.label
    assert trends.decisions_chart(stranger_of(agency)) is None


def stranger_of(agency: Agency) -> Any:
    """The Finance person, in no team."""
    person = agency.people["Finance"]
    person.teams.clear()
    return person


def test_confirmed_money_is_by_currency(agency: Agency) -> None:
    drawn, sums = trends.confirmed_chart(agency.people["Finance"])
    assert drawn is not None
    assert dict(sums) == {"USD": Decimal(160500), "EUR": Decimal(152000)}
    assert drawn.title == "Confirmed by sellers, USD"


def test_what_is_drawn_is_the_currency_of_most_deals(agency: Agency, tamper: Callable[..., None]) -> None:
    """Not the one of the largest sum: amounts of two currencies are not compared."""
    for deal in Deal.objects.filter(currency="USD").exclude(status__in=CONFIRMED)[:2]:
        tamper(deal, status="booked", confirmed_at=clock.now(), confirmed_gross=Decimal(1000))
    Deal.objects.filter(currency="EUR", status__in=CONFIRMED).update(confirmed_gross=Decimal(10**9))
    drawn, sums = trends.confirmed_chart(agency.people["Finance"])
    assert drawn is not None
    assert drawn.title == "Confirmed by sellers, USD"
    assert dict(sums)["EUR"] > 1000 * dict(sums)["USD"]


@pytest.mark.parametrize(
    ("found", "flying", "said", "more"),
    [
        (3, 100, "3", "2"),
        (3, 101, "3+", "2+"),
        (0, 101, "0", ""),
        (100, 100, "100", "99"),
        (101, 5, "100+", "100"),
        (102, 5, "100+", "100+"),
        (212, 101, "100+", "100+"),
    ],
)
def test_how_much_needs_attention_is_said_as_far_as_it_was_read(
    agency: Agency, found: int, flying: int, said: str, more: str
) -> None:
    today = Today(agency.people["Ad Ops"])
    today.attention, today._flying = [None] * found, [None] * flying  # type: ignore[list-item]
    assert (today.attention_count, today.attention_more if more else "") == (said, more)


def test_one_more_is_read_than_is_counted(agency: Agency, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "MOST", 1)
    monkeypatch.setattr(cards, "READ", 2)
    today = Today(agency.people["Ad Ops"])
    assert len(today._flying) == 2
    assert today.flying_count == "1+"


def test_what_no_seller_stated_is_confirmed_by_none(agency: Agency) -> None:
    """A deal whose seller names no amount was confirmed, and nobody knows for how much."""
    Deal.objects.filter(currency="USD").update(confirmed_gross=None)
    _, sums = trends.confirmed_chart(agency.people["Finance"])
    assert dict(sums) == {"EUR": Decimal(152000)}


def test_a_chart_is_drawn_to_scale() -> None:
    day = clock.now().date()
    drawn = trends.chart(
        title="x",
        parts=(("b-firm", "good"), ("b-no", "bad")),
        days=[(day, (Decimal(1), Decimal(1))), (day + timedelta(days=1), (Decimal(1), Decimal(0)))],
        lead="",
        said=str,
    )
    assert drawn is not None
    assert [(bar.part, bar.height) for bar in drawn.bars] == [
        ("b-firm", "30.00"),
        ("b-no", "30.00"),
        ("b-firm", "30.00"),
    ]
    assert drawn.top == "2"
    assert (
        trends.chart(title="x", parts=(("b", "g"),), days=[(day, (Decimal(0),))], lead="", said=str) is None
    )


def test_another_team_sees_nothing_of_it(agency: Agency) -> None:
    for role in STAFF[:-1]:
        shown = read(stranger_named(role), TODAY)
        assert "Tamarack" not in shown, role
        assert "DEAL-" not in shown, role


def stranger_named(role: str) -> Any:
    from tasks_app.people.models import Team, User

    User.objects.filter(username="stranger").delete()
    Team.objects.filter(name="Another team").delete()
    return stranger(role)


def test_the_rail_counts_no_further_than_99(agency: Agency, monkeypatch: pytest.MonkeyPatch, rf: Any) -> None:
    request = rf.get(TODAY)
    request.user = agency.people["Approver"]
    assert badges(request)["tasks_app.approval"] == ("6", "primary")
    monkeypatch.setattr("campaigns.dashboard._BADGE", 3)
    assert badges(request)["tasks_app.approval"] == ("3+", "primary")


def test_a_person_of_several_roles_has_one_page(agency: Agency) -> None:
    buyer = agency.people["Buyer"]
    assert layout_of(buyer).main[0] == "campaigns"
    buyer.groups.add(*agency.people["Approver"].groups.all())
    again = type(buyer).objects.get(pk=buyer.pk)
    assert layout_of(again).main[0] == "waiting"


def test_all_that_waits_is_counted_and_the_most_urgent_told(agency: Agency) -> None:
    who = agency.people["Approver"]
    whole = presenters.queue_of(list(selectors.approvals_waiting_for(who)), (), who, named=False)
    waits = waits_of(selectors.approvals_waiting_for(who), (), who)
    assert [row.key for row in waits.rows] == [row.key for row in whole[: cards.SHOWN]]
    assert len(waits) == len(whole)
    assert waits.stake == presenters.spent_by(whole)
    assert waits.oldest == min(row.asked_at for row in whole)
    assert sorted(waits.due) == [row.due_at for row in whole if row.due_at]
