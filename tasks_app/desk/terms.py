"""Sellers' terms in words: rate bases, forecasts, cancellation, measurement, targeting.

Source: AdCP core/pricing-option, core/delivery-forecast, core/cancellation-policy, core/measurement-terms.
Everything here comes from a seller and is shown as stated; what cannot be read is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from tasks_app.desk.text import DASH, SPACE, amount, number
from tasks_app.money import decimal_of

_BASES = {"flat_rate": "flat rate", "revenue_share": "revenue share", "time": "per time"}
_UNITS = {
    "cpm": "impressions",
    "vcpm": "viewable impressions",
    "cpc": "clicks",
    "cpcv": "completed views",
    "cpv": "views",
    "cpp": "rating points",
    "cpa": "actions",
}
_PARTIES = {
    "operator": "the operator (agency, or brand buying direct)",
    "agent": "the buying agent",
    "advertiser": "the advertiser",
}
_SECONDS = {"hour": 3600, "day": 86_400, "week": 604_800}
_LONGEST_NOTICE = 1000  # of any unit; what is stated beyond it cannot be meant
_METRICS = {"grps": "rating points", "completed_views": "completed views"}


def rate_basis(model: str, fixed: bool) -> str:
    """CPM, fixed; CPM, our bid."""
    if model in _BASES:
        return _BASES[model]
    return f"{model.upper()}, {'fixed' if fixed else 'our bid'}"


def units_word(model: str) -> str:
    """What a rate of this basis buys; empty for a flat rate."""
    return _UNITS.get(model, "")


def forecast(stated: Mapping[str, Any], budget: Decimal | None, currency: str) -> str:
    """The seller's own forecast nearest below the budget, as a range: 9,000 – 11,000 impressions for …"""
    point = _point(stated.get("points"), budget)
    if point is None:
        return ""
    metrics = point.get("metrics")
    told = metrics.items() if isinstance(metrics, Mapping) else ()
    ranges = [_range(name, value) for name, value in told if name != "spend"]
    said = ", ".join(found for found in ranges if found)
    spend = decimal_of(point.get("budget"))
    if not said or spend is None:
        return said
    code = str(stated.get("currency") or currency)
    return f"{said} for {code}{SPACE}{amount(spend, code)}"


def forecast_source(stated: Mapping[str, Any]) -> str:
    """modeled by the seller, source nielsen, P25-54."""
    if not stated:
        return "none stated"
    parts = [f"{stated.get('method', 'no method stated')}, the seller’s own"]
    if stated.get("measurement_source"):
        parts.append(f"source {stated['measurement_source']}")
    if stated.get("demographic"):
        parts.append(str(stated["demographic"]))
    return ", ".join(parts)


def cancellation(policy: object, currency: str) -> str:
    """7 days’ notice, else 25 % of what remains is due."""
    if not isinstance(policy, Mapping):
        return ""
    notice, fee = policy.get("notice_period"), policy.get("cancellation_fee")
    said = _notice(notice) if isinstance(notice, Mapping) else ""
    due = _fee(fee, currency) if isinstance(fee, Mapping) else ""
    return ", ".join(part for part in (said, due) if part)


def notice_before_fee(policy: object) -> timedelta | None:
    """How long before the flight notice must be given so that no fee is due; None where none is stated, or
    cancelling costs nothing."""
    if not isinstance(policy, Mapping):
        return None
    fee, stated = policy.get("cancellation_fee"), policy.get("notice_period")
    if not isinstance(fee, Mapping) or fee.get("type") == "none" or not isinstance(stated, Mapping):
        return None
    interval, unit = decimal_of(stated.get("interval")), str(stated.get("unit", "")).rstrip("s")
    seconds = _SECONDS.get(unit)
    if interval is None or seconds is None or not 0 <= interval <= _LONGEST_NOTICE:
        return None
    return timedelta(seconds=float(interval) * seconds)


