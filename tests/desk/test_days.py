"""Whose day it is: a flight's own, the viewer's, never UTC's by accident; and texts that are kept name their
zone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from icalendar import Calendar as Document

from campaigns.brief import brief_validate
from campaigns.calendar import layout
from campaigns.calendar.entries import Wanted, calendar_of
from campaigns.calendar.ical import calendar_bytes
from orders.acts import deal_cancel_ask
from orders.cost_dates import cost_dates
from orders.evidence import cancellation_evidence, cancellation_words, deal_evidence
from orders.models import Deal
from orders.questions import ask_deal
from tasks_app import clock, days
from tasks_app.approvals.evidence import cancel_by, cancel_words
from tasks_app.approvals.kinds import Fate, fate_of
from tasks_app.approvals.rates import rate_problems
from tasks_app.approvals.telling import approvals_tell
from tasks_app.desk import text
from tasks_app.desk.explain import explain_row
from tasks_app.notifications.models import Notification
from tasks_app.notifications.moments import render_moments
from tests.campaigns.briefs import brief
from tests.factories import make_deal, make_line, make_user
from tests.orders.live import booked

ROOT = Path(__file__).resolve().parents[2]
NEW_YORK = "America/New_York"
# What turns a moment into a day, or a day into a moment.
_DAYS = {"astimezone", "date", "today", "localtime", "localdate", "make_aware", "combine"}
# The module itself; and what computes with the clocks of a place: a cron expression's, opening hours.
_OF_DAYS = {"tasks_app/days.py", "tasks_app/jobs/cron.py", "tasks_app/sellers/hours.py"}
# The same in the database, where a session's zone is UTC: Django's functions, its lookups, and in SQL.
_FUNCTIONS = re.compile(r"(?:Trunc|Extract)\w*|DateField")
_LOOKUPS = re.compile(
    r"\w__(?:date|time|day|month|year|iso_year|quarter|week|week_day|iso_week_day|hour|minute)(?:__\w+)?$"
)
_SQL = re.compile(
    r"::\s*date\b|\bas\s+date\b|\bdate_(?:trunc|part|bin)\b|\bcurrent_date\b|\blocaltimestamp\b|\bmake_date\b"
    r"|\bto_char\b|\bat\s+time\s+zone\b|\bdate\s*\(|\bextract\s*\(\s*(?!epoch\b)\w+\s+from\b",
    re.I,
)
# Holds days that people typed.
_OF_DAYS_IN_ROWS = {"tasks_app/days.py", "tasks_app/approvals/policy_models.py: DateField"}
# What writes texts of its own on pages, beside one that is kept.
_ON_PAGES = {"tasks_app/commands/kill_switch.py: stopped_words"}
# Commands that write the viewer's moments, and say in which zone.
_SAYS_ITS_ZONE = {"tasks_app/management/commands/explain.py: _lines"}


def _calls(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(what it is asked of, the method) of each call of a method."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield ast.unparse(node.func.value), node.func.attr


def _turns(source: str) -> Iterator[str]:
    """What turns moments into days, or days and wall clocks into moments, but by the module of days."""
    tree = ast.parse(source)
    yield from (f"{of}.{method}" for of, method in _calls(tree) if method in _DAYS and of != "days")
    named = [
        (node.module, name.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    ]
    yield from (f"{of}.{name}" for of, name in named if name in _DAYS - {"date"} and of != "tasks_app.days")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".replace"):
            zones = [ast.unparse(told.value) for told in node.keywords if told.arg == "tzinfo"]
            yield from (f"replace(tzinfo={zone})" for zone in zones if zone not in ("None", "UTC"))


@pytest.mark.parametrize(
    "source",
    [
        "at.astimezone(zone)",
        "from django.utils.timezone import localtime",
        "wall.replace(tzinfo=zone)",
        "timezone.localdate(at)",
    ],
)
def test_whatever_turns_moments_into_days_is_seen(source: str) -> None:
    assert [*_turns(source)]


@pytest.mark.parametrize(
    "source",
    ["from tasks_app.days import today", "days.today()", "at.replace(tzinfo=None)", "date(2026, 1, 2)"],
)
def test_what_does_not_is_not(source: str) -> None:
    assert not [*_turns(source)]


# What names a day, not a moment.
_NAMES_DAYS = {"day", "first", "last", "middle"}
# What writes no text for people: a file's name, the key of a notice.
_WRITTEN = {
    "tasks_app/desk/text.py",
    "tasks_app/desk/list_tools.py: days.local(clock.now())",
    "tasks_app/management/commands/audit_anchor.py: clock.now()",
    "tasks_app/operations/telling.py: operation.deadline_at",
    "tasks_app/webhooks/alarms.py: clock.now()",
}


def _formatted(source: str) -> Iterator[str]:
    """What f-strings write as a moment or a day, but for keys, days by name, and what is said to be UTC."""
    tree = ast.parse(source)
    named = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "key"
        for inner in ast.walk(node)
    }
    for text_ in ast.walk(tree):
        if not isinstance(text_, ast.JoinedStr) or text_ in named or " UTC" in ast.unparse(text_):
            continue
        for part in text_.values:
            if isinstance(part, ast.FormattedValue) and part.format_spec is not None:
                of, spec = ast.unparse(part.value), ast.unparse(part.format_spec)
                if spec[2:].startswith("%") and of.rpartition(".")[2] not in _NAMES_DAYS:
                    yield of


def _sources() -> Iterator[tuple[str, str]]:
    for top in ("tasks_app", "orders", "campaigns", "config"):
        for path in sorted((ROOT / top).rglob("*.py")):
            if "migrations" not in path.parts:
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


@pytest.mark.rule
def test_one_module_turns_moments_into_days() -> None:
    found = [f"{path}: {it}" for path, source in _sources() if path not in _OF_DAYS for it in _turns(source)]
    assert found == []


def _taken_off(source: str) -> Iterator[str]:
    """What takes a span off a flight's beginning in plain seconds: its days are those of its clocks."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            left, right = ast.unparse(node.left), ast.unparse(node.right)
            if "start_at" in left and "_at" not in right:
                yield f"{left} - {right}"


