"""Whether a seller's record of a media buy shows what a change asked for.

"Completed" is the word of a task. Whether the media buy is cancelled, paused, runs on, has another budget,
other dates, targeting, pacing or name is said by the record in the answer or in a later reading (AdCP
media-buy/update-media-buy-response, media-buy/get-media-buys-response). A seller need not state name, pacing
and targeting. Pure: nothing is read or written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from orders.amounts import approved_after
from orders.changes.open_changes import cancels_all
from orders.confirmation import is_in_currency
from orders.matching import is_cancelled
from orders.models import Deal, DealLine
from orders.targeting import TARGETING, targeting_told, targeting_wanted
from tasks_app.adcp.values import boolean_of, identity_of, parse_time
from tasks_app.money import amount_of, decimal_of

CANCELED, PAUSED = "canceled", "paused"
_DATES = ("start_time", "end_time")
# Each field that a record does not show as asked yields one of these.
_OTHERWISE, _UNSTATED = "otherwise", "unstated"  # unstated: of name, pacing and targeting
_BUDGET = "budget"
_Record = Mapping[str, Any]
_Dates = set[datetime | None]
_Miss = tuple[str, str]  # field, and one of the two


def is_shown(asked: _Record, buy: _Record, deal: Deal, *, whole: bool) -> bool:
    """Return whether a record shows what update_media_buy's arguments asked for.

    `deal`: with its lines, as approved before the change. `whole`: the record is the media buy's own, in
    which a package without a pause is not paused; an answer may name only what changed. What the seller never
    states does not speak against the change, but an answer that states nothing shows nothing.
    """
    missed = list(_misses(asked, buy, deal, whole=whole))
    states_something = whole or len(missed) < len(list(_misses(asked, {}, deal, whole=False)))
    return states_something and all(why == _UNSTATED for _, why in missed)


def _misses(asked: _Record, buy: _Record, deal: Deal, *, whole: bool) -> Iterator[_Miss]:
    named = identity_of(buy.get("media_buy_id"))
    if named not in (None, asked["media_buy_id"]):
        yield "media_buy_id", _OTHERWISE
        return
    packages, lines = _by_id(buy.get("packages")), list(deal.lines.all())
    yield from _of_the_whole(asked, buy, packages, deal, lines)
    known = {line.package_id: line for line in lines}
    version = str(asked.get("adcp_version") or "")
    by_total = _is_shown_by_total(asked, buy, packages, deal)
    for change in asked.get("packages") or ():
        package_id = change["package_id"]
        line, told = known.get(package_id), packages.get(package_id, {})
        of_package = whole and package_id in packages
        budget = decimal_of(change.get(_BUDGET))
        if budget is not None and not by_total and _budget_told(deal, buy, told) != budget:
            yield _BUDGET, _OTHERWISE
        yield from _of_a_package(change, told, of_package)
        yield from _of_targeting(change, told, line, of_package, version)


def record_of(result: _Record) -> dict[str, Any]:
    """Return the result of a task as a record of the media buy: a change names the packages it affected."""
    return {**result, "packages": result.get("affected_packages") or result.get("packages")}


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
    asked: _Record,
    buy: _Record,
    packages: Mapping[str, _Record],
    deal: Deal,
    lines: Sequence[DealLine],
) -> Iterator[_Miss]:
    status = _status(buy)
    if cancels_all(asked) and not is_canceled(buy, lines):
        yield CANCELED, _OTHERWISE
    paused = asked.get(PAUSED)
    shows_pause = is_paused(buy)
    if paused is True and not (shows_pause or pauses_every_package(buy, lines)):
        yield PAUSED, _OTHERWISE
    if paused is False and (status is None or shows_pause):
        yield PAUSED, _OTHERWISE
    yield from _of_a_text("name", asked, buy)
    for name, edge in (("start_time", deal.start_at), ("end_time", deal.end_at)):
        moment = parse_time(asked.get(name))
        if moment is not None:
            stated = parse_time(buy.get(name))
            told: _Dates = {stated} if stated else _of_its_packages(name, edge, packages, lines)
            if told != {moment}:
                yield name, _OTHERWISE


def _of_its_packages(
    name: str, edge: datetime, packages: Mapping[str, _Record], lines: Sequence[DealLine]
) -> _Dates:
    """The dates of the packages that ran with the whole media buy; None for one that states none."""
    column = "start_at" if name == "start_time" else "end_at"
    with_the_whole = [line for line in lines if getattr(line, column) == edge]
    return {parse_time(packages.get(line.package_id, {}).get(name)) for line in with_the_whole}


def _budget_told(deal: Deal, buy: _Record, package: _Record) -> Decimal | None:
    """A package's budget; None for one in another currency, or that is no amount."""
    ours = is_in_currency(deal, buy) and is_in_currency(deal, package)
    return amount_of(package.get(_BUDGET)) if ours else None


def _of_a_package(asked: _Record, told: _Record, whole: bool) -> Iterator[_Miss]:
    for name in _DATES:
        moment = parse_time(asked.get(name))
        if moment is not None and parse_time(told.get(name)) != moment:
            yield name, _OTHERWISE
    for name in (PAUSED, CANCELED):
        wanted = asked.get(name)
        said = told.get(name, False if whole else None)
        is_over = name == PAUSED and is_cancelled(told)  # neither runs nor is paused
        if isinstance(wanted, bool) and boolean_of(said) is not wanted and not is_over:
            yield name, _OTHERWISE
    yield from _of_a_text("pacing", asked, told)


def _of_a_text(name: str, asked: _Record, told: _Record) -> Iterator[_Miss]:
    wanted, shown = asked.get(name), told.get(name) or None
    if wanted is not None and shown != wanted:
        yield name, _UNSTATED if shown is None else _OTHERWISE


def _of_targeting(
    asked: _Record, told: _Record, line: DealLine | None, whole: bool, version: str
) -> Iterator[_Miss]:
    overlay = asked.get(TARGETING)
    if overlay is None:
        return
    ours = (line.targeting or {}) if line else {}
    confirmed = line.confirmed_targeting if line else None
    shown = targeting_told(told, confirmed, whole=whole)
    if shown is None:
        yield TARGETING, _UNSTATED if confirmed is None else _OTHERWISE
    elif not targeting_wanted(ours, overlay, version=version).is_shown_by(shown):
        yield TARGETING, _OTHERWISE


def _is_shown_by_total(asked: _Record, buy: _Record, packages: Mapping[str, _Record], deal: Deal) -> bool:
    """Whether the total shows budgets, where no package states its own (AdCP core/media-buy)."""
    total = amount_of(buy.get("total_budget")) if is_in_currency(deal, buy) else None
    stated = any(decimal_of(package.get(_BUDGET)) is not None for package in packages.values())
    return not stated and total is not None and total == approved_after(deal, asked)


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
