"""What a change of a media buy came to, by what its seller says: done, done otherwise, or not shown at all.

"Completed" is the word of a task. Whether the media buy is cancelled, paused, runs on, has another budget,
other dates, targeting, pacing or name is said by the record in the answer or in a read back (AdCP
media-buy/update-media-buy-response, media-buy/get-media-buys-response). A seller need not state the last
three: what it never states proves nothing, for the change or against it. Pure: nothing is read or written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from orders.amounts import totals_after
from orders.changes_left import cancels_all
from orders.confirmation import in_words, is_in_currency
from orders.matching import is_cancelled
from orders.models import Deal, DealLine
from orders.targeting import TARGETING, targeting_told, targeting_wanted
from tasks_app.adcp.values import boolean_of, identity_of, parse_time
from tasks_app.money import amount_of, decimal_of

CANCELED, PAUSED = "canceled", "paused"
_DATES = ("start_time", "end_time")
_Record = Mapping[str, Any]
_Dates = set[datetime | None]


@dataclass(frozen=True, kw_only=True)
class Miss:
    """One field of a change that the seller does not show as asked. `where`: the package, empty for the whole
    media buy; `asked` and `shown` as JSON, `shown` None where nothing is said. `otherwise`: the seller did
    something, but not what was asked (neither as asked nor as it was before). `unstated`: the seller does
    not state it, and is not known to."""

    where: str
    field: str
    asked: Any
    shown: Any
    otherwise: bool = False
    unstated: bool = False

    @property
    def words(self) -> dict[str, Any]:
        """For the evidence of a question."""
        return {"package": self.where, "field": self.field, "asked": self.asked, "shown": self.shown}


def misses(change: _Record, buy: _Record, deal: Deal, *, whole: bool) -> list[Miss]:
    """What of `change` (update_media_buy's arguments) the seller's record `buy` does not show.

    `deal`: with its lines, as they were before the change. `whole`: the record is the media buy's own, in
    which a package that is not named as paused is not paused, and targeting that is named no more is none;
    an answer may just be brief. The record of another media buy shows nothing.
    """
    named, wanted = identity_of(buy.get("media_buy_id")), change["media_buy_id"]
    if named not in (None, wanted):
        another = Miss(where="", field="media_buy_id", asked=wanted, shown=named)
        return [another, *misses(change, {}, deal, whole=False)]
    packages, lines = _by_id(buy.get("packages")), list(deal.lines.all())
    found = list(_of_the_whole(change, buy, packages, deal, lines))
    known = {line.package_id: line for line in lines}
    version = str(change.get("adcp_version") or "")
    for asked in change.get("packages", ()):
        package_id = asked["package_id"]
        line, told = known.get(package_id), packages.get(package_id, {})
        of_package = whole and package_id in packages
        found += _of_a_budget(asked, _budget_told(deal, buy, told), line)
        found += _of_a_package(asked, told, line, of_package)
        found += _of_targeting(asked, told, line, of_package, version)
    return list(_without_shown_by_total(found, change, buy, packages, deal))


def is_canceled(buy: _Record, lines: Sequence[DealLine]) -> bool:
    """Whether the record shows the whole media buy as cancelled: by its status, or package by package."""
    status = _status(buy)
    if status is not None:
        return status == CANCELED
    return _every_package(_by_id(buy.get("packages")), lines, "canceled")


def is_paused(buy: _Record) -> bool:
    """Whether the record shows the whole media buy as paused."""
    return _status(buy) == PAUSED or boolean_of(buy.get("paused")) is True


def pauses_every_package(buy: _Record, lines: Sequence[DealLine]) -> bool:
    """Whether it shows each of its packages as paused, but for those that are cancelled or came to nothing
    and are named no more."""
    packages = _by_id(buy.get("packages"))
    left = [line for line in lines if _may_run(line, packages.get(line.package_id))]
    return _every_package(packages, left, "paused")


def _may_run(line: DealLine, package: _Record | None) -> bool:
    """Whether one that is not paused runs; `package`: as it is named, None: it is not."""
    return line.confirmed_budget != 0 if package is None else is_cancelled(package) is not True


def pauses_all_it_names(buy: _Record) -> bool:
    """Whether it names packages, and shows each that is not cancelled as paused."""
    named = [one for one in _by_id(buy.get("packages")).values() if is_cancelled(one) is not True]
    return bool(named) and all(boolean_of(package.get("paused")) for package in named)


def _of_the_whole(
    change: _Record,
    buy: _Record,
    packages: Mapping[str, _Record],
    deal: Deal,
    lines: Sequence[DealLine],
) -> Iterator[Miss]:
    status = _status(buy)
    if cancels_all(change) and not is_canceled(buy, lines):
        yield Miss(where="", field="canceled", asked=True, shown=status)
    paused = change.get("paused")
    shows_pause = is_paused(buy)
    if paused is True and not (shows_pause or pauses_every_package(buy, lines)):
        yield Miss(where="", field="paused", asked=True, shown=status)
    if paused is False and (status is None or shows_pause):
        yield Miss(where="", field="paused", asked=False, shown=status)
    yield from _of_a_word("", "name", change, buy)
    for name, edge in (("start_time", deal.start_at), ("end_time", deal.end_at)):
        moment = parse_time(change.get(name))
        if moment is not None:
            stated = parse_time(buy.get(name))
            told: _Dates = {stated} if stated else _of_its_packages(name, edge, packages, lines)
            yield from _of_a_date("", name, moment, told, {edge})


def _of_its_packages(
    name: str, edge: datetime, packages: Mapping[str, _Record], lines: Sequence[DealLine]
) -> _Dates:
    """The dates of the packages that ran with the whole media buy; None for one that states none."""
    with_the_whole = [line for line in lines if _date_of(line, name)[0] == edge]
    return {parse_time(packages.get(line.package_id, {}).get(name)) for line in with_the_whole}


def _budget_told(deal: Deal, buy: _Record, package: _Record) -> Decimal | None:
    """A package's budget as it is confirmed; None for one in another currency, or that is no amount."""
    ours = is_in_currency(deal, buy) and is_in_currency(deal, package)
    return amount_of(package.get("budget")) if ours else None


def _of_a_budget(asked: _Record, shown: Decimal | None, line: DealLine | None) -> Iterator[Miss]:
    budget = decimal_of(asked.get("budget"))
    if budget is None or shown == budget:
        return
    before = {line.budget, line.confirmed_budget} if line else set()
    yield Miss(
        where=str(asked["package_id"]),
        field="budget",
        asked=str(budget),
        shown=None if shown is None else in_words(shown),
        otherwise=shown is not None and shown not in before,
    )


def _of_a_package(asked: _Record, told: _Record, line: DealLine | None, whole: bool) -> Iterator[Miss]:
    where = str(asked["package_id"])
    for name in _DATES:
        moment = parse_time(asked.get(name))
        if moment is not None:
            known = set(_date_of(line, name)) if line else set()
            yield from _of_a_date(where, name, moment, {parse_time(told.get(name))}, known)
    for name in (PAUSED, CANCELED):
        wanted = asked.get(name)
        said = told.get(name, False if whole else None)
        is_over = name == PAUSED and is_cancelled(told)  # neither runs nor is paused
        if isinstance(wanted, bool) and boolean_of(said) is not wanted and not is_over:
            yield Miss(where=where, field=name, asked=wanted, shown=said)
    yield from _of_a_word(where, "pacing", asked, told)


def _of_a_word(where: str, name: str, asked: _Record, told: _Record) -> Iterator[Miss]:
    """A name or a pacing, of which nobody knows how it was before."""
    wanted, shown = asked.get(name), told.get(name) or None
    if wanted is not None and shown != wanted:
        yield Miss(where=where, field=name, asked=wanted, shown=shown, unstated=shown is None)


def _of_targeting(
    asked: _Record, told: _Record, line: DealLine | None, whole: bool, version: str
) -> Iterator[Miss]:
    overlay = asked.get(TARGETING)
    if overlay is None:
        return
    where, ours = str(asked["package_id"]), (line.targeting or {}) if line else {}
    confirmed = line.confirmed_targeting if line else None
    shown = targeting_told(told, confirmed, whole=whole)
    if shown is None:
        yield Miss(where=where, field=TARGETING, asked=overlay, shown=None, unstated=confirmed is None)
        return
    wanted = targeting_wanted(ours, overlay, version=version)
    if not wanted.is_shown_by(shown):
        otherwise = wanted.is_done_otherwise(shown, ours, confirmed or {})
        yield Miss(where=where, field=TARGETING, asked=overlay, shown=shown, otherwise=otherwise)


def _of_a_date(where: str, name: str, asked: datetime, told: _Dates, before: _Dates) -> Iterator[Miss]:
    if told == {asked}:
        return
    shown = next((moment for moment in told if moment not in (None, asked)), None)
    yield Miss(
        where=where,
        field=name,
        asked=asked.isoformat(),
        shown=shown.isoformat() if shown else None,
        otherwise=bool(told) and None not in told and not told & before,
    )


def _date_of(line: DealLine, name: str) -> tuple[datetime, datetime | None]:
    """A line's date as approved and as confirmed."""
    if name == "start_time":
        return line.start_at, line.confirmed_start_at
    return line.end_at, line.confirmed_end_at


def _without_shown_by_total(
    found: Sequence[Miss],
    change: _Record,
    buy: _Record,
    packages: Mapping[str, _Record],
    deal: Deal,
) -> Iterator[Miss]:
    """AdCP core/media-buy has one amount for the whole: it shows budgets where no package states its own."""
    total = amount_of(buy.get("total_budget")) if is_in_currency(deal, buy) else None
    # In any currency, and below zero too: what a package says of itself, no total says otherwise.
    stated = any(decimal_of(package.get("budget")) is not None for package in packages.values())
    by_total = not stated and total is not None and total in totals_after(deal, change)
    return (miss for miss in found if not (by_total and miss.field == "budget"))


def _every_package(packages: Mapping[str, _Record], lines: Sequence[DealLine], name: str) -> bool:
    told = [packages.get(line.package_id, {}).get(name) for line in lines]
    return bool(told) and all(map(boolean_of, told))


def _by_id(packages: object) -> dict[str, _Record]:
    told = [p for p in packages if isinstance(p, Mapping)] if isinstance(packages, list) else []
    named = ((identity_of(package.get("package_id")), package) for package in told)
    return {package_id: package for package_id, package in named if package_id is not None}


def _status(buy: _Record) -> str | None:
    status = buy.get("media_buy_status") or buy.get("status")
    return status if isinstance(status, str) else None
