"""The evidence of a question in words: packages, departures, requirements, terms. All that is shown is bound
by its digest; a seller's part of it is hostile input and left out where it cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache, partial
from itertools import islice
from typing import Any

from tasks_app import clock
from tasks_app.adcp.values import parse_time
from tasks_app.approvals.models import Approval
from tasks_app.approvals.plain import shortened
from tasks_app.approvals.sent import field_words, leaves
from tasks_app.desk import terms, text
from tasks_app.money import decimal_of

# Shown in places of their own on every page; what a gate lets pass, and what a cancellation costs, is said by
# why it is asked and by what approving does.
_PLACED = frozenset({"cancellation", "differences", "gates", "lines", "passes", "seller", "sent"})
# Of the reasons of a deal: what was asked for is what is sent.
_PLACED_REASONS = frozenset({"asked_for", "lines", "passed_over", "passed_over_more"})
# The same on the page of what is about packages; whatever else the evidence holds is listed as it is.
_SHOWN = _PLACED | frozenset(
    {
        "account",
        "account_status",
        "advertiser",
        "budget_left_after",
        "confirmed_gross",
        "currency",
        "deal",
        "end",
        "gross",
        "gross_after",
        "guaranteed",
        "invoiced_to",
        "payment_terms",
        "start",
        "terms",
        "zone",
    }
)
_AMOUNTS = ("budget", "total_budget")
# Departures that cost: shown first where not all are.
_COSTLY = frozenset({*_AMOUNTS, "package", "packages", "currency", "rate"})
# What a seller answered, whole: it may hold millions of values, and texts and names of megabytes.
_ANSWERS = frozenset({"answered", "first", "second"})
_MOST_OF_AN_ANSWER, _MOST_COUNTED = 300, 20_000
_LONGEST_OF_AN_ANSWER, _LONGEST_NAME = 2_000, 200
_HELD = "seller_holds"  # of each of our packages, what its seller states
_BLANK: tuple[Any, ...] = (None, "", [], {})
# Amounts of a pricing option that nobody could read (orders/offers.py), by their AdCP names.
_UNREAD = {
    "fixed_price": "Price",
    "floor_price": "Floor price",
    "price_guidance": "Price guidance",
    "min_spend_per_package": "Minimum spend",
}


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


def costliest_first(found: Iterable[Difference]) -> list[Difference]:
    """Departures for where a few are shown: those first that change what it costs."""
    return sorted(found, key=lambda one: one.field not in _COSTLY)


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
    """(seller and product, why) of what was not taken in the same channels; the seller alone where it was not
    read to its end."""
    others = _dicts(_dict(approval.evidence.get("reasons")).get("passed_over"))
    return [
        (", ".join(str(o[name]) for name in ("seller", "product") if o.get(name)), str(o.get("why", "")))
        for o in others
    ]


def passed_over_more(approval: Approval) -> int:
    """How many more were not taken than `passed_over` names."""
    more = _dict(approval.evidence.get("reasons")).get("passed_over_more")
    return more if isinstance(more, int) and more > 0 else 0


def stated_terms(
    approval: Approval, creative_deadline: datetime | None, *, deadline_unread: str = ""
) -> list[tuple[str, str]]:
    """(label, value) of the terms as the seller states them. `deadline_unread`: the deadline of creatives, as
    stated, where that is no moment."""
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
    held = [(c, unread) for c, t in stated if (unread := _hold_unread(t))]
    deadline = text.moment(creative_deadline) if creative_deadline else "not stated before booking"
    deadline = f"as stated: {text.stated(deadline_unread)}" if deadline_unread else deadline
    unread_amounts = [(label, list(_unread(stated, name))) for name, label in _UNREAD.items()]
    return [
        ("Flight", f"{flight_of(evidence)}, {evidence.get('zone', '')}"),
        ("Account", f"{account}, {evidence.get('account_status', '')}"),
        ("Creatives due", deadline),
        ("Invoiced to", ", ".join(part for part in (who, pays) if part) or text.DASH),
        ("Cancellation", terms.by_channel(cancelled)),
        ("Measurement", terms.by_channel(measured)),
        ("Targeting", terms.by_channel((line.channel, line.targeting) for line in lines)),
        ("Makegood", terms.by_channel(made_good)),
        *([("Hold, as stated", terms.by_channel(held))] if held else []),
        *((f"{label}, as stated", terms.by_channel(said)) for label, said in unread_amounts if said),
    ]


def other_facts(approval: Approval) -> list[tuple[str, str]]:
    """Whatever else the evidence says, value by value, so that nothing that is decided on is hidden from the
    person: of a list or an object each with the names that lead to it. First what we say, whole, and of each
    package what its seller holds; then what its seller answered. Of what a seller says no more than people
    read, and how much is left."""
    evidence = approval.evidence
    placed = _SHOWN if evidence.get("lines") else _PLACED
    named = [name for name in sorted(evidence) if name not in placed and f"{name}_in_words" not in evidence]
    named.sort(key=lambda name: name in _ANSWERS)
    return [fact for name in named for fact in _facts(name, evidence[name])]


def _facts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if value in _BLANK:
        return
    if name in _ANSWERS:
        yield from _answered((name,), value)
        return
    if name == _HELD:
        for place, package in enumerate(_dicts(value), start=1):
            for field, held in package.items():
                yield from _answered(("seller holds", str(place), field.replace("_", " ")), held)
        return
    is_reasons = name == "reasons"  # their own names say enough
    found = leaves(_other_reasons(value)) if is_reasons else leaves(value, (name.replace("_", " "),))
    yield from ((field_words(keys).capitalize(), _plain(leaf)) for keys, leaf in found)


def _answered(keys: tuple[str, ...], value: Any) -> Iterator[tuple[str, str]]:
    values, name_of = leaves(value, keys), cache(partial(shortened, most=_LONGEST_NAME))
    for names, leaf in islice(values, _MOST_OF_AN_ANSWER):
        label = field_words(tuple(map(name_of, names))).capitalize()
        yield shortened(label, _LONGEST_OF_AN_ANSWER), shortened(_plain(leaf), _LONGEST_OF_AN_ANSWER)
    more = sum(1 for _ in islice(values, _MOST_COUNTED))
    unread = any(True for _ in values)
    if more:
        said = f"more than {more:,}" if unread else f"{more:,}"
        yield f"{field_words(keys).capitalize()}, and", f"{said} more values, which its record holds"


def _other_reasons(reasons: Any) -> dict[str, Any]:
    """The reasons that have no place of their own, and where what is known of each package is from."""
    found = {name: value for name, value in _dict(reasons).items() if name not in _PLACED_REASONS}
    known = [{"facts": line["facts"]} for line in _dicts(_dict(reasons).get("lines")) if "facts" in line]
    return {**found, **({"packages": known} if known else {})}


def commitment_of(evidence: Mapping[str, Any]) -> str:
    """Guaranteed, Non-guaranteed, or both where lines differ; empty where it is not about lines."""
    kinds = {line.get("guaranteed") is True for line in _dicts(evidence.get("lines"))}
    return {1: "Guaranteed" if True in kinds else "Non-guaranteed", 2: "Partly guaranteed"}.get(
        len(kinds), ""
    )


def flight_of(evidence: Mapping[str, Any]) -> str:
    """The flight with its inclusive last day, in its own zone."""
    return text.flight(*_moments(evidence, "start", "end"), str(evidence.get("zone", "")))


def _moments(evidence: Mapping[str, Any], start: str, end: str) -> tuple[datetime | None, datetime | None]:
    return parse_time(evidence.get(start)), parse_time(evidence.get(end))


def hold_of(evidence: Mapping[str, Any]) -> datetime | None:
    """Until when the seller holds the inventory, where it says so."""
    return parse_time(_dict(evidence.get("terms")).get("hold_expires_at"))


def _unread(stated: Sequence[tuple[str, Mapping[str, Any]]], name: str) -> Iterator[tuple[str, str]]:
    """(channel, as stated) of an amount that nobody can read."""
    for channel, told in stated:
        said = _dict(told.get("as_stated")).get(name)
        if said:
            yield channel, text.stated(said)


def _hold_unread(told: Mapping[str, Any]) -> str:
    """Until when the seller says that it holds the inventory, where no moment can be read from it."""
    until = told.get("hold_expires_at")
    return text.stated(until) if parse_time(until) is None else ""


def cancel_by(evidence: Mapping[str, Any]) -> datetime | None:
    """The last moment to cancel every package without a fee, None where none is stated to cost one."""
    start, zone = parse_time(evidence.get("start")), str(evidence.get("zone", ""))
    if start is None:
        return None
    policies = (_dict(line.get("terms")).get("cancellation_policy") for line in _dicts(evidence.get("lines")))
    moments = (terms.last_free(policy, start, zone) for policy in policies)
    return min((moment for moment in moments if moment is not None), default=None)


def cancel_words(evidence: Mapping[str, Any]) -> str:
    """no fee until Fri 27 Nov, its last day; only with a fee since Sat 28 Nov; empty where none is stated."""
    at, zone = cancel_by(evidence), str(evidence.get("zone", ""))
    if at is None:
        return ""
    if at > clock.now():
        return f"no fee until {text.flight_edge('end', at, zone)}"
    return f"only with a fee since {text.flight_edge('start', at, zone)}"


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
    if name in _AMOUNTS and decimal_of(value) is not None:
        return text.amount(value, currency)
    if name == "rate" and decimal_of(value) is not None:
        return _rate(decimal_of(value), currency)
    if at is not None:
        return text.flight_edge(name, at, zone)
    return terms.targeting(value) if isinstance(value, dict) and value else _plain(value)


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
    return text.DASH if value in _BLANK else str(value)


def _number(line: Mapping[str, Any], key: str) -> Decimal | None:
    return decimal_of(line.get(key))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []
