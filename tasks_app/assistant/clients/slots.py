"""Reading days, spans, statuses and amounts from a question."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any

from tasks_app.money import decimal_of

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_DAY_MONTH = re.compile(r"\b(\d{1,2})\.? (jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b")
_MONTH_DAY = re.compile(r"\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* (\d{1,2})\b")
_SPAN = re.compile(r"\b(\d{1,3}|a|one|two|three) (hour|day|week|month)s?\b")
_NUMBERS = {"a": 1, "one": 1, "two": 2, "three": 3}
_DAYS = {"hour": 1 / 24, "day": 1, "week": 7, "month": 31}
_STATUSES = (
    "quoted", "negotiating", "accepted", "booking", "booked", "delivering", "completed", "failed",
    "cancelled", "expired", "makegood_pending", "partially_canceled",
)  # fmt: skip
_AMOUNT = re.compile(r"(?<![-\w])(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,12}(?:\.\d+)?)(k|m)?\b", re.IGNORECASE)
_USUAL_DAYS = 14
_MOST_DAYS = 90


def first_day(question: str, today: date) -> dict[str, Any]:
    """Return `since`: the first day that the question means, yesterday unless it says so."""
    return {"since": _since(question.lower(), today).isoformat()}


def _since(question: str, today: date) -> date:
    stated = _stated_day(question, today)
    if stated is not None:
        return stated
    if "today" in question:
        return today
    if "last week" in question:
        return today - timedelta(days=7)
    if "last month" in question:
        return today - timedelta(days=31)
    named = next((day for day in _WEEKDAYS if day in question), None)
    if named is not None:
        return today - timedelta(days=(today.weekday() - _WEEKDAYS.index(named)) % 7 or 7)
    span = _span_days(question)
    return today - timedelta(days=round(span)) if span else today - timedelta(days=1)


def coming_days(question: str, _today: date) -> dict[str, Any]:
    """Return `within_days`: how far ahead the question looks, 14 days unless it says so."""
    lowered = question.lower()
    span = _span_days(lowered)
    if span:
        return {"within_days": min(max(1, round(span)), _MOST_DAYS)}
    named = {"today": 1, "tomorrow": 2, "this week": 7, "next week": 14, "this month": 31, "next month": 62}
    return {"within_days": next((days for words, days in named.items() if words in lowered), _USUAL_DAYS)}


def deal_what(question: str, _today: date) -> dict[str, Any]:
    """Return `what`: whether the question is about ends, starts or creatives."""
    lowered = question.lower()
    if "creative" in lowered:
        return {"what": "creatives"}
    return {"what": "starts" if re.search(r"\b(start|begin)", lowered) else "ends"}


def deal_status(question: str, _today: date) -> dict[str, Any]:
    """Return `status`: the first status of deals that the question names, if any."""
    words = re.findall(r"[a-z_]+", question.lower())
    found = next((word for word in words if word in _STATUSES), None)
    return {"status": found} if found else {}


def move_ends(question: str, _today: date) -> dict[str, Any]:
    """Return `amount`, `source` and `target` of a question such as "move 10,000 from CTV to audio"."""
    ends = re.search(r"\bfrom (?P<source>.+?) to (?P<target>.+?)\W*$", question, re.IGNORECASE)
    if ends is None:
        return {}
    return {**stated_amount("amount", question[: ends.start()]), **ends.groupdict()}


def new_budget(question: str, _today: date) -> dict[str, Any]:
    """Return `budget`: the amount behind the last "to"."""
    return stated_amount("budget", re.split(r"\bto\b", question, flags=re.IGNORECASE)[-1])


def pause_or_resume(question: str, _today: date) -> dict[str, Any]:
    """Return `paused`: whether the question pauses a deal or resumes it."""
    return {"paused": "resume" not in question.lower()}


def stated_reason(question: str, _today: date) -> dict[str, Any]:
    """Return `reason`: the words behind "because", if there are any."""
    found = re.search(r"\b(?:because|since) (.+?)\W*$", question, re.IGNORECASE)
    return {"reason": found[1]} if found else {}


def stated_amount(name: str, text: str) -> dict[str, Any]:
    """Return the first amount in a text, such as 10,000 or 12.5k, as decimal text; nothing without one."""
    found = _AMOUNT.search(text)
    number = decimal_of(found[1].replace(",", "")) if found else None
    if found is None or number is None:
        return {}
    factor = {"k": 1_000, "m": 1_000_000}.get((found[2] or "").lower(), 1)
    return {name: f"{number * factor:f}"}


def iso_day(text: str) -> date | None:
    """Return the first day that is written as YYYY-MM-DD, if there is such a day."""
    found = _ISO.search(text)
    return make_date(int(found[1]), int(found[2]), int(found[3])) if found else None


def _stated_day(question: str, today: date) -> date | None:
    """Return a day that is written out; one without a year is the last such day."""
    if _ISO.search(question):
        return iso_day(question)
    found = _DAY_MONTH.search(question)
    day, month = (found[1], found[2]) if found else ("", "")
    if found := _MONTH_DAY.search(question):
        day, month = found[2], found[1]
    if not day:
        return None
    number = MONTHS.index(month) + 1
    stated = make_date(today.year, number, int(day))
    return make_date(today.year - 1, number, int(day)) if stated and stated > today else stated


def make_date(year: int, month: int, day: int) -> date | None:
    """Return a day, or None if there is no such day."""
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _span_days(question: str) -> float:
    """Return the span that the question states, in days; 0 if it states none."""
    found = _SPAN.search(question)
    if found is None:
        return 0
    return (_NUMBERS.get(found[1]) or int(found[1])) * _DAYS[found[2]]
