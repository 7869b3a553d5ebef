"""Reads the terms that a seller states in a record of a media buy. Pure, except for the clock.

Source: AdCP core/media-buy, core/package. A record states some terms and leaves others out. Dates of the
whole media buy apply to the packages that run with it. A total without budgets of packages is shared out
among them as they were approved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

from orders.models import Deal, DealLine
from orders.terms.matching import (
    Package,
    excess_packages,
    is_cancelled,
    is_unallocated,
    match_packages,
    names_packages,
    packages_of,
)
from orders.terms.targeting import stated_targeting
from orders.terms.terms import NOT_STATED, PackageTerms, Terms, Unreadable
from tasks_app import money
from tasks_app.adcp.types import BUY_GONE
from tasks_app.adcp.values import boolean_of, identity_of, parse_time
from tasks_app.approvals.plain import as_text, shortened
from tasks_app.money import amount_of, rate_of

TOTAL = "total_budget"
MAX_IDENTITY = 255  # characters of an id that a seller gives
_MAX_SHOWN, _MAX_NAME = 255, 70  # characters of a value, and of a package that nobody ordered
_SOON = "asap"  # AdCP's start-timing: states no date
_ENDED = (*BUY_GONE, "completed")
_IN_NO_PACKAGE = "Not in any package"
_NOTHING = Decimal(0)
_Record = Mapping[str, Any]
# Reads an amount of a record: the record, its field, and what reads it.
_Amounts = Callable[[_Record, str, Callable[[Any], Decimal | None]], Decimal | Unreadable | None]


def stated_terms(deal: Deal, lines: Sequence[DealLine], buy: _Record, *, whole: bool) -> Terms:
    """Return the terms that a record states, package by package beside the deal's lines.

    `whole`: the record is the media buy's own, in which a line without a package is cancelled and a package
    without `paused` or `canceled` is neither. An answer may name only what changed.
    """
    matched = match_packages(lines, packages_of(buy))
    amount = partial(_amount, deal, buy)
    stated = [_read_package(deal, line, package, buy, amount, whole=whole) for line, package in matched.pairs]
    for line in matched.lines:
        if not names_packages(buy):
            stated.append(_read_unlisted_line(deal, line, buy, whole=whole))
        elif whole and not is_unallocated(line):
            stated.append(PackageTerms(line=line.position, name=line.product_name, canceled=True))
    extra = [
        _read_extra_package(deal, one, buy, amount)
        for one in matched.packages
        if is_cancelled(one) is not True
    ]
    if whole:
        stated, extra = _share_total(deal, lines, buy, stated, extra, amount)
    return Terms(
        currency=_shown(buy["currency"]) if buy.get("currency") is not None else None,
        packages=(*stated, *extra),
        problems=tuple(_problems(buy, amount)),
    )


def _amount(
    deal: Deal, buy: _Record, record: _Record, field: str, read: Callable[[Any], Decimal | None]
) -> Decimal | Unreadable | None:
    """Return an amount of `record`, which is the media buy or one of its packages."""
    stated = record.get(field)
    if stated is None:
        return None
    currency = record.get("currency") or buy.get("currency")
    if currency not in (None, deal.currency):
        return Unreadable(_shown(f"{currency} {stated}"))
    amount = read(stated)
    return Unreadable(_uncountable(stated)) if amount is None else amount


def _read_package(
    deal: Deal, line: DealLine, package: Package, buy: _Record, amount: _Amounts, *, whole: bool
) -> PackageTerms:
    canceled = is_cancelled(package) if whole or package.get("canceled") not in (None, "") else None
    return PackageTerms(
        line=line.position,
        name=line.product_name,
        package_id=_id(package.get("package_id")),
        product_id=_text(package.get("product_id")),
        pricing_option_id=_text(package.get("pricing_option_id")),
        budget=_budget(line, package, amount, canceled),
        rate=amount(package, "bid_price", rate_of),
        start=_date("start_time", package, _inherited_date(deal, line, "start_at", buy)),
        end=_date("end_time", package, _inherited_date(deal, line, "end_at", buy)),
        targeting=stated_targeting(package, line.confirmed_targeting, whole=whole),
        paused=_paused(buy, package, whole=whole),
        canceled=Unreadable(_shown(package["canceled"])) if is_cancelled(package) is None else canceled,
    )


def _budget(
    line: DealLine, package: Package, amount: _Amounts, canceled: bool | None
) -> Decimal | Unreadable | None:
    """The budget; unreadable if a package that was cancelled runs again for an amount that is not stated."""
    stated = amount(package, "budget", amount_of)
    return NOT_STATED if stated is None and line.canceled and canceled is False else stated


def _read_unlisted_line(deal: Deal, line: DealLine, buy: _Record, *, whole: bool) -> PackageTerms:
    """What a record that names no packages states of each of them."""
    return PackageTerms(
        line=line.position,
        name=line.product_name,
        start=_inherited_date(deal, line, "start_at", buy),
        end=_inherited_date(deal, line, "end_at", buy),
        paused=_paused(buy, {}, whole=whole),
        canceled=False if whole else None,
    )


def _read_extra_package(deal: Deal, package: Package, buy: _Record, amount: _Amounts) -> PackageTerms:
    """A package that no line is for. It runs with the whole media buy unless it states other dates."""
    line = DealLine(position=0, start_at=deal.start_at, end_at=deal.end_at)
    stated = _read_package(deal, line, package, buy, amount, whole=True)
    named = stated.package_id or stated.product_id or "without an id"
    return replace(stated, name=_shown(named, _MAX_NAME), targeting=None, canceled=None)


def _share_total(
    deal: Deal,
    lines: Sequence[DealLine],
    buy: _Record,
    stated: list[PackageTerms],
    extra: list[PackageTerms],
    amount: _Amounts,
) -> tuple[list[PackageTerms], list[PackageTerms]]:
    """Share what the budgets of packages leave of the total out among the packages without one.

    They get parts in proportion to their approved budgets. If there is none, the rest is a package by itself.
    A total beside the budget of a cancelled package may include it or not: it is not shared out.
    """
    total, known = amount(buy, TOTAL, amount_of), {one.line: one for one in stated}
    if not isinstance(total, Decimal):
        return stated, extra
    budgets = [one.budget for one in (*stated, *extra)]
    is_unclear = any(one.canceled is True and one.budget is not None for one in stated)
    if is_unclear or any(isinstance(budget, Unreadable) for budget in budgets):
        return stated, extra
    rest = total - sum((budget for budget in budgets if isinstance(budget, Decimal)), _NOTHING)
    open_lines = [line for line in lines if _takes_share(line, known.get(line.position))]
    extra = [replace(one, budget=_NOTHING) if one.budget is None else one for one in extra]
    if rest < 0:
        return stated, extra
    if not open_lines:
        in_no_package = [PackageTerms(line=0, name=_IN_NO_PACKAGE, budget=rest)] if rest else []
        return stated, [*extra, *in_no_package]
    shares = _shares(open_lines, rest, deal.currency)
    for line in open_lines:
        own = known.get(line.position) or PackageTerms(line=line.position, name=line.product_name)
        known[line.position] = replace(own, budget=shares[str(line.position)])
    return list(known.values()), extra


def _takes_share(line: DealLine, stated: PackageTerms | None) -> bool:
    if stated is None:
        return is_unallocated(line)
    return stated.budget is None and stated.canceled is not True


def _shares(lines: Sequence[DealLine], rest: Decimal, currency: str) -> dict[str, Decimal]:
    approved = {str(line.position): line.budget for line in lines}
    if sum(approved.values()) == rest:
        return approved
    weights = approved if any(approved.values()) else dict.fromkeys(approved, Decimal(1))
    return money.split(rest, weights, currency)


def _problems(buy: _Record, amount: _Amounts) -> Iterator[tuple[str, Unreadable]]:
    total = amount(buy, TOTAL, amount_of)
    if isinstance(total, Unreadable):
        yield TOTAL, total
    if beyond := excess_packages(buy):
        yield "packages", Unreadable(f"{beyond:,} packages: too many to be read")
    for field, name in (("start", "start_time"), ("end", "end_time")):
        if buy.get(name) not in (None, "", _SOON) and parse_time(buy[name]) is None:
            yield field, Unreadable(_shown(buy[name]))


def _date(name: str, package: Package, whole: datetime | None) -> datetime | Unreadable | None:
    stated = package.get(name)
    if stated in (None, "", _SOON):
        return whole
    moment = parse_time(stated)
    return Unreadable(_shown(stated)) if moment is None else moment


def _inherited_date(deal: Deal, line: DealLine, edge: str, buy: _Record) -> datetime | None:
    """The whole media buy's date, if the package runs with it or is cut by it."""
    whole = parse_time(buy.get("start_time" if edge == "start_at" else "end_time"))
    if whole is None:
        return None
    ours: datetime = getattr(line, edge)
    cuts = whole > ours if edge == "start_at" else whole < ours
    return whole if cuts or ours == getattr(deal, edge) else None


