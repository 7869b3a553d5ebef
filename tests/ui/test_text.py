"""Numbers, times, states and sellers' terms as people read them; hostile terms never break a page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.template import Context, Template
from django.utils import timezone

from tasks_app import clock, days
from tasks_app.desk import terms, text
from tasks_app.desk.states import COLOURS, GLYPHS, face
from tasks_app.lifecycle.declarations import ENTITIES, lifecycle

NOW = datetime(2026, 11, 17, 14, 12, tzinfo=UTC)  # Tuesday, 09:12 in New York


@pytest.fixture(autouse=True)
def _in_new_york() -> Any:
    with clock.injected(lambda: NOW), timezone.override(days.zone_of("America/New_York")):
        yield


def plain(said: str) -> str:
    return said.replace("\xa0", " ")


def render(template: str, **context: Any) -> str:
    return plain(Template("{% load fd %}" + template).render(Context(context)))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "0.2 s"),
        (12, "12 s"),
        (38 * 60, "38 m"),
        (6 * 3600 + 48 * 60, "6 h 48 m"),
        (24 * 3600, "1 d"),
        (26 * 3600, "1 d 2 h"),
        (19 * 3600 + 240, "19 h 04 m"),
        (-60, "1 m"),
    ],
)
def test_durations(seconds: float, said: str) -> None:
    assert plain(text.duration(timedelta(seconds=seconds))) == said


def test_what_was_over_at_once_took_no_time_that_is_none() -> None:
    assert plain(text.lasted(timedelta())) == "< 0.1 s"
    assert plain(text.lasted(timedelta(seconds=0.2))) == "0.2 s"


@pytest.mark.parametrize(
    ("value", "places", "said"),
    [
        ("288000", 2, "288,000.00"),
        ("-3500", 2, "−3,500.00"),
        ("0.032", None, "0.032"),
        (1000, None, "1,000"),
        ("1e999999", 2, "–"),
        (0, 2, "0.00"),
        (None, 2, "–"),
        ("NaN", 2, "–"),
        (True, 0, "–"),
        ("", None, "–"),
    ],
)
def test_numbers(value: Any, places: int | None, said: str) -> None:
    assert text.number(value, places) == said


def test_money_takes_the_decimals_of_its_currency() -> None:
    assert render("{% money v 'USD' %}", v=Decimal("64")).endswith("</span>64.00</span>")
    assert render("{% money v 'JPY' %}", v=Decimal("64")).endswith("</span>64</span>")
    assert render("{% money v 'USD' %}", v=None) == "–"


def test_currencies_stand_apart() -> None:
    pairs = [("USD", Decimal(2)), ("EUR", Decimal(5)), ("USD", Decimal(1)), ("USD", None)]
    assert text.amounts(pairs) == [("EUR", Decimal(5)), ("USD", Decimal(3))]


def test_a_flight_shows_its_last_day_in_its_own_zone() -> None:
    start, end = datetime(2026, 12, 1, 5, tzinfo=UTC), datetime(2027, 1, 1, 5, tzinfo=UTC)
    assert plain(text.flight(start, end, "America/New_York")) == "1 – 31 Dec 2026"
    assert plain(text.flight(start, end + timedelta(days=1), "America/New_York")) == "1 Dec 2026 – 1 Jan 2027"
    assert plain(text.flight(start, start + timedelta(days=1), "America/New_York")) == "1 Dec 2026"
    assert plain(text.flight(start, end, "No/Such_Zone")).startswith("1 Dec 2026")
    assert text.flight(None, end, "UTC") == "–"


def test_moments_name_today_and_the_year_where_it_is_another() -> None:
    assert plain(text.moment_short(NOW)) == "today 09:12"
    assert plain(text.moment_short(NOW + timedelta(days=1))) == "tomorrow 09:12"
    assert plain(text.moment(NOW + timedelta(days=1))) == "Wed 18 Nov, 09:12"
    assert plain(text.day(NOW + timedelta(days=60))) == "Sat 16 Jan 2027"


def test_ages_turn_at_three_quarters_and_when_over() -> None:
    day = timedelta(days=1)
    assert text.time_left(NOW - day / 4, NOW + day * 3 / 4).look == ""
    assert text.time_left(NOW - day * 3 / 4, NOW + day / 4).look == "near"
    over = text.time_left(NOW - day, NOW - timedelta(minutes=77))
    assert (plain(over.left), over.right, over.percent, over.look) == ("1 h 17 m over", "07:55", 100, "over")
    used = text.time_used(NOW - timedelta(hours=19, minutes=42), NOW + timedelta(hours=4, minutes=18))
    assert (plain(used.left), plain(used.right), used.look) == ("19 h 42 m", "of 24 h", "near")
    assert text.time_used(NOW - day, None).right == "no deadline"


def test_every_declared_status_has_a_shape_a_colour_and_a_word() -> None:
    for entity in ENTITIES:
        for status in lifecycle(entity).states:
            shown = face(status)
            assert shown.glyph in GLYPHS, (entity, status)
            assert shown.glyph in COLOURS
            assert shown.word != status or status == "active", (entity, status)
    assert len(set(GLYPHS.values())) == len(GLYPHS)


def test_a_sellers_own_status_is_shown_as_it_is() -> None:
    shown = render("{% state s %}", s="<b>odd</b>")
    assert "&lt;b&gt;odd&lt;/b&gt;" in shown
    assert 'class="gl c-idle' in shown


def test_a_bar_never_exceeds_its_whole() -> None:
    drawn = render("{% bar parts 'label' %}", parts=[("firm", 80.0), ("soft", 50.0), ("ask", 10.0)])
    assert 'width="20.000%"' in drawn
    assert "b-ask" not in drawn


def test_terms_in_words() -> None:
    policy = {
        "notice_period": {"interval": 14, "unit": "days"},
        "cancellation_fee": {"type": "percent_remaining", "rate": 0.5},
    }
    assert plain(terms.cancellation(policy, "USD")) == "14 days’ notice, else 50 % of what remains is due"
    stated = {
        "method": "modeled",
        "points": [
            {"budget": 1000, "metrics": {"impressions": {"low": 90, "high": 110}}},
            {"budget": 5000, "metrics": {"impressions": {"low": 450, "high": 550}, "spend": {"mid": 5000}}},
            {"budget": 9000, "metrics": {"impressions": {"mid": 900}}},
        ],
    }
    assert plain(terms.forecast(stated, Decimal(6000), "USD")) == "450 – 550 impressions for USD 5,000.00"
    sponsored = {"points": [{"budget": 100, "metrics": {"impressions": {"low": 1, "high": 1}}}]}
    assert plain(terms.forecast(sponsored, None, "USD")) == "1 impression for USD 100.00"
    assert (
        terms.targeting({"geo_countries": ["US", "CA"], "geo_regions": ["US-CA"]})
        == "US, CA; geo regions: US-CA"
    )
    assert terms.rate_basis("cpm", False) == "CPM, our bid"
    assert terms.by_channel([("ctv", "a"), ("olv", "a"), ("display", "")]) == "a"
    assert terms.by_channel([("ctv", "a"), ("olv", "b")]) == "ctv: a; olv: b"
    assert terms.by_channel([("ctv", "")]) == "–"


@pytest.mark.parametrize("odd", [None, 7, "x", [], {}, {"notice_period": 3, "cancellation_fee": []}, [[{}]]])
def test_terms_that_cannot_be_read_are_left_out(odd: Any) -> None:
    assert terms.cancellation(odd, "USD") == ""
    assert terms.measurement(odd) == ""
    assert terms.makegood(odd) == ""
    assert terms.forecast({"points": odd}, Decimal(1), "USD") == ""
    assert terms.forecast({"points": [{"metrics": odd, "budget": odd}]}, None, "USD") == ""
