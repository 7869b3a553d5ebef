"""Sellers' terms in words: rate bases, forecasts, cancellation, measurement, targeting.

Source: AdCP core/pricing-option, core/delivery-forecast, core/cancellation-policy, core/measurement-terms.
Everything here comes from a seller: what can be read is put into words, a number that cannot is shown as
stated, and what is not of the expected shape is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from tasks_app import days
from tasks_app.desk.text import DASH, SPACE, amount, number, number_stated, stated
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
SECONDS = {"hour": 3600, "day": 86_400, "week": 604_800}
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


def forecast(told: Mapping[str, Any], budget: Decimal | None, currency: str) -> str:
    """The seller's own forecast nearest below the budget, as a range: 9,000 – 11,000 impressions for …"""
    point = _point(told.get("points"), budget)
    if point is None:
        return ""
    metrics = point.get("metrics")
    each = metrics.items() if isinstance(metrics, Mapping) else ()
    ranges = [_range(name, value) for name, value in each if name != "spend"]
    said = ", ".join(found for found in ranges if found)
    spend = _spend(point.get("budget"), str(told.get("currency") or currency))
    return f"{said} for {spend}" if said and spend else said


def forecast_source(told: Mapping[str, Any]) -> str:
    """modeled by the seller, source nielsen, P25-54."""
    if not told:
        return "none stated"
    parts = [f"{stated(told.get('method', 'no method stated'))}, the seller’s own"]
    if told.get("measurement_source"):
        parts.append(f"source {stated(told['measurement_source'])}")
    if told.get("demographic"):
        parts.append(stated(told["demographic"]))
    return ", ".join(parts)


def cancellation(policy: object, currency: str) -> str:
    """7 days’ notice, else 25 % of what remains is due."""
    if not isinstance(policy, Mapping):
        return ""
    notice, fee = policy.get("notice_period"), policy.get("cancellation_fee")
    said = _notice(notice) if isinstance(notice, Mapping) else ""
    due = _fee(fee, currency) if isinstance(fee, Mapping) else ""
    return ", ".join(part for part in (said, due) if part)


def cancellation_fee(policy: object, currency: str) -> str:
    """none; 25 % of what remains is due; empty where the seller states no fee."""
    fee = policy.get("cancellation_fee") if isinstance(policy, Mapping) else None
    if not isinstance(fee, Mapping):
        return ""
    said = _fee(fee, currency)
    return "none" if said == "no fee" else said.removeprefix("else ").removeprefix("fee: ")


def last_free(policy: object, start: datetime, zone: str) -> datetime | None:
    """The last moment to cancel without a fee what begins at `start`, by the clocks of its flight's zone;
    None where none is stated, or cancelling costs nothing."""
    notice = _notice_before_fee(policy)
    return days.before(start, notice, zone) if notice is not None else None


def _notice_before_fee(policy: object) -> timedelta | None:
    """How long before the flight notice must be given so that no fee is due; None where none is stated, or
    cancelling costs nothing."""
    if not isinstance(policy, Mapping):
        return None
    fee, stated = policy.get("cancellation_fee"), policy.get("notice_period")
    if not isinstance(fee, Mapping) or fee.get("type") == "none" or not isinstance(stated, Mapping):
        return None
    interval, unit = decimal_of(stated.get("interval")), str(stated.get("unit", "")).rstrip("s")
    seconds = SECONDS.get(unit)
    if interval is None or seconds is None or not 0 <= interval <= _LONGEST_NOTICE:
        return None
    return timedelta(seconds=float(interval) * seconds)


def measurement(told: object) -> str:
    """Billed by doubleverify.com, up to 10 % variance."""
    billing = told.get("billing_measurement") if isinstance(told, Mapping) else None
    if not isinstance(billing, Mapping):
        return ""
    vendor = billing.get("vendor")
    domain = stated(vendor.get("domain")) if isinstance(vendor, Mapping) else ""
    variance = number_stated(billing.get("max_variance_percent"))
    said = f"billed on {domain}" if domain else ""
    tolerated = f"up to {variance}{SPACE}% variance" if variance else ""
    return ", ".join(part for part in (said, tolerated) if part)


def makegood(told: object) -> str:
    """additional delivery or credit."""
    policy = told.get("makegood_policy") if isinstance(told, Mapping) else None
    remedies = policy.get("available_remedies") if isinstance(policy, Mapping) else None
    return " or ".join(_words(stated(r)) for r in remedies) if isinstance(remedies, list) else ""


def targeting(overlay: object) -> str:
    """US, CA; other dimensions with their name."""
    if not isinstance(overlay, Mapping):
        return ""
    parts = []
    for name, value in overlay.items():
        if value is None:  # cleared by a change
            continue
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
    each = [(channel, words) for channel, words in said if words]
    if len({words for _, words in each}) == 1:
        return each[0][1]
    return "; ".join(dict.fromkeys(f"{channel}: {words}" for channel, words in each)) or DASH


def _notice(notice: Mapping[str, Any]) -> str:
    interval, unit = number_stated(notice.get("interval")), stated(notice.get("unit"))
    if not interval:
        return ""
    return f"{interval}{SPACE}{unit.removesuffix('s')}{'’s' if interval == '1' else 's’'} notice"


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
    told = ((fee.get("rate"), rate), (fee.get("amount"), fixed))
    unread = [stated(given) for given, read in told if read is None and stated(given)]
    return f"fee: {_words(stated(kind))}{''.join(f', stated as {one}' for one in unread)}"


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
    low, mid, high = (number_stated(value.get(key)) for key in ("low", "mid", "high"))
    word = _METRICS.get(name, _words(stated(name)))
    if low and high and low != high:
        return f"{low}{SPACE}{DASH}{SPACE}{high} {word}"
    one = low if low and high else mid
    if not one:
        return ""
    return f"{one} {word.removesuffix('s') if one == '1' else word}"


def _spend(budget: object, currency: str) -> str:
    """The budget that a forecast is for, in whatever the seller calls its currency."""
    spend = decimal_of(budget)
    said = stated(budget) if spend is None else amount(spend, currency)
    return f"{stated(currency)}{SPACE}{said}" if said else ""


def _list(value: object) -> str:
    return ", ".join(str(v) for v in value) if isinstance(value, list) else str(value)


def _words(name: str) -> str:
    return name.replace("_", " ")