@pytest.mark.rule
def test_one_function_counts_back_from_a_flights_beginning() -> None:
    assert [f"{path}: {it}" for path, source in _sources() for it in _taken_off(source)] == []
    assert list(_taken_off("(line.confirmed_start_at or line.start_at) - notice"))


def _in_rows(source: str) -> Iterator[str]:
    """What has the database turn moments into days."""
    tree = ast.parse(source)
    prose = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        name = next((getattr(node, part) for part in ("attr", "id", "name") if hasattr(node, part)), None)
        if _FUNCTIONS.fullmatch(str(name)):
            yield str(name)
        if isinstance(node, ast.keyword) and _LOOKUPS.search(node.arg or ""):
            yield str(node.arg)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in prose:
            yield from _lookups_and_sql(node.value)


def _lookups_and_sql(said: str) -> Iterator[str]:
    if said.isidentifier() and _LOOKUPS.search(said):
        yield said
    yield from _SQL.findall(said)


@pytest.mark.rule
def test_one_module_has_the_database_turn_moments_into_days() -> None:
    found = {
        f"{path}: {what}"
        for path, source in _sources()
        if path not in _OF_DAYS_IN_ROWS
        for what in _in_rows(source)
    }
    assert found - _OF_DAYS_IN_ROWS == set()
    scripts = [path for top in ("tasks_app", "orders", "campaigns") for path in (ROOT / top).rglob("*.sql")]
    assert scripts
    assert [path.name for path in scripts if _SQL.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "source",
    [
        'rows.values_list(TruncDate("at"))',
        'rows.annotate(d=functions.TruncDay("at"))',
        'rows.annotate(d=ExtractWeekDay("at"))',
        "from django.db.models.functions import TruncDate as day",
        'Trunc("at", "day")',
        "Cast('at', models.DateField())",
        "rows.filter(at__date=day)",
        "rows.filter(deal__start_at__date__gte=day)",
        "rows.filter(at__year=2027)",
        "rows.order_by('at__date')",
        "rows.filter(**{'at__month': 3})",
        "cursor.execute('select at::date from t')",
        "cursor.execute('select now() :: date')",
        "cursor.execute(f'select {x} where cast(at as date) = current_date')",
        "RawSQL(\"date_trunc('day', at)\", [])",
        'SQL = "select extract(day from at)"',
        "SQL = \"select at at time zone 'UTC'\"",
        "SQL = \"select to_char(at, 'YYYY')\"",
        "SQL = 'select date(at) from t'",
    ],
)
def test_each_way_to_have_the_database_do_so_is_seen(source: str) -> None:
    assert list(_in_rows(source))


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """The date (of a flight) as date."""',
        "rows.filter(updated=day, candidate__status=1)",
        "SQL = 'select extract(epoch from at)'",
        "update(now)",
        "SQL = 'select update(x)'",
    ],
)
def test_what_turns_nothing_into_a_day_is_not(source: str) -> None:
    assert list(_in_rows(source)) == []


