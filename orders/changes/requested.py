"""The terms that a change asks for, and whether a seller's record shows them.

"Completed" is the word of a task. What a change led to is stated by the record in the answer, or in a later
reading (AdCP media-buy/update-media-buy-response, media-buy/get-media-buys-response).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from orders.amending import set_budget
from orders.changes.open_changes import cancels_all
from orders.flights import flight_after, moved
from orders.models import Deal, DealLine
from orders.terms.compare import differences
from orders.terms.matching import is_unallocated
from orders.terms.stated import is_canceled, stated_terms
from orders.terms.targeting import TARGETING, targeting_after
from orders.terms.terms import approved_terms
from tasks_app.adcp.values import identity_of, parse_time
from tasks_app.money import decimal_of

# What update_media_buy names of a package, and the term that it changes.
_TERMS = {
    "budget": "budget",
    "start_time": "start",
    "end_time": "end",
    TARGETING: "targeting",
    "paused": "paused",
    "canceled": "canceled",
}
_Record = Mapping[str, Any]


def deal_after(deal: Deal, lines: Iterable[DealLine], asked: _Record) -> tuple[Deal, list[DealLine]]:
    """Return copies of a deal and its lines, unsaved, as update_media_buy's arguments ask for them."""
    after, flight = copy(deal), flight_after(deal, asked)
    after.start_at, after.end_at = flight.start, flight.end
    return after, [_line_after(deal, line, asked) for line in lines]


def _line_after(deal: Deal, line: DealLine, asked: _Record) -> DealLine:
    after, package = copy(line), _package(asked, line)
    after.start_at = parse_time(package.get("start_time")) or moved(
        line.start_at, deal.start_at, parse_time(asked.get("start_time"))
    )
    after.end_at = parse_time(package.get("end_time")) or moved(
        line.end_at, deal.end_at, parse_time(asked.get("end_time"))
    )
    budget = decimal_of(package.get("budget"))
    if budget is not None:
        set_budget(after, budget)
    if package.get(TARGETING) is not None:
        version = str(asked.get("adcp_version") or "")
        after.targeting = targeting_after(line.targeting or {}, package[TARGETING], version=version)
    for name in ("paused", "canceled"):
        wanted = package.get(name) if asked.get(name) is None else asked[name]
        setattr(after, name, getattr(line, name) if wanted is None else wanted)
    return after


def is_shown(asked: _Record, buy: _Record, deal: Deal, *, whole: bool) -> bool:
    """Return whether a record shows what update_media_buy's arguments asked for.

    `deal`: with its lines, as approved before the change. `whole`: the record is the media buy's own. Each
    term must be stated as it was asked for, but for targeting, which a seller need not state.
    """
    lines = list(deal.lines.all())
    if identity_of(buy.get("media_buy_id")) not in (None, asked["media_buy_id"]):
        return False
    if cancels_all(asked):
        return is_canceled(buy, lines)
    changed, after = deal_after(deal, lines, asked)
    stated = stated_terms(changed, after, buy, whole=whole)
    running = [line for line in lines if not (is_unallocated(line) or line.canceled)]
    named = {(line.position, term) for line in running for term in changed_terms(deal, line, asked)}
    shown = {
        (package.line, term): getattr(package, term)
        for package in stated.packages
        for term in _TERMS.values()
        if getattr(package, term) is not None
    }
    missing = {term for place, term in named if (place, term) not in shown}
    wrong = {(one["line"], one["field"]) for one in differences(approved_terms(changed, after), stated)}
    states_something = whole or not named or bool(named & shown.keys())
    return states_something and missing <= {"targeting"} and not wrong & named


def changed_terms(deal: Deal, line: DealLine, asked: _Record) -> set[str]:
    """Return the terms of a line that a change decides."""
    named = {term for name, term in _TERMS.items() if _package(asked, line).get(name) is not None}
    if asked.get("start_time") and line.start_at == deal.start_at:
        named.add("start")
    if asked.get("end_time") and line.end_at == deal.end_at:
        named.add("end")
    return named | {name for name in ("paused", "canceled") if asked.get(name) is not None}


def _package(asked: _Record, line: DealLine) -> _Record:
    packages: Sequence[_Record] = asked.get("packages") or ()
    return next((one for one in packages if line.package_id and one.get("package_id") == line.package_id), {})
