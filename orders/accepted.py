"""What people accepted of a media buy otherwise than it was ordered: it is what was approved from then on.

A departure is one from that. What its seller takes back to what was ordered is none, unless it is more than
what was accepted; with it the acceptance is over. A change that people approve counts instead of what they
accepted before. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from orders import last_words
from orders.amounts import (
    BUDGET,
    PACKAGE,
    TOTAL,
    UNAPPROVED,
    decides_total,
    is_unapproved,
    lines_wanted,
)
from orders.confirmation import in_words
from orders.last_words import PAUSED
from orders.last_words import in_words as in_words_of
from orders.models import Deal, DealLine
from orders.targeting import TARGETING
from tasks_app.money import decimal_of

Key = tuple[int, str, str]
Difference = dict[str, Any]
_RATE, _NOTHING = "rate", Decimal(0)
_AMOUNTS = (BUDGET, _RATE, TOTAL)
_DATES = ("start_time", "end_time")
# What a change names, and which of the differences it decides.
_DECIDES = {
    "budget": (BUDGET, "stated_budget", last_words.IMPRESSIONS),
    "start_time": ("start", "stated_start"),
    "end_time": ("end", "stated_end"),
    TARGETING: ("targeting",),
    **{word: (word,) for word in last_words.OF_A_PACKAGE},
}


@dataclass(frozen=True, kw_only=True)
class Standing:
    """`differences`: what departs from what counts as approved. `accepted`: what was accepted otherwise than
    ordered and still counts, each with what was ordered; `gross`: what the deal comes to by it, None: as
    ordered."""

    differences: list[Difference]
    accepted: list[Difference]
    gross: Decimal | None

    @property
    def changes(self) -> dict[str, Any]:
        """The deal's columns."""
        return {
            "differences": self.differences,
            "differs": bool(self.differences),
            "accepted": self.accepted,
            "accepted_gross": self.gross,
        }


def key_of(one: Mapping[str, Any]) -> Key:
    """What a difference is about."""
    return one["line"], one["field"], one["product"] if one["field"] == PACKAGE else ""


def departures_known(deal: Deal) -> dict[Key, Difference]:
    """What a deal's seller is known to do otherwise than it was ordered, accepted or not."""
    ordered = {key_of(one): one["approved"] for one in deal.accepted}
    known = [*deal.accepted, *deal.differences]
    return {key_of(one): {**one, "approved": ordered.get(key_of(one), one["approved"])} for one in known}


def standing(deal: Deal, lines: Sequence[DealLine], found: Sequence[Difference]) -> Standing:
    """What a deal's seller does now otherwise than ordered (`found`), beside what people accepted. `deal`:
    with the gross that is confirmed now."""
    told, held = {key_of(one): one for one in found}, {key_of(one): one for one in deal.accepted}
    departing = [beside for one in found if (beside := _beside(deal, one, held.get(key_of(one))))]
    # A bid that people let go in an answer stays while the seller says nothing of it.
    unsaid = {(line.position, _RATE, "") for line in lines if line.confirmed_rate is None}
    back = [one for key, one in held.items() if key not in told and key not in unsaid]
    risen = {key_of(one): one for one in _risen(deal, back)}
    # A total is beside what the packages come to now.
    now = {key: {**one, "approved": told.get(key, one)["approved"]} for key, one in held.items()}
    accepted = [one for key, one in now.items() if key in told or key in risen or key in unsaid]
    if is_unapproved(deal):
        # That nobody approved an adopted one is no word of the seller's: it stays until it is decided.
        departing += [one for one in deal.differences if one["field"] == UNAPPROVED]
    differences = [*departing, *risen.values()]
    return Standing(
        differences=differences, accepted=accepted, gross=_gross(deal, lines, accepted, differences)
    )


def taken(deal: Deal, shown: Sequence[Difference] = ()) -> Standing:
    """A deal of which people accept what its seller does now, but for what is `shown` already of changes on
    their way: its money counts once they do."""
    accepted = {key_of(one): one for one in deal.accepted}
    is_whole = _is_shown_whole(deal, shown)
    for one in deal.differences:
        before = accepted.pop(key_of(one), None)
        as_ordered = before is not None and one["confirmed"] == before["approved"]
        if one["field"] != UNAPPROVED and not as_ordered:
            accepted[key_of(one)] = {**one, "approved": (before or one)["approved"]}
    held = list(accepted.values())
    brought = _NOTHING if is_whole else _brought(shown)
    confirmed = deal.confirmed_gross
    gross = confirmed - brought if held and confirmed is not None else None
    return Standing(differences=[], accepted=held, gross=gross)


def _is_shown_whole(deal: Deal, shown: Sequence[Difference]) -> bool:
    """Whether people are shown a total as its seller states it: one that departs, or that they accepted
    before, and that changes on their way have no part in that is known."""
    return _has_total(deal.differences) or (_has_total(deal.accepted) and not _has_total(shown))


