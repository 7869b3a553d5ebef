"""What a change that was done makes of its deal: it is what was approved from then on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

from orders.accepted import accepted_after, accepted_beside
from orders.amending import line_rebudget
from orders.amounts import lines_wanted
from orders.changes_left import is_nothing
from orders.confirmation import confirmed_values, lines_save
from orders.doubt import change_left, changes_since, package_ids
from orders.effects import Miss
from orders.flights import change_crossing, flight_after, moved
from orders.last_words import pauses_of, words_after, words_of, words_refused
from orders.models import Deal, DealLine, DealMirror
from orders.services import deal_amended
from orders.targeting import TARGETING, targeting_after
from tasks_app.adcp.values import parse_time
from tasks_app.money import decimal_of
from tasks_app.operations.models import Operation
from tasks_app.operations.pauses import request_let_go
from tasks_app.people.actors import SYSTEM

# What a change moves of a line, and where it stands what its seller confirmed of that. Targeting is not here:
# what shows it names it, package by package.
_CONFIRMED = {"budget": "confirmed_budget", "start_at": "confirmed_start_at", "end_at": "confirmed_end_at"}


def change_take(deal: Deal, operation: Operation, missed: Collection[Miss] | None) -> None:
    """What was changed as approved, or as its seller was answered since, is what was approved from now on,
    but for what a newer change has decided. The caller holds the deal, compares. What would leave no flight
    is not taken, and departs from what was approved, which people are asked about. `missed`: what the record
    that shows it does not show of it; None where no record does, and people say so. The deal's trail tells
    what the seller does not state."""
    change = change_left(deal, operation)
    if is_nothing(change) or change_crossing(deal, change):
        return
    before = list(deal.lines.all())
    _apply(deal, operation, change, _unstated_words(operation, missed or ()))
    _keep_words(deal, operation, change)
    if missed is not None and all(miss.unstated for miss in missed):
        _unconfirm(before, list(deal.lines.all()))


def _keep_words(deal: Deal, operation: Operation, change: Mapping[str, Any]) -> None:
    """What it says of what stands in no column is compared with what the seller states from now on. What
    newer changes said of pauses stands."""
    kept, _ = DealMirror.objects.get_or_create(deal=deal)
    newer = [pauses_of(one) for one in reversed(changes_since(deal, operation))]
    said = reduce(partial(words_after, package_ids=package_ids(deal)), [change, *newer], kept.last_words)
    if said != kept.last_words:
        kept.last_words = said
        kept.save(update_fields=["last_words"])


def change_refused(deal: Deal, operation: Operation) -> None:
    """People refused what a change made, or may still make, of what stands in no column. The caller holds the
    deal, compares."""
    change = change_left(deal, operation)
    if words_of(change):
        kept, _ = DealMirror.objects.get_or_create(deal=deal)
        kept.last_words = words_refused(kept.last_words, change)
        kept.save(update_fields=["last_words"])


def _unconfirm(before: Sequence[DealLine], lines: Sequence[DealLine]) -> None:
    """What was confirmed of what a shown change moved is of before it: what holds now the record says that
    shows it, or the next one. An answer may be brief, and is compared with what it says."""
    known = [confirmed_values(line) for line in lines]
    for was, line in zip(before, lines, strict=True):
        for name, confirmed in _CONFIRMED.items():
            wanted = getattr(line, name)
            if wanted not in (getattr(was, name), getattr(line, confirmed)):
                setattr(line, confirmed, None)
    lines_save(lines, known)


def _unstated_words(operation: Operation, missed: Iterable[Miss]) -> str:
    """; Norrland Digital does not state it: name, pkg-1 pacing."""
    unstated = ", ".join(f"{miss.where} {miss.field}".strip() for miss in missed if miss.unstated)
    return f"; {operation.seller} does not state it: {unstated}" if unstated else ""


def _apply(deal: Deal, operation: Operation, change: Mapping[str, Any], besides: str) -> None:
    lines, flight = list(deal.lines.all()), flight_after(deal, change)
    before = lines_wanted(lines, deal.accepted)
    kept = accepted_beside(deal, lines, change, request=request_let_go(operation, left=True))
    lines_change(deal, lines, change)
    deal_amended(
        deal,
        actor=SYSTEM,
        reason=f"Changed as approved: {operation.reference}{besides}"[:500],
        lines=lines,
        changes={
            "start_at": flight.start,
            "end_at": flight.end,
            **accepted_after(deal, kept, change, before=before, after=lines_wanted(lines, kept)),
        },
    )


def lines_change(deal: Deal, lines: Iterable[DealLine], change: Mapping[str, Any]) -> None:
    """Make of lines that are not saved yet what a change asks for; `deal`: as it was before it."""
    start, end = parse_time(change.get("start_time")), parse_time(change.get("end_time"))
    packages = {package["package_id"]: package for package in change.get("packages", ())}
    version = str(change.get("adcp_version") or "")
    for line in lines:
        line.start_at = moved(line.start_at, deal.start_at, start)
        line.end_at = moved(line.end_at, deal.end_at, end)
        _apply_package(line, packages.get(line.package_id, {}), version)


def _apply_package(line: DealLine, package: Mapping[str, Any], version: str) -> None:
    budget = decimal_of(package.get("budget"))
    line_rebudget(line, line.budget if budget is None else budget)
    line.start_at = parse_time(package.get("start_time")) or line.start_at
    line.end_at = parse_time(package.get("end_time")) or line.end_at
    if TARGETING in package:
        line.targeting = targeting_after(line.targeting or {}, package[TARGETING], version=version)
