"""What a seller says of a media buy that stands in no column beside what was approved, and departs from it.

Currency, total, product and price of a package, an amount, a rate, a date or a cancellation that cannot be
read, a package nobody ordered, an end before its flight begins, and what people last said otherwise
(`last_words.py`). What a later record says nothing about stays as it was told. Nothing is read or written
here.

What is stated in another currency, or in no form that can be read, is kept as it is stated and counted as
nothing: what the media buy comes to is not known then (`uncounted`), and nobody is asked for a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from orders import last_words
from orders.accepted import Key, departures_known, key_of
from orders.amounts import PACKAGE, TOTAL, lines_confirmed, lines_ordered
from orders.confirmation import in_words, is_ended_early, is_in_currency, mirror, packages_take
from orders.evidence import as_text
from orders.last_words import Word, Words, package_stated, whole_stated
from orders.last_words import in_words as in_words_of
from orders.matching import Matched, Package, is_cancelled, packages_beyond, packages_match, packages_of
from orders.models import Deal, DealLine
from tasks_app.adcp.values import parse_time
from tasks_app.approvals.plain import shortened
from tasks_app.money import amount_of, rate_of

CURRENCY, UNREADABLE, _RATE = "currency", "stated_budget", "stated_rate"
_CANCELED = "stated_canceled"
_OF_A_PACKAGE = ("product_id", "pricing_option_id")
# What is kept of a date that cannot be read: where a package states it, and what was approved.
_DATES = {"stated_start": ("start_time", "start_at"), "stated_end": ("end_time", "end_at")}
_SOON = "asap"  # AdCP's start-timing: says no date
_NOT_STATED = "not stated"  # an amount, which nobody knows then
BEYOND = "packages"  # more than are read
_STATUS, _AHEAD = "media_buy_status", "pending_start"  # AdCP's media-buy-status before the flight
STATED = (
    *(*_OF_A_PACKAGE, UNREADABLE, _RATE, _CANCELED, *_DATES, *last_words.FIELDS),
    *(_STATUS, PACKAGE, BEYOND, CURRENCY, TOTAL),
)
MOST_NAMED = 50  # packages that nobody ordered, as many as people read; of the rest the sum is kept
MANY = "many"  # of how many packages such a sum is
_THE_BUY, _ZERO = "The media buy", Decimal(0)
_MAX_SHOWN = 255  # as long as AdCP's names and ids are
_MAX_OF_A_TERM = 4_000  # each place of it, as `last_words` shortens what stands there
_MAX_NAME = 70  # of a package that nobody ordered
_Difference = dict[str, Any]
_WHOLE: Key = (0, TOTAL, "")


@dataclass(frozen=True, kw_only=True)
class Departures:
    """`found`: each with line (0: the media buy's), product, field, approved and confirmed. `gross`: what the
    seller confirms in all, None where it has said nothing in the deal's currency."""

    found: list[_Difference]
    gross: Decimal | None


def departures(
    deal: Deal,
    lines: Sequence[DealLine],
    buy: Mapping[str, Any],
    matched: Matched,
    *,
    whole: bool,
    words: Words | None = None,
    awaited: Iterable[_Difference] = (),
) -> Departures:
    """What is stated now, and what was before and is not spoken of. `lines`: with what is confirmed of
    them. `words`: people's last ones; `awaited`: what was so already as changes on their way asked for."""
    words = words or {}
    now = {**dict(_stated(deal, buy, matched)), **dict(_words(lines, buy, matched, words, whole=whole))}
    known = {key_of(one): one for one in awaited if one["field"] in last_words.FIELDS}
    known |= {key: one for key, one in departures_known(deal).items() if one["field"] in STATED}
    known = {key: one for key, one in known.items() if not _is_overtaken(one, lines, words)}
    if last_words.has_ended(buy) and not is_ended_early(deal, mirror(buy).get(_STATUS)):
        known = {key: one for key, one in known.items() if key[1] != last_words.PAUSED}
    if (whole and packages_of(buy)) or len(matched.packages) > MOST_NAMED:
        known = {key: one for key, one in known.items() if key[1] != PACKAGE}
    extra = sum((_amount(one) for one in {**known, **now}.values() if one and one["field"] == PACKAGE), _ZERO)
    by_package = bool(extra) or any(line.confirmed_budget is not None for line in lines)
    summed = lines_confirmed(lines) + extra
    said = amount_of(buy.get(TOTAL)) if is_in_currency(deal, buy) else None
    # A brief answer prices some packages alone: what was told of all of them stands.
    priced = {line.pk for line, package in matched.pairs if amount_of(package.get("budget")) is not None}
    is_told = whole or len(priced) == len(lines)
    at = summed if by_package else lines_ordered(lines)
    now.update(_of_the_total(deal, buy, said, at, known.get(_WHOLE), by_package=by_package, is_told=is_told))
    beyond = by_package and amount_of(summed) is None
    if beyond:
        now[_WHOLE] = _difference(0, _THE_BUY, TOTAL, in_words(lines_ordered(lines)), _beyond(summed))
    told = {**known, **now}
    found = _bounded([one for one in told.values() if one])
    found.sort(key=lambda one: (STATED.index(one["field"]), one["line"]))
    departing = told.get(_WHOLE)
    total = amount_of(departing["confirmed"]) if departing else said
    if beyond:
        return Departures(found=found, gross=deal.confirmed_gross)
    if by_package:
        return Departures(found=found, gross=max(summed, total or _ZERO) if departing else summed)
    if departing is None and total is None and deal.confirmed_gross is not None:
        total = lines_ordered(lines)  # stated once, and departing in nothing that is known
    return Departures(found=found, gross=deal.confirmed_gross if total is None else total)


def departures_told(deal: Deal, buy: Mapping[str, Any], *, whole: bool = True) -> Departures:
    """What a record of a media buy states, beside a deal that is not written."""
    lines = list(deal.lines.all())
    matched = packages_match(lines, packages_of(buy))
    packages_take(deal, buy, matched, whole=whole)
    return departures(deal, lines, buy, matched, whole=whole)


def uncounted(known: Iterable[Mapping[str, Any]]) -> list[str]:
    """Of what departs or was accepted the amounts and currencies, as stated, that cannot be counted: with one
    of them nobody knows what the media buy comes to."""
    return list(dict.fromkeys(str(one["confirmed"]) for one in known if _is_uncounted(one)))


def counted(deal: Deal, amount: Decimal) -> Decimal | None:
    """An amount that follows from what a deal's seller states; None where that cannot be counted."""
    return None if uncounted([*deal.differences, *deal.accepted]) else amount


def _is_uncounted(one: Mapping[str, Any]) -> bool:
    if one["field"] in (PACKAGE, TOTAL):
        return amount_of(one["confirmed"]) is None
    return one["field"] in (UNREADABLE, CURRENCY, BEYOND)


def _stated(deal: Deal, buy: Mapping[str, Any], matched: Matched) -> Iterator[tuple[Key, _Difference | None]]:
    """Each thing that this record speaks of; None where it is as approved."""
    currency = buy.get(CURRENCY)
    if currency is not None:
        yield _said(0, _THE_BUY, CURRENCY, deal.currency, currency)
    if isinstance(buy.get("packages"), list):
        beyond, ordered = packages_beyond(buy), str(len(matched.pairs) + len(matched.lines))
        unread = f"{beyond:,}: more than are counted, what they come to is unknown"
        yield _said(0, _THE_BUY, BEYOND, ordered, unread if beyond else ordered)
    yield from _dates(deal, 0, _THE_BUY, buy)
    status = mirror(buy).get(_STATUS)
    if status is not None:
        yield _said(0, _THE_BUY, _STATUS, _AHEAD, status if is_ended_early(deal, status) else _AHEAD)
    for line, package in matched.pairs:
        for field in _OF_A_PACKAGE:
            if package.get(field) is not None and getattr(line, field):
                yield _said(line.position, line.product_name, field, getattr(line, field), package[field])
        yield _budget(deal, line, package, currency)
        yield _rate(line, package)
        yield _cancellation(line, package)
        yield from _dates(line, line.position, line.product_name, package)
    in_all = amount_of(buy.get(TOTAL)) if is_in_currency(deal, buy) else None
    for name, package in _named(matched.packages):
        yield _said(0, name, PACKAGE, "nothing", _extra(deal, package, currency, in_all))


def _words(
    lines: Sequence[DealLine], buy: Mapping[str, Any], matched: Matched, words: Words, *, whole: bool
) -> Iterator[tuple[Key, _Difference | None]]:
    """What people have spoken of last that stands in no column; None where it is as they said."""
    for field, ours, stated in whole_stated(words, buy, lines, whole=whole):
        yield _said(0, _THE_BUY, field, in_words_of(ours), in_words_of(stated))
    for line, package in matched.pairs:
        if not line.package_id:  # of one without a name nobody has spoken
            continue
        for field, ours, stated in package_stated(words, line.package_id, package, buy):
            yield _said(line.position, line.product_name, field, in_words_of(ours), in_words_of(stated))


def departs_in_a_pause(
    lines: Sequence[DealLine], buy: Mapping[str, Any], words: Words, *, whole: bool, is_asked: bool
) -> bool:
    """Whether what a record states of pauses is not as these words say. One that states nothing leaves it as
    it was (`is_asked`: people are asked about it)."""
    matched = packages_match(lines, packages_of(buy))
    told = _words(lines, buy, matched, words, whole=whole)
    pauses = [departing for (_, field, _), departing in told if field == last_words.PAUSED]
    return any(pauses) or (is_asked and not pauses)


def _is_overtaken(one: _Difference, lines: Sequence[DealLine], words: Words) -> bool:
    """Whether people have said something else since of what departed from their word."""
    if one["field"] not in last_words.FIELDS:
        return False
    where = {line.position: line.package_id for line in lines}.get(one["line"], last_words.WHOLE)
    said = last_words.word_on(words, where, one["field"])
    if said is not None and one["field"] in last_words.TERMS:
        return False  # no change speaks of them
    return said is None or one["approved"] != word_shown(said)


def word_shown(word: Word) -> str:
    """A word as a difference holds it."""
    return _shown(in_words_of(word))


def _named(packages: Iterable[Package]) -> Iterator[tuple[str, Package]]:
    """Packages nobody ordered, each with a name that no other one of the record has, whatever order they come
    in."""
    seen: Counter[str] = Counter()
    for package in sorted(packages, key=_largest_first):
        named = package.get("package_id") or package.get("product_id") or "without a name"
        name = _shown(named, _MAX_NAME)
        seen[name] += 1
        yield f"{name} ({seen[name]})" if seen[name] > 1 else name, package


def _largest_first(package: Package) -> tuple[Decimal, str]:
    return -(amount_of(package.get("budget")) or _ZERO), str(package.get("product_id") or "")


def _extra(deal: Deal, package: Package, currency: Any, in_all: Decimal | None) -> str:
    """What a package nobody ordered comes to; as it is stated where that cannot be counted. One without an
    amount is in what the seller states `in_all`; where it states neither, nobody knows what it costs."""
    stated, named = package.get("budget"), package.get(CURRENCY) or currency
    if is_cancelled(package):
        return "0"
    if stated is None:
        return _NOT_STATED if in_all is None else "0"
    amount = amount_of(stated) if named in (None, deal.currency) else None
    if amount is not None:
        return str(in_words(amount))
    return _as_stated(stated if named in (None, deal.currency) else f"{named} {stated}")


def _bounded(found: list[_Difference]) -> list[_Difference]:
    """No more packages that nobody ordered than people read, what cannot be counted first; the others are
    one, with their sum."""
    others = [one for one in found if one["field"] != PACKAGE]
    extra = [one for one in found if one["field"] == PACKAGE]
    extra.sort(key=lambda one: (MANY in one, not _is_uncounted(one)))
    if len(extra) <= MOST_NAMED:
        return [*others, *extra]
    kept, rest = extra[: MOST_NAMED - 1], extra[MOST_NAMED - 1 :]
    many, unknown = sum(one.get(MANY, 1) for one in rest), any(map(_is_uncounted, rest))
    amount = in_words(sum(map(_amount, rest), _ZERO))
    shown = f"{amount} and amounts that cannot be counted" if unknown else amount
    return [*others, *kept, {**_difference(0, f"{many:,} more", PACKAGE, "nothing", shown), MANY: many}]


def _budget(deal: Deal, line: DealLine, package: Package, currency: Any) -> tuple[Key, _Difference | None]:
    """An amount that says nothing in the deal's currency, as it is stated."""
    stated, named = package.get("budget"), package.get(CURRENCY) or currency
    ours = named in (None, deal.currency)
    if stated is None or (ours and amount_of(stated) is not None):
        return _said(line.position, line.product_name, UNREADABLE, "", "")
    shown = _as_stated(stated if ours else f"{named} {stated}")
    return _said(line.position, line.product_name, UNREADABLE, in_words(line.budget), shown)


def _rate(line: DealLine, package: Package) -> tuple[Key, _Difference | None]:
    """A price that nobody can read, as it is stated."""
    stated = package.get("bid_price")
    unread = stated is not None and rate_of(stated) is None
    sides = (in_words(line.rate), stated) if unread else ("", "")
    return _said(line.position, line.product_name, _RATE, *sides)


def _cancellation(line: DealLine, package: Package) -> tuple[Key, _Difference | None]:
    """That it is cancelled or not in no form that can be read, as it is stated."""
    sides = ("no", package["canceled"]) if is_cancelled(package) is None else ("", "")
    return _said(line.position, line.product_name, _CANCELED, *sides)


def _dates(
    ours: Deal | DealLine, line: int, product: str, record: Mapping[str, Any]
) -> Iterator[tuple[Key, _Difference | None]]:
    """Dates that nobody can read, as they are stated."""
    for field, (name, column) in _DATES.items():
        stated = record.get(name)
        unread = stated not in (None, "", _SOON) and parse_time(stated) is None
        sides = (in_words(getattr(ours, column)), stated) if unread else ("", "")
        yield _said(line, product, field, *sides)


def _of_the_total(
    deal: Deal,
    buy: Mapping[str, Any],
    said: Decimal | None,
    at: Decimal,
    known: _Difference | None,
    *,
    by_package: bool,
    is_told: bool,
) -> Iterator[tuple[Key, _Difference | None]]:
    """The total beside what packages come to (`at`): as they were ordered, or where one has an amount of its
    own (`by_package`) as the seller states them, with or without those that are cancelled. One that is not
    told is what packages say that are (`is_told`: all of them), else as it was `known`."""
    ours = [p for p in packages_of(buy) if is_in_currency(deal, buy) and is_in_currency(deal, p)]
    told = [p for p in ours if amount_of(p.get("budget")) is not None]
    if said is None and buy.get(TOTAL) is None:
        if told and is_told:
            yield _WHOLE, None
        elif known is not None:
            is_right = amount_of(known["confirmed"]) == at
            yield _WHOLE, None if is_right else {**known, "approved": _shown(in_words(at))}
        return
    cancelled = sum((amount_of(p["budget"]) or _ZERO for p in told if is_cancelled(p)), _ZERO)
    right = {at, at + cancelled} if by_package else {at}
    stated = buy[TOTAL] if is_in_currency(deal, buy) else f"{buy[CURRENCY]} {buy[TOTAL]}"
    shown = _as_stated(stated) if said is None else in_words(said)
    yield _WHOLE, None if said in right else _difference(0, _THE_BUY, TOTAL, in_words(at), shown)


def _said(
    line: int, product: str, field: str, approved: Any, confirmed: Any
) -> tuple[Key, _Difference | None]:
    # What is written alike is the same: a seller may state a number as text, and a name as a number.
    same = str(as_text(approved)) == str(as_text(confirmed))
    found = None if same else _difference(line, product, field, approved, confirmed)
    return (line, field, product if field == PACKAGE else ""), found


def _difference(line: int, product: str, field: str, approved: Any, confirmed: Any) -> _Difference:
    most = _MAX_OF_A_TERM if field in last_words.TERMS else _MAX_SHOWN
    return {
        "line": line,
        "product": product,
        "field": field,
        "approved": _shown(approved, most),
        "confirmed": _shown(confirmed, most),
    }


def _beyond(amount: Decimal) -> str:
    """What packages come to together where that is beyond any purchase, though each is not."""
    return f"{in_words(amount)}: more than can be counted"


def _amount(one: _Difference) -> Decimal:
    return amount_of(one["confirmed"]) or _ZERO


def _as_stated(value: Any) -> str:
    """What cannot be counted, shown so that it is not counted either, cut or not."""
    shown = _shown(value)
    return shown if amount_of(shown) is None else f"“{shown}”"


def _shown(value: Any, most: int = _MAX_SHOWN) -> str:
    return shortened(str(as_text(value)), most)
