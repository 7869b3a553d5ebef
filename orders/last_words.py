"""People's last words on what of a media buy stands in no column: its name and pacing, whether it or one of
its packages is paused, a package's pacing and goal of impressions, estimate numbers, and the terms that were
sent along (AdCP media-buy/create-media-buy-request, package-request, update-media-buy-request).

A purchase has the first word (`words_bought`), a change that counts a later one. What its seller states
otherwise departs from them, also where it does late what a newer change has decided. What nobody has ever
spoken of is the seller's. Pure: nothing is read or written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import zip_longest
from typing import Any

from orders.changes.proof import PAUSED, is_paused, pauses_all_it_names, pauses_every_package
from orders.matching import is_cancelled, packages_match, packages_of
from orders.models import DealLine
from orders.targeting import is_the_same
from tasks_app.adcp.types import BUY_GONE
from tasks_app.adcp.values import boolean_of
from tasks_app.approvals.plain import as_text, shortened
from tasks_app.money import decimal_of

NAME, PACING, IMPRESSIONS, ESTIMATE = "name", "pacing", "impressions", "agency_estimate_number"
# What is sent along as an object or a list, which its seller may complete.
TERMS = ("invoice_recipient", "measurement_terms", "optimization_goals")
_TEXTS = (NAME, PACING, ESTIMATE)
# As a purchase has them; a change has those of them that AdCP's update can name.
OF_THE_WHOLE = (NAME, PACING, PAUSED, ESTIMATE, "invoice_recipient")
OF_A_PACKAGE = (PACING, PAUSED, IMPRESSIONS, ESTIMATE, "measurement_terms", "optimization_goals")
FIELDS = tuple(dict.fromkeys((*OF_THE_WHOLE, *OF_A_PACKAGE)))
WHOLE = ""  # in place of a package's id
TERM = "term"  # what was sent along of a term
_BUDGET = "budget"
_MAX_OF_A_PLACE = 255  # characters shown of what stands at one place of a term
_MAX_OF_ITS_NAME = 48  # of the names that lead there: all that stands under a long one would repeat it
Word = str | bool | int | Decimal | Mapping[str, Any]
Words = Mapping[str, Mapping[str, Word]]  # by package, then by field
_Record = Mapping[str, Any]
# AdCP's media-buy-status of one that delivers, and of those that will never again.
_RUNS, _ENDED = "active", (*BUY_GONE, "completed")


def words_bought(request: _Record, lines: Sequence[DealLine]) -> dict[str, dict[str, Any]]:
    """What a purchase (create_media_buy's arguments) says of them; of a package as of the id of the line that
    was bought by it, which has no name yet (`words_named`)."""
    told = {WHOLE: _as_sent(request, OF_THE_WHOLE)}
    for line, package in packages_match(lines, packages_of(request)).pairs:
        told[str(line.pk)] = _as_sent(package, OF_A_PACKAGE)
    return {where: words for where, words in told.items() if words}


def words_named(words: Words, lines: Sequence[DealLine]) -> Words:
    """Words of packages under the names that their seller has given them by now."""
    names = {str(line.pk): line.package_id for line in lines if line.package_id}
    if not names.keys() & words.keys():
        return words
    kept = {where: said for where, said in words.items() if where not in names}
    for line_id in names.keys() & words.keys():
        kept[names[line_id]] = {**words[line_id], **kept.get(names[line_id], {})}
    return kept


def words_of(change: _Record) -> dict[str, dict[str, Any]]:
    """What a change (update_media_buy's arguments) says of them."""
    told = {WHOLE: _named(change, OF_THE_WHOLE)}
    for package in change.get("packages") or ():
        told[package["package_id"]] = _named(package, OF_A_PACKAGE)
    return {where: words for where, words in told.items() if words}


def words_after(before: Words, change: _Record, package_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """People's last words once a change counts; `package_ids`: of all packages, empty for one without a name.
    A word on the pause of the whole media buy is one on each package's too, and the newer of both stands."""
    said = words_of(change)
    left = {where: dict(words) for where, words in before.items()}
    for package in change.get("packages") or ():
        if _BUDGET in package:  # what it buys goes by the budget from now on
            left.get(package["package_id"], {}).pop(IMPRESSIONS, None)
    if PAUSED in said.get(WHOLE, {}):
        left = {where: _without_pause(words) for where, words in left.items()}
    merged = {where: {**left.get(where, {}), **said.get(where, {})} for where in {**left, **said}}
    return {where: words for where, words in _paused_apart(merged, package_ids).items() if words}


def _paused_apart(
    words: Mapping[str, dict[str, Any]], package_ids: Collection[str]
) -> Mapping[str, dict[str, Any]]:
    """A pause of the whole that one of its packages no longer shares, as one of each of the others; none of
    the whole where each package has a word of its own."""
    whole = words.get(WHOLE, {}).get(PAUSED)
    own = {where: said[PAUSED] for where, said in words.items() if where != WHOLE and PAUSED in said}
    if whole is None or all(word == whole for word in own.values()) or WHOLE in package_ids:
        return words  # also where a package has no name to keep a word of its own by
    apart = {**words, WHOLE: _without_pause(words[WHOLE])}
    if whole:
        return {**apart, **{one: {PAUSED: whole, **words.get(one, {})} for one in package_ids}}
    return apart if own.keys() >= set(package_ids) else words


def whole_stated(
    words: Words, buy: _Record, lines: Sequence[DealLine], *, whole: bool
) -> Iterator[tuple[str, Any, Any]]:
    """Of the whole media buy, what a record states of what people have spoken of: field, their word, the
    seller's. `whole`: the record is the media buy's own; an answer may name some packages alone."""
    ours = words.get(WHOLE, {})
    yield from _as_said(ours, buy)
    if PAUSED in ours:
        stated = _pause_stated(buy, lines, asked=ours[PAUSED], whole=whole)
        if stated is not None:
            yield PAUSED, ours[PAUSED], stated


def package_stated(
    words: Words, package_id: str, package: _Record, buy: _Record
) -> Iterator[tuple[str, Any, Any]]:
    """The same of one package. Once that or the media buy has ended whether it runs is not stated; nor is it
    of one that is to run while the whole is paused."""
    paused, is_wanted = boolean_of(package.get(PAUSED)), word_on(words, package_id, PAUSED)
    yield from _as_said(words.get(package_id, {}), package)
    is_hidden = is_paused(buy) and not (is_wanted and paused)
    if None not in (is_wanted, paused) and not (is_hidden or has_ended(buy) or is_cancelled(package)):
        yield PAUSED, is_wanted, paused


def _as_said(ours: Mapping[str, Word], record: _Record) -> Iterator[tuple[str, Any, Any]]:
    """Of all but pauses."""
    for field, word in ours.items():
        stated = record.get(field)
        if field in _TEXTS and isinstance(stated, str) and stated:
            yield field, word, stated
        elif field == IMPRESSIONS and (number := _number(stated)) is not None:
            yield field, word, number
        elif field in TERMS and isinstance(word, Mapping) and stated is not None:
            apart = list(_apart(word[TERM], stated))
            sent, told = (((at, one) for at, one, _ in apart), ((at, other) for at, _, other in apart))
            yield field, _placed(sent), _placed(told)


def _placed(values: Iterator[tuple[str, Any]]) -> str:
    """Each place, however long what stands at another is."""
    return "; ".join(f"{at} {_in_short(value)}".strip() for at, value in values)


def _in_short(value: Any) -> str:
    return "nothing" if value is None else shortened(str(as_text(value)), _MAX_OF_A_PLACE)


def _number(stated: Any) -> Decimal | None:
    return decimal_of(stated) if isinstance(stated, int | float) else None


def _apart(ours: Any, theirs: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where a term is stated otherwise than it was sent: place, as sent, as stated. What its seller adds to
    an object is no difference, what it adds to a list is one."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for name, value in ours.items():
            yield from _apart(value, theirs.get(name), _place(at, name.replace("_", " ")))
    elif _are_lists(ours, theirs) and all(isinstance(one, Mapping) for one in ours):
        for place, (one, other) in enumerate(zip_longest(ours, theirs), start=1):
            yield from _apart(one, other, _place(at, place))
    elif not (is_the_same(ours, theirs) or _are_written_alike(ours, theirs)):
        yield at, ours, theirs


def _place(at: str, name: str | int) -> str:
    return shortened(f"{at} {name}".strip(), _MAX_OF_ITS_NAME)


def _are_written_alike(*sides: Any) -> bool:
    """A seller may state a number as text, or a name as a number."""
    return all(isinstance(side, str | int | float) for side in sides) and len({str(s) for s in sides}) == 1


def _are_lists(*sides: Any) -> bool:
    return all(isinstance(side, list) for side in sides)


def word_on(words: Words, where: str, field: str) -> Word | None:
    """People's last word on a field of a package, or of the whole: that the whole runs is one on each of its
    packages."""
    own = words.get(where, {}).get(field)
    of_the_whole = words.get(WHOLE, {}).get(field)
    return False if own is None and field == PAUSED and of_the_whole is False else own


def in_words(word: Word) -> str:
    """A word as a difference shows it."""
    if isinstance(word, bool):
        return "yes" if word else "no"
    number = None if isinstance(word, str) else decimal_of(word)
    return str(word) if number is None else format(number.normalize(), "f")


def _as_sent(told: _Record, fields: Sequence[str]) -> dict[str, Any]:
    named = _named(told, fields)
    return {name: {TERM: value} if name in TERMS else value for name, value in named.items()}


def _named(told: _Record, fields: Sequence[str]) -> dict[str, Any]:
    return {name: told[name] for name in fields if told.get(name) is not None}


def _without_pause(words: Mapping[str, Any]) -> dict[str, Any]:
    return {name: word for name, word in words.items() if name != PAUSED}


def _pause_stated(buy: _Record, lines: Sequence[DealLine], *, asked: Word, whole: bool) -> bool | None:
    """None where a record says neither: one that waits for its flight may be paused too, what has ended runs
    no more, paused or not, and of a pause package by package an answer may name a part, all paused."""
    if has_ended(buy):
        return None
    if is_paused(buy) or (asked and pauses_every_package(buy, lines)):
        return True
    if asked and not whole and pauses_all_it_names(buy):
        return None
    return False if _status(buy) == _RUNS or boolean_of(buy.get(PAUSED)) is False else None


def has_ended(buy: _Record) -> bool:
    """Whether a record says that the media buy will never deliver again."""
    return _status(buy) in _ENDED


def _status(buy: _Record) -> Any:
    return buy.get("media_buy_status") or buy.get("status")
