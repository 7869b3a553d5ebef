"""What a stranger states and nobody can read is shown as stated, and computed with nowhere."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from campaigns.brief import brief_validate
from campaigns.recommend import unfit
from orders.models import Deal
from orders.offers import offers
from orders.presenters import mirror_facts
from orders.questions import ask_deal
from orders.seller_state import deal_follow
from tasks_app import clock, days
from tasks_app.adcp.values import parse_time
from tasks_app.approvals.evidence import stated_terms
from tasks_app.desk import terms, text
from tasks_app.sellers.accounts import account_words
from tasks_app.sellers.accounts_told import account_record
from tasks_app.sellers.models import Seller
from tests.campaigns.briefs import NOW, brief
from tests.factories import make_advertiser, make_deal, make_line, make_seller, make_user
from tests.orders.late import booking, bought, fresh, say
from tests.orders.live import booked, packages

POINTS = [{"budget": 10000, "metrics": {"impressions": {"low": 1, "high": 3}}}]


@pytest.mark.parametrize(
    ("stated", "read"),
    [
        ("2000-01-01T00:00:00Z", True), ("2199-12-30T23:59:59Z", True), ("1999-12-31T23:59:59Z", False),
        ("2200-01-01T00:00:00Z", False), ("9999-12-31T23:59:59Z", False), ("0001-01-01T00:00:00Z", False),
        ("2000-01-01T00:00:00+01:00", False), ("0001-01-01T00:00:00+14:00", False), ("2026-12-01", False),
        ("2026-12-01T10:00:00", False), (1700000000, False), (None, False),
    ],
)  # fmt: skip
def test_a_moment_is_one_that_somebody_means(stated: Any, read: bool) -> None:
    assert (parse_time(stated) is not None) is read


@pytest.mark.parametrize("edge", [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=UTC)])
@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Stockholm"])
def test_the_ends_of_the_calendar_are_shown_in_every_zone(edge: datetime, zone: str) -> None:
    assert str(edge.year) in text.moment(edge, zone)
    assert days.day_of(edge, zone)


@pytest.mark.parametrize("code", ["usd", "BTC", "XAU", "US$", "€"])
def test_a_forecast_in_no_currency_is_shown_as_stated(code: str) -> None:
    said = terms.forecast({"currency": code, "points": POINTS}, Decimal(20000), "USD")
    assert said.replace(text.SPACE, " ") == f"1 – 3 impressions for {code} 10,000"
    assert text.amount("12.5", code) == "12.5"


@pytest.mark.parametrize(
    ("fee", "said"),
    [
        ({"type": "percent_remaining", "rate": "1e999999"}, "fee: percent remaining, stated as 1e999999"),
        ({"type": "fixed_fee", "amount": "a lot"}, "fee: fixed fee, stated as a lot"),
        ({"type": "by agreement"}, "fee: by agreement"),
    ],
)
def test_a_fee_that_nobody_can_read_is_shown_as_stated(fee: dict[str, Any], said: str) -> None:
    assert terms.cancellation({"cancellation_fee": fee}, "USD") == said


def test_numbers_that_nobody_can_read_are_shown_as_stated() -> None:
    metrics = {"impressions": {"low": "1e999999", "high": 3}, "reach": {"mid": "many"}}
    said = terms.forecast({"points": [{"budget": "x" * 200, "metrics": metrics}]}, None, "USD")
    expected = f"1e999999 – 3 impressions, many reach for USD {'x' * 80}…"
    assert said.replace(text.SPACE, " ") == expected
    notice = {"notice_period": {"interval": "seven", "unit": "days"}}
    assert terms.cancellation(notice, "USD").replace(text.SPACE, " ") == "seven days’ notice"
    assert "up to some" in terms.measurement({"billing_measurement": {"max_variance_percent": "some"}})


@pytest.mark.django_db
def test_a_hold_until_no_moment_is_kept_and_shown() -> None:
    product = {
        "product_id": "p",
        "expires_at": "9999-12-31T23:59:59Z",
        "pricing_options": [{"pricing_option_id": "o", "pricing_model": "cpm", "fixed_price": 10}],
    }
    (offer,) = offers(make_seller("Cobalt"), [product], {})
    told = offer.terms
    assert (offer.product.expires_at, told["hold_expires_at"]) == (None, "9999-12-31T23:59:59Z")
    asked = ask_deal(make_deal(make_line(terms=told)))
    assert ("Hold, as stated", "9999-12-31T23:59:59Z") in stated_terms(asked, None)


@pytest.mark.django_db
def test_a_comment_with_nul_is_refused_before_it_is_kept(client: Client) -> None:
    asked = ask_deal(make_deal())
    client.force_login(make_user("Approver", is_staff=True))
    page = reverse("admin:tasks_app_approval_change", args=[asked.pk])
    said = {"decision": "approve", "digest": asked.evidence_digest, "comment": "a\x00b"}
    assert client.post(page, said).status_code == 400
    asked.refresh_from_db()
    assert asked.status == "open"


def stated_of(deal: Deal) -> dict[str, str]:
    """Label to words of what a deal's page says of its media buy."""
    return dict(mirror_facts(deal))