@pytest.mark.rule
def test_one_module_writes_moments() -> None:
    """An f-string's own format writes in whichever zone the moment happens to have: UTC, mostly."""
    found = {
        f"{path}: {of}" for path, source in _sources() if path not in _WRITTEN for of in _formatted(source)
    }
    assert found - _WRITTEN == set()
    assert list(_formatted('f"{at:%H:%M} on {on.day:%d}"')) == ["at"]


@pytest.mark.rule
def test_what_is_kept_or_sent_names_its_zone() -> None:
    """A notification and a mail are read in another zone than they were written in; so is a terminal."""
    found = {
        f"{path}: {function.name}"
        for path, source in _sources()
        if ("services import" in source and " notify" in source) or "management/commands" in path
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef)
        for of, method in _calls(function)
        if of == "text" and method in ("moment", "moment_short", "day")
    }
    assert found == _ON_PAGES | _SAYS_ITS_ZONE


@pytest.mark.django_db
def test_a_reminder_names_its_zone() -> None:
    asked = ask_deal(make_deal())
    make_user("Approver", time_zone=NEW_YORK)
    with timezone.override(NEW_YORK):
        approvals_tell()
    note = Notification.objects.get(kind="approval_waits")
    assert f"By {text.moment(asked.due_at, NEW_YORK)} New York." in render_moments(note.body, NEW_YORK)


_ZONES = st.sampled_from(["UTC", NEW_YORK, "Asia/Tokyo", "Asia/Kathmandu", "Pacific/Apia"])


@given(day=st.dates(date(2000, 1, 2), date(2199, 12, 30)), zone=_ZONES)
def test_a_day_is_its_own(day: date, zone: str) -> None:
    begins, ends = days.start_of(day, zone), days.end_of(day, zone)
    assert days.day_of(begins, zone) == day == days.last_day(ends, zone)
    assert days.day_of(ends, zone) == day + timedelta(days=1)
    assert days.before(ends, timedelta(days=1), zone) == begins


@pytest.mark.django_db
@pytest.mark.parametrize("zone", ["UTC", NEW_YORK, "Asia/Tokyo", "Asia/Kathmandu"])
def test_the_database_counts_the_viewers_days(zone: str) -> None:
    deal = make_deal(end_at=datetime(2031, 3, 1, tzinfo=UTC))
    seen = set()
    for hour in (3, 12, 20):
        Deal.objects.filter(pk=deal.pk).update(start_at=datetime(2030, 3, 1, hour, 30, tzinfo=UTC))
        with timezone.override(zone):
            ((at, day),) = Deal.objects.values_list("start_at", days.day_of_column("start_at"))
            assert day == days.day_of(at)
        seen.add(day)
    assert len(seen) == (1 if zone == "UTC" else 2)


def test_a_relative_day_is_of_the_flights_zone() -> None:
    at = datetime(2030, 3, 1, 2, 0, tzinfo=UTC)  # 28 February, 21:00 in New York
    read, problems = brief_validate(brief(flight__start="+14d", flight__end="+41d"), now=at)
    assert problems == []
    assert read is not None
    assert (read.flight.zone, read.flight.start, read.flight.end) == (
        NEW_YORK,
        date(2030, 3, 14),
        date(2030, 4, 10),
    )


@pytest.mark.django_db
@pytest.mark.parametrize(("zone", "day"), [("Asia/Tokyo", 22), ("UTC", 21), (NEW_YORK, 21)])
def test_a_rate_is_of_a_day_that_has_come_for_whoever_enters_it(zone: str, day: int) -> None:
    given_ = {"currency": "JPY", "usd": Decimal("0.0067"), "source": "ECB"}
    with clock.injected(lambda: datetime(2026, 11, 21, 23, 30, tzinfo=UTC)), timezone.override(zone):
        assert rate_problems(day=date(2026, 11, day), **given_) == {}
        assert "day" in rate_problems(day=date(2026, 11, day + 1), **given_)


def _evidence(start: datetime, interval: int, unit: str) -> dict[str, Any]:
    policy = {
        "notice_period": {"interval": interval, "unit": unit},
        "cancellation_fee": {"type": "full_commitment"},
    }
    return {
        "start": start.isoformat(),
        "zone": NEW_YORK,
        "lines": [{"terms": {"cancellation_policy": policy}}],
    }


@pytest.mark.parametrize(
    ("now", "interval", "unit", "said"),
    [
        (datetime(2027, 11, 1, tzinfo=UTC), 7, "days", "no fee until Tue 23 Nov"),
        (datetime(2027, 11, 30, tzinfo=UTC), 7, "days", "only with a fee since Wed 24 Nov"),
        (datetime(2027, 11, 1, tzinfo=UTC), 12, "hours", "no fee until Tue 30 Nov, 12:00 New York"),
        (datetime(2027, 10, 1, tzinfo=UTC), 30, "days", "no fee until Sun 31 Oct"),  # clocks go back
    ],
)
def test_the_last_day_without_a_fee_is_the_last(now: datetime, interval: int, unit: str, said: str) -> None:
    evidence = _evidence(days.start_of(date(2027, 12, 1), NEW_YORK), interval, unit)
    with clock.injected(lambda: now):
        assert cancel_words(evidence).replace(text.SPACE, " ") == said
        assert cancel_by(evidence) is not None


@pytest.mark.django_db
@pytest.mark.parametrize(("hours_later", "is_free"), [(-0.5, True), (0.5, False)])
def test_who_is_asked_to_cancel_reads_the_same_last_moment_as_the_deal(
    hours_later: float, is_free: bool
) -> None:
    """The flight begins on 10 November in New York, where the clocks go back on the 7th."""
    policy = {
        "notice_period": {"interval": 7, "unit": "days"},
        "cancellation_fee": {"type": "percent_remaining", "rate": 0.25},
    }
    start = days.start_of(date(2027, 11, 10), NEW_YORK)
    line = make_line(terms={"cancellation_policy": policy})
    deal = booked(line=line, start_at=start, end_at=start + timedelta(days=21), zone=NEW_YORK)
    last = days.start_of(date(2027, 11, 3), NEW_YORK)
    (shown,) = [one.at for one in cost_dates(deal, list(deal.lines.all()), ()) if one.kind == "cancel"]
    assert cancel_by(deal_evidence(deal)) == shown == last

    with clock.injected(lambda: last + timedelta(hours=hours_later)), timezone.override("Asia/Tokyo"):
        said = cancellation_words({**deal_evidence(deal), **cancellation_evidence(deal, {})})
        assert (f": none until {text.moment_there(last, NEW_YORK)}, then" in said) == is_free
    assert ("none" in said) == is_free


@pytest.mark.django_db
@pytest.mark.parametrize("viewer", [NEW_YORK, "Asia/Tokyo"])
def test_a_cancellation_asked_about_before_new_year_is_the_same_question_after_it(viewer: str) -> None:
    """On New Year's Eve, too, when it is next year already for some of those who read it."""
    policy = {
        "notice_period": {"interval": 7, "unit": "days"},
        "cancellation_fee": {"type": "percent_remaining", "rate": 0.25},
    }
    start = days.start_of(date(2028, 1, 20), NEW_YORK)
    with clock.injected(lambda: datetime(2027, 12, 31, 20, tzinfo=UTC)), timezone.override(NEW_YORK):
        line = make_line(terms={"cancellation_policy": policy})
        deal = booked(line=line, start_at=start, end_at=start + timedelta(days=21), zone=NEW_YORK)
        asked = deal_cancel_ask(deal_id=deal.pk, user=make_user("Buyer"), reason="So")
    for now in (datetime(2027, 12, 31, 20, tzinfo=UTC), datetime(2028, 1, 2, 12, tzinfo=UTC)):
        with clock.injected(lambda at=now: at), timezone.override(viewer):
            assert fate_of(asked) == Fate.STANDS