def _brought(shown: Sequence[Difference]) -> Decimal:
    """The money in what is confirmed that changes on their way brought."""
    totals = [one for one in shown if one["field"] == TOTAL]
    priced = totals or [one for one in shown if one["field"] == BUDGET]
    return sum((_amount(one["confirmed"]) - _amount(one["approved"]) for one in priced), _NOTHING)


def _amount(stated: Any) -> Decimal:
    return decimal_of(stated) or _NOTHING


def accepted_beside(deal: Deal, lines: Sequence[DealLine], change: Mapping[str, Any]) -> list[Difference]:
    """What was accepted and a change that people approved does not decide. `deal` and `lines` as they were
    before it."""
    by_change = decided_by(deal, lines, change)
    return [one for one in deal.accepted if (one["line"], one["field"]) not in by_change]


def decided_by(deal: Deal, lines: Sequence[DealLine], change: Mapping[str, Any]) -> set[tuple[int, str]]:
    """Which differences, by line and field, a change (update_media_buy's arguments) decides. `deal` and
    `lines` as they were before it."""
    packages = {package["package_id"]: package for package in change.get("packages", ())}
    moved = [name for name in _DATES if name in change]
    decided = {(0, field) for name in moved for field in _DECIDES[name]}
    decided |= {(0, word) for word in last_words.OF_THE_WHOLE if word in change}
    # A pause of the whole is one of its packages, unless it repeats what people had said of the whole; where
    # each package is named it is one all the same.
    paused = {in_words_of(one[PAUSED]) for one in packages.values() if PAUSED in one}
    repeated = {one["approved"] for one in deal.accepted if (one["line"], one["field"]) == (0, PAUSED)}
    is_each_named = {line.package_id for line in lines} <= {n for n, one in packages.items() if PAUSED in one}
    decided |= {(0, PAUSED)} if paused - repeated or (paused and is_each_named) else set()
    decided |= {(0, TOTAL)} if decides_total(deal, lines, change) else set()
    for line in lines:
        named = {name for name in packages.get(line.package_id, {}) if name in _DECIDES}
        named |= {PAUSED} & change.keys()
        named |= {name for name in moved if _is_whole(deal, line, name)}
        decided |= {(line.position, field) for name in named for field in _DECIDES[name]}
    return decided


def accepted_after(
    deal: Deal, kept: Sequence[Difference], *, before: Decimal, after: Decimal
) -> dict[str, Any]:
    """The deal's columns of what was accepted, after a change that people approved left `kept` of it.
    `before` and `after` it: what its packages come to."""
    if is_unapproved(deal):
        return {}
    if deal.accepted_gross is None or not kept:
        return {"accepted": [*kept], "accepted_gross": None}
    more = after - before
    accepted = [_raised(one, more) if one["field"] == TOTAL else one for one in kept]
    is_said_anew = _has_total(deal.accepted) and not _has_total(kept)
    return {"accepted": accepted, "accepted_gross": after if is_said_anew else deal.accepted_gross + more}


def _beside(deal: Deal, one: Difference, before: Difference | None) -> Difference | None:
    """A departure from what was ordered as one from what was accepted; None where it is that."""
    if before is not None:
        same = one["confirmed"] == before["confirmed"]
        return None if same else {**one, "approved": before["confirmed"]}
    if one["field"] == TOTAL and deal.accepted_gross is not None:
        return {**one, "approved": in_words(deal.accepted_gross)}
    return one


def _risen(deal: Deal, back: Collection[Difference]) -> Iterator[Difference]:
    """Of amounts that are as ordered again, those that are more than what was accepted."""
    for one in back:
        now = deal.confirmed_gross if one["field"] == TOTAL else decimal_of(one["approved"])
        least = decimal_of(one["confirmed"])
        if one["field"] in _AMOUNTS and now is not None and least is not None and now > least:
            yield {**one, "approved": one["confirmed"], "confirmed": in_words(now)}


def _gross(
    deal: Deal, lines: Sequence[DealLine], accepted: list[Difference], differences: list[Difference]
) -> Decimal | None:
    if is_unapproved(deal):
        return deal.accepted_gross
    if not accepted:
        return None
    if not differences:
        return deal.confirmed_gross
    if _has_total(accepted) and deal.accepted_gross is not None:
        return deal.accepted_gross - lines_wanted(lines, deal.accepted) + lines_wanted(lines, accepted)
    return lines_wanted(lines, accepted)


def _has_total(told: Iterable[Difference]) -> bool:
    return any(one["field"] == TOTAL for one in told)


def _is_whole(deal: Deal, line: DealLine, name: str) -> bool:
    """Whether a line's date is the whole media buy's, and moves with it."""
    if name == "start_time":
        return line.start_at == deal.start_at
    return line.end_at == deal.end_at


def _raised(one: Difference, more: Decimal) -> Difference:
    """A total after what was ordered and what was accepted became so much more."""
    amounts = ((side, decimal_of(one[side])) for side in ("approved", "confirmed"))
    return {**one, **{side: in_words(amount + more) for side, amount in amounts if amount is not None}}