def _paused(buy: _Record, package: Package, *, whole: bool) -> bool | Unreadable | None:
    """Whether a package is paused: by itself, or with the whole media buy.

    A media buy that waits for its flight or has ended may be paused or not.
    """
    status, own = status_of(buy), package.get("paused")
    if status in _ENDED:
        return None
    if own not in (None, "") and boolean_of(own) is None:
        return Unreadable(_shown(own))
    if is_paused(buy) or boolean_of(own):
        return True
    runs = status == "active" or boolean_of(buy.get("paused")) is False
    return False if runs and (whole or boolean_of(own) is False) else None


def is_paused(buy: _Record) -> bool:
    """Return whether a record shows the whole media buy as paused."""
    return status_of(buy) == "paused" or boolean_of(buy.get("paused")) is True


def is_canceled(buy: _Record, lines: Sequence[DealLine]) -> bool:
    """Return whether a record shows the whole media buy as cancelled, by its status or package by package."""
    status = status_of(buy)
    if status is not None:
        return status == "canceled"
    named = {_id(package.get("package_id")): package for package in packages_of(buy)}
    running = [line for line in lines if not (is_unallocated(line) or line.canceled)]
    return bool(running) and all(is_cancelled(named.get(line.package_id, {})) for line in running)


def status_of(buy: _Record) -> str | None:
    """Return the status of a media buy. AdCP has it under two names."""
    status = buy.get("media_buy_status") or buy.get("status")
    return status if isinstance(status, str) else None


def answer_as_record(result: _Record) -> dict[str, Any]:
    """Return the result of update_media_buy as a record: a change names the packages that it affected."""
    return {**result, "packages": result.get("affected_packages") or result.get("packages")}


def _id(stated: Any) -> str | None:
    return identity_of(stated, longest=MAX_IDENTITY)


def _text(stated: Any) -> str | None:
    return None if stated in (None, "") else _shown(stated)


def _uncountable(stated: Any) -> str:
    """An unreadable amount, in quotes if the shortened text could be read as one."""
    shown = _shown(stated)
    return shown if amount_of(shown) is None else f"“{shown}”"


def _shown(value: Any, most: int = _MAX_SHOWN) -> str:
    return shortened(str(as_text(value)), most)
