"""Makes the approved terms of a deal what a change asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orders.changes.open_changes import close_change, ended_changes, has_proof_window_ended
from orders.changes.requested import changed_terms, deal_after, is_shown
from orders.confirmation import save_confirmed
from orders.flights import change_crossing
from orders.models import Change, Deal, DealLine
from orders.services import deal_amended
from orders.terms.terms import CONFIRMED_COLUMNS
from tasks_app.operations.pauses import request_let_go
from tasks_app.people.actors import SYSTEM


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

    A change that would leave no flight is not applied. A cancellation that was made ends the deal instead.
    """
    asked = request_let_go(change.operation, left=True)
    close_change(change, outcome)
    is_over = change.kind == Change.Kind.CANCELLATION and outcome == Change.Outcome.MADE
    if is_over or change_crossing(deal, asked):
        return
    lines = list(deal.lines.all())
    after, lines_after = deal_after(deal, lines, asked)
    deal_amended(
        deal,
        actor=SYSTEM,
        reason=f"Changed as approved: {change.operation.reference}",
        lines=lines_after,
        changes={"start_at": after.start_at, "end_at": after.end_at},
    )
    if outcome == Change.Outcome.MADE:
        _forget_confirmed(after, lines_after, asked)


def _forget_confirmed(deal: Deal, lines: list[DealLine], asked: Mapping[str, Any]) -> None:
    """Clear the confirmed terms that the change decided. The record that shows it states them."""
    for line in lines:
        for term in changed_terms(deal, line, asked):
            setattr(line, CONFIRMED_COLUMNS[term], None)
    save_confirmed(lines)
