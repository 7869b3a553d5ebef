"""What of a media buy is so already as its open change asks for.

A seller may make a change before it says so. What it shows with the very value that people approved is no
difference that they are asked about. It is kept, and is one when the change is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from decimal import Decimal
from functools import partial
from typing import Any

from orders.accepted import Difference, decided_by
from orders.amounts import BUDGET, TOTAL, approved_after, by_total_alone
from orders.changes.apply import change_lines
from orders.changes.open_changes import cancels_all, is_rejected_buy_being_cancelled, open_changes
from orders.changes.proof import PAUSED
from orders.departures import departs_in_a_pause, word_shown
from orders.flights import change_crossing
from orders.last_words import WHOLE, Words, words_after, words_of
from orders.matching import packages_of
from orders.models import Deal, DealLine, DealMirror
from orders.targeting import is_targeted
from tasks_app.money import decimal_of
from tasks_app.operations.pauses import request_let_go

_Places = set[tuple[int, str]]  # line and field of a difference
_WHOLE_PAUSE = (0, PAUSED)
# Fields that changes decide: as approved, and as confirmed.
_COLUMNS = {
    BUDGET: ("budget", "confirmed_budget"),
    "start": ("start_at", "confirmed_start_at"),
    "end": ("end_at", "confirmed_end_at"),
}


def awaited(
    deal: Deal,
    lines: Sequence[DealLine],
    departing: Sequence[Difference],
    buy: Mapping[str, Any],
    *,
    words: Words,
    whole: bool,
) -> list[Difference]:
    """Return what of `departing` the open changes that were sent ask for with that very value. A change that
    would leave no flight is left out. `lines`: with what is confirmed of them; `buy`: the record that states
    it (`whole`: the media buy's own); `words`: people's last ones."""
    changes = _sent(deal) if departing else []
    shown: _Places = set().union(*(_shown(deal, lines, change) for change in changes))
    by_total = by_total_alone(deal, lines) or any(one["field"] == TOTAL for one in deal.accepted)
    totals = [approved_after(deal, change) for change in changes] if by_total else []
    asked = [word for change in changes for word in _words(lines, change)]
    # What people refused stays what it differs in while it is cancelled for that.
    is_cancelled = any(map(cancels_all, changes)) and not is_rejected_buy_being_cancelled(deal)
    said = [one for one in departing if (*_place(one), one["confirmed"]) in asked]
    gone = [one for one in departing if is_cancelled and _is_nothing(one)]
    if any(_place(one) == _WHOLE_PAUSE for one in departing):
        ids = [line.package_id for line in lines]
        after = (words_after(words, change, ids) for change in changes if _speaks_of_pauses(change))
        is_asked = any(_place(one) == _WHOLE_PAUSE for one in deal.differences)
        departs = partial(departs_in_a_pause, lines, buy, whole=whole, is_asked=is_asked)
        if not all(map(departs, after)):
            shown.add(_WHOLE_PAUSE)  # as its packages are then
    return [
        one
        for one in departing
        if _place(one) in shown or _is_one_of(totals, one) or one in said or one in gone
    ]


def _sent(deal: Deal) -> list[Mapping[str, Any]]:
    """What the deal's open changes that were sent ask for."""
    sent = open_changes(deal).filter(operation__sent_at__isnull=False)
    asked = [request_let_go(change.operation, left=True) for change in sent]
    return [one for one in asked if not change_crossing(deal, one)]


def _words(lines: Sequence[DealLine], change: Mapping[str, Any]) -> list[tuple[int, str, str]]:
    """What a change says that stands in no column: line (0: the whole media buy), field, and as shown. A
    pause of the whole shows on its packages."""
    positions = {WHOLE: 0, **{line.package_id: line.position for line in lines if line.package_id}}
    said = words_of(change)
    of_the_whole = {name: word for name, word in said.get(WHOLE, {}).items() if name == PAUSED}
    said |= {where: {**of_the_whole, **said.get(where, {})} for where in positions if where != WHOLE}
    return [
        (positions[where], field, word_shown(word))
        for where, words in said.items()
        for field, word in words.items()
        if where in positions
    ]


def _speaks_of_pauses(change: Mapping[str, Any]) -> bool:
    return any(PAUSED in words for words in words_of(change).values())


def awaited_kept(deal: Deal) -> list[Difference]:
    """What was so when its seller was heard last."""
    return mirror_kept(deal)[0]


def mirror_kept(deal: Deal) -> tuple[list[Difference], Words]:
    """That, and people's last words on what stands in no column."""
    kept = DealMirror.objects.filter(deal=deal).values_list("awaited", "last_words").first()
    return kept or ([], {})


def awaited_keep(deal: Deal, found: list[Difference], *, known: Sequence[Difference]) -> None:
    """Keep what is so now; `known`: before. The caller holds the deal."""
    if found != known:
        DealMirror.objects.update_or_create(deal=deal, defaults={"awaited": found})


def with_total(buy: Mapping[str, Any], known: Iterable[Difference]) -> Mapping[str, Any]:
    """A record that says nothing of amounts, with the total that is `known`: it stands in no line."""
    kept = [one["confirmed"] for one in known if one["field"] == TOTAL]
    stated = [buy.get(TOTAL), *(package.get("budget") for package in packages_of(buy))]
    return {**buy, TOTAL: kept[0]} if kept and stated.count(None) == len(stated) else buy


def _shown(deal: Deal, lines: Sequence[DealLine], change: Mapping[str, Any]) -> _Places:
    """What a change decides and is confirmed as it asks for it."""
    after = [copy(line) for line in lines]
    change_lines(deal, after, change)
    sides = zip(lines, after, strict=True)
    named = decided_by(deal, lines, change)
    return named & {(line.position, field) for line, wanted in sides for field in _as_asked(line, wanted)}


def _as_asked(line: DealLine, after: DealLine) -> Iterator[str]:
    """The fields of a line that are confirmed as they are `after`."""
    for field, (ours, theirs) in _COLUMNS.items():
        if getattr(after, ours) == getattr(line, theirs):
            yield field
    before, asked, confirmed = line.targeting or {}, after.targeting or {}, line.confirmed_targeting
    # What is asked not to be there is not.
    if confirmed is not None and is_targeted(confirmed, asked, {*before, *asked}):
        yield "targeting"


def _is_nothing(one: Difference) -> bool:
    """Whether it costs nothing any more, as what is being cancelled package by package."""
    return one["field"] in (BUDGET, TOTAL) and decimal_of(one["confirmed"]) == 0


def _is_one_of(totals: Sequence[Decimal], one: Difference) -> bool:
    return one["field"] == TOTAL and decimal_of(one["confirmed"]) in totals


def _place(one: Difference) -> tuple[int, str]:
    return one["line"], one["field"]