@pytest.mark.django_db
def test_a_creative_deadline_that_is_no_moment_is_kept_and_shown() -> None:
    deal = booked(make_seller("Cobalt"))
    buy = {"media_buy_id": "mb-1", "status": "pending_creatives", "packages": packages(deal)}
    for number, (told, said) in enumerate(
        [
            ({"creative_deadline": "a week before"}, "as stated: a week before"),
            ({}, "as stated: a week before"),
            ({"creative_deadline": "2030-11-20T17:00:00Z"}, "20"),
            ({"creative_deadline": "9999-12-31T23:59:59Z"}, "as stated: 9999-12-31T23:59:59Z"),
        ]
    ):
        deal_follow(deal_id=deal.pk, buy={**buy, **told, "revision": number + 2}, asked_at=clock.now())
        deal.refresh_from_db()
        assert said in stated_of(deal)["Creatives due"].replace(text.SPACE, " ")


@pytest.mark.django_db
@pytest.mark.parametrize("odd", ["second", True, -1, 2**31, 1.5, [2]])
def test_a_revision_that_nobody_can_read_is_shown_until_one_is_read(odd: Any) -> None:
    deal = booked(make_seller("Cobalt"))
    buy = {"media_buy_id": "mb-1", "status": "active", "packages": packages(deal)}
    for revision, shown in ((odd, f"as stated: {text.stated(odd)}"), (7, None)):
        deal_follow(deal_id=deal.pk, buy={**buy, "revision": revision}, asked_at=clock.now())
        deal.refresh_from_db()
        assert stated_of(deal).get("Revision") == shown
    assert deal.revision == 7


@pytest.mark.django_db
@pytest.mark.parametrize("by", ["purchase", "reading"])
def test_whatever_moment_of_a_media_buy_nobody_can_read_is_shown(by: str) -> None:
    odd = {"confirmed_at": "yesterday", "status_as_of": "now", "creative_deadline": 5}
    if by == "purchase":
        deal, operation = booking()
        say(operation, "completed", {**bought(deal), **odd})
        deal = fresh(deal)
    else:
        deal = booked(make_seller("Cobalt"))
        deal_follow(deal_id=deal.pk, buy={"media_buy_id": "mb-1", **odd}, asked_at=clock.now())
        deal.refresh_from_db()
    told = stated_of(deal)
    assert (told["Creatives due"], told["Confirmed"]) == ("as stated: 5", "as stated: yesterday")
    assert told["State as of"] == "as stated: now"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("until", "said"),
    [
        ("2199-12-01T10:00:00Z", "Possible until Sun 1 Dec 2199, 10:00 UTC."),
        ("2026-99-99T00:00:00Z", "Possible until, as stated: 2026-99-99T00:00:00Z."),
        ("next week", "Possible until, as stated: next week."),
        (7, ""),
    ],
)
def test_until_when_a_seller_waits_for_an_accounts_setup_is_shown(until: Any, said: str) -> None:
    setup = {"message": "Sign the terms.", "expires_at": until}
    answer = {"account_id": "a", "status": "pending_approval", "setup": setup}
    account = account_record(advertiser=make_advertiser(), seller=make_seller(), answer=answer)
    words = [one.replace(text.SPACE, " ") for one in account_words(account)]
    assert words == ["Sign the terms.", *([said] if said else [])]


@pytest.mark.django_db
def test_a_rate_that_nobody_can_read_is_a_departure_shown_as_stated() -> None:
    deal = booked(make_seller("Cobalt"))
    buy = {"media_buy_id": "mb-1", "status": "active", "packages": packages(deal, bid_price="as agreed")}
    deal_follow(deal_id=deal.pk, buy=buy, asked_at=clock.now())
    deal.refresh_from_db()
    (found,) = deal.differences
    assert (found["field"], found["confirmed"], deal.differs) == ("rate", "as agreed", True)
    buy["packages"] = packages(deal, bid_price=14)
    deal_follow(deal_id=deal.pk, buy=buy, asked_at=clock.now())
    deal.refresh_from_db()
    assert not any("unreadable" in one for one in deal.differences)


@pytest.mark.django_db
def test_prices_and_minimums_that_nobody_can_read_are_kept_and_shown() -> None:
    option = {"pricing_option_id": "o", "pricing_model": "cpm", "currency": "USD"}
    odd = {
        **option,
        "floor_price": "from ten",
        "min_spend_per_package": {"amount": 500},
        "price_guidance": {"p50": 12},
    }
    product = {"product_id": "p", "name": "Bumper", "pricing_options": [odd]}
    (offer,) = offers(make_seller("Cobalt"), [product], {})
    assert (offer.minimum, offer.rate) == (None, Decimal(12))
    asked = ask_deal(make_deal(make_line(terms=offer.terms, minimum=None)))
    told = dict(stated_terms(asked, None))
    assert told["Minimum spend, as stated"] == "{'amount': 500}"
    assert told["Floor price, as stated"] == "from ten"


@pytest.mark.parametrize(
    ("price", "why"),
    [
        ({"fixed_price": "ask us"}, "its price, stated as ask us, cannot be read"),
        ({"floor_price": "low"}, "its price, stated as low, cannot be read"),
        ({"price_guidance": {"p50": "cheap"}}, "its price, stated as cheap, cannot be read"),
        ({}, "no price is stated"),
    ],
)
def test_an_offer_whose_price_nobody_can_read_says_what_is_stated(price: dict[str, Any], why: str) -> None:
    option = {"pricing_option_id": "o", "pricing_model": "cpm", "currency": "USD", **price}
    wanted, _ = brief_validate(brief(), now=NOW)
    assert wanted is not None
    (offer,) = offers(Seller(name="Cobalt"), [{"product_id": "p", "pricing_options": [option]}], {})
    assert unfit(wanted, offer, Decimal(1000), now=NOW) == why
