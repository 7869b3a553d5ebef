"""Reading a brief from one sentence."""

from __future__ import annotations

import calendar
import re
from datetime import date
from typing import Any

from tasks_app.assistant.clients.slots import MONTHS, iso_day, make_date, stated_amount

_MONTH = f"(?P<month>{'|'.join(MONTHS)})[a-z]*"
_DAY = re.compile(
    rf"\b(?:(?P<iso>\d{{4}}-\d{{2}}-\d{{2}})|(?P<day>\d{{1,2}})\.? {_MONTH},? (?P<year>\d{{4}}))\b",
    re.IGNORECASE,
)
_WHOLE_MONTH = re.compile(rf"\bin {_MONTH} (?P<year>\d{{4}})\b", re.IGNORECASE)
_ADVERTISER = re.compile(
    r"\bfor (?P<advertiser>.+?)(?=\s*[:,]| (?:with|on|from|in|of|over)\b|\W*$)", re.IGNORECASE
)
_CHANNELS = re.compile(
    r"\b(?:on|across) (?P<channels>[\w ,_&]+?)(?= (?:from|in|for|with|between)\b|\s*[.;:]|\W*$)",
    re.IGNORECASE,
)
_CURRENCY = re.compile(r"\b(?P<code>[A-Z]+) ?(?=\d)|(?P<sign>[$€£]) ?(?=\d)|\d[km]? (?P<after>[A-Z]+)\b")
_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP"}
_COUNTRIES = re.compile(r"\bin (?:the )?(?P<codes>[A-Z]{2}(?:(?:, | and )[A-Z]{2})*)\b")


def brief_arguments(question: str, _today: date) -> dict[str, Any]:
    """Return the arguments of `draft_brief` that the question states."""
    days = _flight(question)
    text = _WHOLE_MONTH.sub(" ", _DAY.sub(" ", question))
    advertiser, channels = _ADVERTISER.search(text), _CHANNELS.search(text)
    countries = _COUNTRIES.search(text)
    rest = text[: advertiser.start()] + text[advertiser.end() :] if advertiser else text
    return {
        **({"advertiser": advertiser["advertiser"].strip()} if advertiser else {}),
        **stated_amount("total", rest),
        **_currency(rest),
        **({"channels": re.split(r", and |, | and ", channels["channels"].strip())} if channels else {}),
        **({"countries": re.split(r", | and ", countries["codes"])} if countries else {}),
        **(dict(zip(("start", "end"), days, strict=True)) if days else {}),
    }


def _currency(text: str) -> dict[str, str]:
    found = _CURRENCY.search(text)
    if found is None:
        return {}
    return {"currency": found["code"] or found["after"] or _SIGNS[found["sign"]]}


def _flight(question: str) -> tuple[str, str] | None:
    """Return the first and the last day: two days, or a month with its year."""
    days = [day for found in _DAY.finditer(question) if (day := _day(found))]
    if len(days) >= 2:
        return days[0].isoformat(), days[1].isoformat()
    month = _WHOLE_MONTH.search(question)
    if month is None:
        return None
    year, number = int(month["year"]), _number(month["month"])
    last = calendar.monthrange(year, number)[1]
    return f"{year:04}-{number:02}-01", f"{year:04}-{number:02}-{last:02}"


def _day(found: re.Match[str]) -> date | None:
    if found["iso"]:
        return iso_day(found["iso"])
    return make_date(int(found["year"]), _number(found["month"]), int(found["day"]))


def _number(month: str) -> int:
    return MONTHS.index(month.lower()) + 1