def measurement(stated: object) -> str:
    """Billed by doubleverify.com, up to 10 % variance."""
    billing = stated.get("billing_measurement") if isinstance(stated, Mapping) else None
    if not isinstance(billing, Mapping):
        return ""
    vendor = billing.get("vendor")
    said = f"billed on {vendor['domain']}" if isinstance(vendor, Mapping) and vendor.get("domain") else ""
    variance = decimal_of(billing.get("max_variance_percent"))
    tolerated = f"up to {number(variance)}{SPACE}% variance" if variance is not None else ""
    return ", ".join(part for part in (said, tolerated) if part)


def makegood(stated: object) -> str:
    """additional delivery or credit."""
    policy = stated.get("makegood_policy") if isinstance(stated, Mapping) else None
    remedies = policy.get("available_remedies") if isinstance(policy, Mapping) else None
    return " or ".join(_words(str(r)) for r in remedies) if isinstance(remedies, list) else ""


def targeting(overlay: object) -> str:
    """US, CA; other dimensions with their name."""
    if not isinstance(overlay, Mapping):
        return ""
    parts = []
    for name, value in overlay.items():
        said = _list(value)
        parts.append(said if name == "geo_countries" else f"{_words(name)}: {said}")
    return "; ".join(parts)


def invoiced(party: str) -> str:
    """AdCP's billing party in words; any other name as it is."""
    return _PARTIES.get(party, party)


def payment(terms: str) -> str:
    """net 45 for net_45."""
    return _words(terms)


def once(said: Iterable[str]) -> str:
    """Each statement once, in order; – for none."""
    return "; ".join(dict.fromkeys(part for part in said if part)) or DASH


def by_channel(said: Iterable[tuple[str, str]]) -> str:
    """(channel, statement) of each line: said once where all say the same, else each with its channel."""
    stated = [(channel, words) for channel, words in said if words]
    if len({words for _, words in stated}) == 1:
        return stated[0][1]
    return "; ".join(dict.fromkeys(f"{channel}: {words}" for channel, words in stated)) or DASH


def _notice(notice: Mapping[str, Any]) -> str:
    interval, unit = decimal_of(notice.get("interval")), str(notice.get("unit", ""))
    if interval is None:
        return ""
    one = interval == 1
    return f"{number(interval)}{SPACE}{unit.removesuffix('s')}{'’s' if one else 's’'} notice"


def _fee(fee: Mapping[str, Any], currency: str) -> str:
    kind, rate, fixed = fee.get("type"), decimal_of(fee.get("rate")), decimal_of(fee.get("amount"))
    if kind == "none":
        return "no fee"
    if kind == "percent_remaining" and rate is not None:
        return f"else {number(rate * 100)}{SPACE}% of what remains is due"
    if kind == "full_commitment":
        return "else all of it is due"
    if kind == "fixed_fee" and fixed is not None:
        return f"else {currency}{SPACE}{amount(fixed, currency)} is due"
    return f"fee: {_words(str(kind))}"


def _point(points: object, budget: Decimal | None) -> Mapping[str, Any] | None:
    found = [p for p in points if isinstance(p, Mapping)] if isinstance(points, list) else []
    if not found:
        return None
    priced = [(decimal_of(p.get("budget")), p) for p in found]
    below = [(at, p) for at, p in priced if at is not None and budget is not None and at <= budget]
    return max(below, key=lambda pair: pair[0])[1] if below else found[0]


def _range(name: str, value: object) -> str:
    if not isinstance(value, Mapping):
        return ""
    low, mid, high = (decimal_of(value.get(key)) for key in ("low", "mid", "high"))
    word = _METRICS.get(name, _words(name))
    if low is not None and high is not None and low != high:
        return f"{number(low)}{SPACE}{DASH}{SPACE}{number(high)} {word}"
    exact = mid if low is None or high is None else low
    if exact is None:
        return ""
    return f"{number(exact)} {word.removesuffix('s') if exact == 1 else word}"


def _list(value: object) -> str:
    return ", ".join(str(v) for v in value) if isinstance(value, list) else str(value)


def _words(name: str) -> str:
    return name.replace("_", " ")
