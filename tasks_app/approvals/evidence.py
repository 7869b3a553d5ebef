"""The evidence of a question in words: packages, departures, requirements, terms. All that is shown is bound
by its digest; a seller's part of it is hostile input and left out where it cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from decimal import Decimal
from typing import Any

from tasks_app import clock
from tasks_app.adcp.envelopes import parse_time
from tasks_app.approvals.models import Approval
from tasks_app.desk import terms, text
from tasks_app.money import decimal_of

# Shown in places of their own on the page; whatever else the evidence holds is listed as it is.
_SHOWN = frozenset(
    {
        "account",
        "account_status",
        "advertiser",
        "confirmed_gross",
        "currency",
        "deal",
        "differences",
        "end",
        "gross",
        "guaranteed",
        "invoiced_to",
        "lines",
        "payment_terms",
        "reasons",
        "seller",
        "start",
        "terms",
        "zone",
    }
)
_AMOUNTS = ("budget", "total_budget")


@dataclass(frozen=True, kw_only=True)
class Package:
    """One line of the packages table, as text; money in the deal's currency."""

    product: str
    channel: str
    ids: str
    rate: str
    basis: str
    ceiling: str
    against: str
    over: bool
    units: str
    unit: str
    minimum: str
    gross: str
    budget: Decimal | None
    forecast: str
    forecast_from: str
    targeting: str


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One departure, as text: where, what, approved and confirmed, and by how much."""

    where: str
    field: str
    approved: str
    confirmed: str
    change: str


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """One requirement of the brief and whether the product states that it meets it."""

    met: bool
    text: str


def packages(approval: Approval) -> list[Package]:
    """The packages of the evidence; none where it is about something else."""
    evidence = approval.evidence
    currency = str(evidence.get("currency") or approval.currency)
    return [_package(line, currency) for line in _dicts(evidence.get("lines"))]


def differences(approval: Approval) -> list[Difference]:
    """The departures the evidence names."""
    evidence = approval.evidence
    many = len(_dicts(evidence.get("lines"))) > 1
    return [_difference(found, evidence, many) for found in _dicts(evidence.get("differences"))]


def requirements(approval: Approval) -> list[Requirement]:
    """Why this one: every match of every line, the same said once."""
    found: dict[tuple[bool, str], Requirement] = {}
    lines = _dicts(_dict(approval.evidence.get("reasons")).get("lines"))
    for line in lines:
        for match in _dicts(line.get("matches")):
            said = f"{str(match.get('name', '')).capitalize()}: {match.get('detail', '')}"
            met = match.get("met") is True
            found[met, said] = Requirement(met=met, text=said)
    return list(found.values())


def score(approval: Approval) -> str:
    """5 of 5 requirements match: over all lines, what is the same counted once."""
    found = requirements(approval)
    return f"{sum(r.met for r in found)} of {len(found)} requirements match"


def passed_over(approval: Approval) -> list[tuple[str, str]]:
    """(seller and product, why) of what was not taken in the same channels."""
    others = _dicts(_dict(approval.evidence.get("reasons")).get("passed_over"))
    return [(f"{o.get('seller')}, {o.get('product')}", str(o.get("why", ""))) for o in others]


def stated_terms(approval: Approval, creative_deadline: datetime | None) -> list[tuple[str, str]]:
    """(label, value) of the terms as the seller states them."""
    evidence, lines = approval.evidence, packages(approval)
    if not lines:
        return []
    stated = [
        (str(line.get("channel", "")), _dict(line.get("terms"))) for line in _dicts(evidence.get("lines"))
    ]
    currency = str(evidence.get("currency", ""))
    account = str(evidence.get("account") or "none")
    who = terms.invoiced(str(evidence.get("invoiced_to") or ""))
    pays = terms.payment(str(evidence.get("payment_terms") or ""))
    cancelled = ((c, terms.cancellation(t.get("cancellation_policy"), currency)) for c, t in stated)
    measured = ((c, terms.measurement(t.get("measurement_terms"))) for c, t in stated)
    made_good = ((c, terms.makegood(t.get("measurement_terms"))) for c, t in stated)
    deadline = text.moment(creative_deadline) if creative_deadline else "not stated before booking"
    return [
        ("Flight", f"{flight_of(evidence)}, {evidence.get('zone', '')}"),
        ("Account", f"{account}, {evidence.get('account_status', '')}"),
        ("Creatives due", deadline),
        ("Invoiced to", ", ".join(part for part in (who, pays) if part) or text.DASH),
        ("Cancellation", terms.by_channel(cancelled)),
        ("Measurement", terms.by_channel(measured)),
        ("Targeting", terms.by_channel((line.channel, line.targeting) for line in lines)),
        ("Makegood", terms.by_channel(made_good)),
    ]


def other_facts(approval: Approval) -> list[tuple[str, str]]:
    """Whatever else the evidence says in plain values, so that nothing shown is hidden from the person."""
    return [
        (name.replace("_", " ").capitalize(), _plain(value))
        for name, value in sorted(approval.evidence.items())
        if name not in _SHOWN and isinstance(value, str | int | bool) and value != ""
    ]


def commitment_of(evidence: Mapping[str, Any]) -> str:
    """Guaranteed, Non-guaranteed, or both where lines differ; empty where it is not about lines."""
    kinds = {line.get("guaranteed") is True for line in _dicts(evidence.get("lines"))}
    return {1: "Guaranteed" if True in kinds else "Non-guaranteed", 2: "Partly guaranteed"}.get(
        len(kinds), ""
    )


def flight_of(evidence: Mapping[str, Any]) -> str:
    """The flight with its inclusive last day, in its own zone."""
    start, end = (parse_time(evidence.get(key)) for key in ("start", "end"))
    return text.flight(start, end, str(evidence.get("zone", "")))


def hold_of(evidence: Mapping[str, Any]) -> datetime | None:
    """Until when the seller holds the inventory, where it says so."""
    return parse_time(_dict(evidence.get("terms")).get("hold_expires_at"))


def cancel_by(evidence: Mapping[str, Any]) -> datetime | None:
    """The last moment to cancel every package without a fee, None where none is stated to cost one."""
    start = parse_time(evidence.get("start"))
    notices = (
        terms.notice_before_fee(_dict(line.get("terms")).get("cancellation_policy"))
        for line in _dicts(evidence.get("lines"))
    )
    known = [notice for notice in notices if notice is not None]
    return start - max(known) if start and known else None


def cancel_words(evidence: Mapping[str, Any]) -> str:
    """no fee until Fri 27 Nov; free until Tue 17 Nov, past; empty where nothing is stated."""
    at = cancel_by(evidence)
    if at is None:
        return ""
    last = text.day(at, str(evidence.get("zone", "")))
    return f"no fee until {last}" if at > clock.now() else f"only with a fee since {last}"


def _package(line: Mapping[str, Any], currency: str) -> Package:
    model, rate, ceiling = str(line.get("rate_basis", "")), _number(line, "rate"), _number(line, "ceiling")
    stated, budget = _dict(line.get("forecast")), _number(line, "budget")
    return Package(
        product=str(line.get("product", "")),
        channel=str(line.get("channel", "")),
        ids=f"{line.get('product_id', '')} / {line.get('pricing_option_id', '')}",
        rate=_rate(rate, currency),
        basis=terms.rate_basis(model, line.get("fixed") is True),
        ceiling=_rate(ceiling, currency) if ceiling is not None else "none",
        against=_against(rate, ceiling),
        over=rate is not None and ceiling is not None and rate > ceiling,
        units=text.number(_number(line, "units"), 1 if model == "cpp" else 0),
        unit=terms.units_word(model),
        minimum=text.amount(_number(line, "minimum"), currency),
        gross=text.amount(budget, currency),
        budget=budget,
        forecast=terms.forecast(stated, budget, currency),
        forecast_from=terms.forecast_source(stated),
        targeting=terms.targeting(line.get("targeting")),
    )


def _rate(rate: Decimal | None, currency: str) -> str:
    """At least the currency's decimals, more where the rate has them: 28.50, 0.032."""
    if rate is None:
        return text.DASH
    exact = text.number(rate)
    usual = text.amount(rate, currency)
    return exact if len(exact.partition(".")[2]) > len(usual.partition(".")[2]) else usual


def _against(rate: Decimal | None, ceiling: Decimal | None) -> str:
    if rate is None or not ceiling:
        return ""
    share = (ceiling - rate) / ceiling * 100
    if share == 0:
        return "at the ceiling"
    return f"{text.number(abs(share), 1)}{text.SPACE}% {'under' if share > 0 else 'over'}"


def _difference(found: Mapping[str, Any], evidence: Mapping[str, Any], many: bool) -> Difference:
    name, zone = str(found.get("field", "")), str(evidence.get("zone", ""))
    currency = str(evidence.get("currency", ""))
    approved, confirmed = found.get("approved"), found.get("confirmed")
    product = str(found.get("product") or "")
    return Difference(
        where=f"{found['line']}. {product}" if many and "line" in found else product,
        field=name,
        approved=_difference_text(name, approved, currency, zone),
        confirmed=_difference_text(name, confirmed, currency, zone),
        change=_change(approved, confirmed, currency) if name in (*_AMOUNTS, "rate") else "",
    )


def _difference_text(name: str, value: Any, currency: str, zone: str) -> str:
    at = parse_time(value) if name in ("start", "end") else None
    if name in _AMOUNTS:
        return text.amount(value, currency)
    if name == "rate":
        return _rate(decimal_of(value), currency)
    if at is not None:
        return _boundary(name, at, zone)
    return terms.targeting(value) if isinstance(value, dict) and value else _plain(value)


def _boundary(name: str, at: datetime, zone: str) -> str:
    """A flight's first or last day (the end is exclusive), with the hour where it is not midnight."""
    if at.astimezone(text.zone_of(zone)).time() != time():
        return text.moment(at, zone)
    return text.day(at if name == "start" else at - timedelta(microseconds=1), zone)


def _change(approved: Any, confirmed: Any, currency: str) -> str:
    before, after = decimal_of(approved), decimal_of(confirmed)
    if before is None or after is None:
        return ""
    delta = text.amount(after - before, currency)
    sign = "+" if after > before else ""
    share = f" ({sign}{text.number((after - before) / before * 100, 1)}{text.SPACE}%)" if before else ""
    return f"{sign}{delta}{share}"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    at = parse_time(value) if isinstance(value, str) else None
    if at is not None:
        return text.moment(at)
    return text.DASH if value in (None, "", {}) else str(value)


def _number(line: Mapping[str, Any], key: str) -> Decimal | None:
    return decimal_of(line.get(key))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []
