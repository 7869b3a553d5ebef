"""Makes the approved terms of a deal what a change asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from orders.accepted import accepted_after, accepted_beside
from orders.amending import line_rebudget
from orders.amounts import lines_wanted
from orders.changes.open_changes import close_change, ended_changes, has_proof_window_ended
from orders.changes.proof import is_shown
from orders.confirmation import confirmed_values, lines_save
from orders.flights import change_crossing, flight_after, moved
from orders.last_words import words_after
from orders.models import Change, Deal, DealLine, DealMirror
from orders.services import deal_amended
from orders.targeting import TARGETING, targeting_after
from tasks_app.adcp.values import parse_time
from tasks_app.money import decimal_of
from tasks_app.operations.pauses import request_let_go
from tasks_app.people.actors import SYSTEM

# What a change moves of a line, and what the seller confirmed of that.
_CONFIRMED = {"budget": "confirmed_budget", "start_at": "confirmed_start_at", "end_at": "confirmed_end_at"}


def settle_ended_changes(deal: Deal, buy: Mapping[str, Any], *, whole: bool) -> bool:
    """Close the changes whose operation has ended and that a record of the media buy proves or disproves.

    A record that shows the change makes it. The media buy's own record (`whole`) that does not show it ten
    minutes after the operation's end closes it as not shown: the approved terms become what was asked, and
    what the seller holds instead is a difference that people are asked about. Called with the deal locked,
    before the record is compared. Return whether a change was not shown.
    """
    not_shown = False
    for change in ended_changes(deal):
        if is_shown(request_let_go(change.operation, left=True), buy, deal, whole=whole):
            apply_change(deal, change, Change.Outcome.MADE)
        elif whole and has_proof_window_ended(change):
            apply_change(deal, change, Change.Outcome.NOT_SHOWN)
            not_shown = True
    return not_shown


def apply_change(deal: Deal, change: Change, outcome: Change.Outcome) -> None:
    """Close a change and make the approved terms what it asked for, in the transaction that holds the deal.

    A change that would leave no flight is not applied.
    """
    asked = request_let_go(change.operation, left=True)
    close_change(change, outcome)
    if change.kind == Change.Kind.CANCELLATION or change_crossing(deal, asked):
        return
    lines, flight = list(deal.lines.all()), flight_after(deal, asked)
    before, ordered = lines_wanted(lines, deal.accepted), [copy(line) for line in lines]
    kept = accepted_beside(deal, lines, asked)
    change_lines(deal, lines, asked)
    deal_amended(
        deal,
        actor=SYSTEM,
        reason=f"Changed as approved: {change.operation.reference}",
        lines=lines,
        changes={
            "start_at": flight.start,
            "end_at": flight.end,
            **accepted_after(deal, kept, before=before, after=lines_wanted(lines, kept)),
        },
    )
    if outcome == Change.Outcome.MADE:
        _forget_confirmed(ordered, lines)
    _keep_words(deal, asked)


def _forget_confirmed(before: Sequence[DealLine], lines: Sequence[DealLine]) -> None:
    """Forget what was confirmed of the fields that a change moved: the record that shows it is newer."""
    known = [confirmed_values(line) for line in lines]
    for was, line in zip(before, lines, strict=True):
        for name, confirmed in _CONFIRMED.items():
            if getattr(line, name) not in (getattr(was, name), getattr(line, confirmed)):
                setattr(line, confirmed, None)
    lines_save(lines, known)


def change_lines(deal: Deal, lines: Iterable[DealLine], asked: Mapping[str, Any]) -> None:
    """Set unsaved lines to what update_media_buy's arguments ask for; `deal`: as it was before."""
    start, end = parse_time(asked.get("start_time")), parse_time(asked.get("end_time"))
    packages = {package["package_id"]: package for package in asked.get("packages") or ()}
    version = str(asked.get("adcp_version") or "")
    for line in lines:
        line.start_at = moved(line.start_at, deal.start_at, start)
        line.end_at = moved(line.end_at, deal.end_at, end)
        _change_line(line, packages.get(line.package_id, {}), version)


def _change_line(line: DealLine, package: Mapping[str, Any], version: str) -> None:
    budget = decimal_of(package.get("budget"))
    line_rebudget(line, line.budget if budget is None else budget)
    line.start_at = parse_time(package.get("start_time")) or line.start_at
    line.end_at = parse_time(package.get("end_time")) or line.end_at
    if TARGETING in package:
        line.targeting = targeting_after(line.targeting or {}, package[TARGETING], version=version)


def _keep_words(deal: Deal, asked: Mapping[str, Any]) -> None:
    """Keep what the change says of names, pacing and pauses, which stand in no column."""
    kept, _ = DealMirror.objects.get_or_create(deal=deal)
    kept.last_words = words_after(kept.last_words, asked, [line.package_id for line in deal.lines.all()])
    kept.save(update_fields=["last_words"])