@pytest.mark.django_db
@pytest.mark.parametrize("zone", ["Europe/Stockholm", "Asia/Tokyo", "Pacific/Honolulu"])
def test_the_calendar_and_its_feed_name_a_flights_own_days(zone: str) -> None:
    first, last = date(2027, 4, 1), date(2027, 4, 30)
    start, end = days.start_of(first, NEW_YORK), days.end_of(last, NEW_YORK)
    make_deal(start_at=start, end_at=end, zone=NEW_YORK)
    viewer = make_user("Finance", time_zone=zone)
    with timezone.override(zone):
        seen = calendar_of(viewer, Wanted(since=start - timedelta(days=40), until=end + timedelta(days=40)))
        sheet = layout.by_day(seen.entries)
        on = {entry.kind: day for day, entries in sheet.items() for entry in entries}
        (lane,) = layout.drawn(seen, first)
    assert (on["start"], on["end"]) == (first, last)
    assert float(lane.x or -1) == 0, "its bar begins with its first day"
    events = Document.from_ical(calendar_bytes(seen)).walk("VEVENT")
    (flight,) = [event for event in events if str(event["uid"]).startswith("flight")]
    assert (flight.decoded("dtstart"), flight.decoded("dtend")) == (first, last + timedelta(days=1))


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["", "start", "end"], ids=["all", "start", "end"])
def test_the_calendar_has_a_flights_day_where_it_is_placed(kind: str) -> None:
    """A day that begins in Tokyo when it is the day before in Honolulu is in the time of its own day."""
    first, last, tokyo = date(2027, 5, 3), date(2027, 5, 30), "Asia/Tokyo"
    make_deal(start_at=days.start_of(first, tokyo), end_at=days.end_of(last, tokyo), zone=tokyo)
    viewer = make_user("Finance", time_zone="Pacific/Honolulu")
    expected = {one: day for one, day in {"start": first, "end": last}.items() if kind in ("", one)}
    with timezone.override("Pacific/Honolulu"):
        for begin, on in ((date(2027, 4, 5), {}), (first, expected), (date(2027, 5, 31), {})):
            since, until = days.start_of(begin), days.start_of(begin + timedelta(days=28))
            seen = calendar_of(viewer, Wanted(since=since, until=until, kind=kind))
            assert {entry.kind: entry.day for entry in seen.entries} == on
            assert bool(layout.drawn(seen, begin)) == bool(on)
        assert {entry.when.rpartition(" ")[2] for entry in seen.entries} <= {"Tokyo"}


@pytest.mark.django_db
def test_a_flights_day_is_told_by_its_own_clocks() -> None:
    first, last = date(2030, 5, 10), date(2030, 5, 16)
    start, end = days.start_of(first, NEW_YORK), days.end_of(last, NEW_YORK)
    make_deal(start_at=start, end_at=end, zone=NEW_YORK)
    viewer = make_user("Finance", time_zone="Europe/Stockholm")
    with timezone.override("Europe/Stockholm"):
        wanted = Wanted(since=start - timedelta(days=9), until=end + timedelta(days=9))
        told = {one.kind: (one.when, one.hour) for one in calendar_of(viewer, wanted).entries}
    assert told["start"] == (f"{text.weekday(first)}, 00:00 New York", "00:00 New York")
    assert told["end"] == (f"{text.weekday(last)}, 23:59 New York", "23:59 New York")


@pytest.mark.django_db
def test_the_explanation_of_a_deal_tells_its_flights_own_moment() -> None:
    first = date(2030, 5, 10)
    start = days.start_of(first, NEW_YORK)
    deal = booked(start_at=start, end_at=start + timedelta(days=9), zone=NEW_YORK)
    viewer = make_user("Finance")
    with timezone.override("Europe/Stockholm"):
        told = explain_row("deal", deal.pk, viewer)
    assert f"booked to begin {text.weekday(first)}, 00:00 New York." in told.waiting_for
