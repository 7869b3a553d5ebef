"""People's last words on what of a media buy stands in no column: its name, whether it or one of its packages
is paused, and a package's pacing (AdCP media-buy/update-media-buy-request).

What its seller states otherwise departs from them, also where it does late what a newer change has decided.
What nobody has ever spoken of is the seller's; where people only refused what it did late, whatever else it
states is as they said. Pure: nothing is read or written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from orders.effects import PAUSED, is_paused, pauses_all_it_names, pauses_every_package
from orders.matching import is_cancelled
from orders.models import DealLine
from tasks_app.adcp.types import BUY_GONE
from tasks_app.adcp.values import boolean_of

NAME, PACING = "name", "pacing"
OF_THE_WHOLE, OF_A_PACKAGE = (NAME, PAUSED), (PACING, PAUSED)
FIELDS = tuple(dict.fromkeys((*OF_THE_WHOLE, *OF_A_PACKAGE)))
WHOLE = ""  # in place of a package's id
NOT = "not"  # which names or pacings people refused, and said nothing else
Word = str | bool | Mapping[str, str | Sequence[str]]
Words = Mapping[str, Mapping[str, Word]]  # by package, then by field
_Record = Mapping[str, Any]
# AdCP's media-buy-status of one that delivers, and of those that will never again.
_RUNS, _ENDED = "active", (*BUY_GONE, "completed")


def words_of(change: _Record) -> dict[str, dict[str, Any]]:
    """What a change (update_media_buy's arguments) says of them."""
    told = {WHOLE: _named(change, OF_THE_WHOLE)}
    for package in change.get("packages") or ():
        told[package["package_id"]] = _named(package, OF_A_PACKAGE)
    return {where: words for where, words in told.items() if words}


def pauses_of(change: _Record) -> dict[str, Any]:
    """What a change says of pauses alone."""
    told = {where: words[PAUSED] for where, words in words_of(change).items() if PAUSED in words}
    packages = [{"package_id": where, PAUSED: word} for where, word in told.items() if where != WHOLE]
    return {**({PAUSED: told[WHOLE]} if WHOLE in told else {}), "packages": packages}


def words_after(before: Words, change: _Record, package_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """People's last words once a change counts; `package_ids`: of all packages, empty for one without a name.
    A word on the pause of the whole media buy is one on each package's too, and the newer of both stands."""
    said = words_of(change)
    left = {where: dict(words) for where, words in before.items()}
    if PAUSED in said.get(WHOLE, {}):
        left = {where: _without_pause(words) for where, words in left.items()}
    merged = {where: {**left.get(where, {}), **said.get(where, {})} for where in {**left, **said}}
    return {where: words for where, words in _paused_apart(merged, package_ids).items() if words}


def words_refused(before: Words, change: _Record) -> dict[str, dict[str, Any]]:
    """People's last words once they refused what a change made of the media buy: as before, and where nobody
    had spoken, or had refused something else, it is not to be so either."""
    left = {where: dict(words) for where, words in before.items()}
    for where, words in words_of(change).items():
        for field, word in words.items():
            known = word_on(before, where, field)
            if known is None and field == PAUSED:
                left.setdefault(where, {})[field] = not word
            elif known is None or isinstance(known, Mapping):
                left.setdefault(where, {})[field] = {NOT: list(dict.fromkeys((*_refused(known), word)))}
    return left


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
    name = buy.get(NAME)
    if NAME in ours and isinstance(name, str) and name:
        yield NAME, _wanted(ours[NAME], name), name
    if PAUSED in ours:
        stated = _pause_stated(buy, lines, asked=ours[PAUSED], whole=whole)
        if stated is not None:
            yield PAUSED, ours[PAUSED], stated


def package_stated(
    words: Words, package_id: str, package: _Record, buy: _Record
) -> Iterator[tuple[str, Any, Any]]:
    """The same of one package. Once that or the media buy has ended whether it runs is not stated; nor is it
    of one that is to run while the whole is paused."""
    pacing, paused = package.get(PACING), boolean_of(package.get(PAUSED))
    paced, is_wanted = (word_on(words, package_id, field) for field in OF_A_PACKAGE)
    if paced is not None and isinstance(pacing, str) and pacing:
        yield PACING, _wanted(paced, pacing), pacing
    is_hidden = is_paused(buy) and not (is_wanted and paused)
    if None not in (is_wanted, paused) and not (is_hidden or has_ended(buy) or is_cancelled(package)):
        yield PAUSED, is_wanted, paused


def word_on(words: Words, where: str, field: str) -> Word | None:
    """People's last word on a field of a package, or of the whole: that the whole runs is one on each of its
    packages."""
    own = words.get(where, {}).get(field)
    of_the_whole = words.get(WHOLE, {}).get(field)
    return False if own is None and field == PAUSED and of_the_whole is False else own


def in_words(word: Word) -> str:
    """A word as a difference shows it."""
    if isinstance(word, Mapping):
        return f"not {' or '.join(_refused(word))}"
    return ("yes" if word else "no") if isinstance(word, bool) else str(word)


def each_of(word: Word) -> list[Word]:
    """What people refused one by one, as it stands beside what is stated; any other word as it is."""
    return [{NOT: one} for one in _refused(word)] or [word]


def _refused(word: Word | None) -> Sequence[str]:
    told = word[NOT] if isinstance(word, Mapping) else ()
    return (told,) if isinstance(told, str) else told


def _wanted(word: Word, stated: str) -> Word:
    """A word beside what is stated: what people did not refuse is as they said."""
    if not isinstance(word, Mapping):
        return word
    return {NOT: stated} if stated in _refused(word) else stated


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
