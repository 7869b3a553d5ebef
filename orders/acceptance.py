"""Accepts the differences of a deal: the approved terms become what its seller states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from orders.amending import set_budget
from orders.models import Deal, DealLine
from orders.services import deal_amended
from orders.terms.compare import PACKAGE, unreadable_values
from orders.terms.terms import COLUMNS, CONFIRMED_COLUMNS
from tasks_app import ids
from tasks_app.adcp.values import parse_time
from tasks_app.lifecycle.transitions import Who
from tasks_app.money import amount_of, rate_of


def is_acceptable(differences: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether people can accept differences: everything that the seller states can be read."""
    return not unreadable_values(differences)


def accept_differences(deal: Deal, *, actor: Who, reason: str) -> bool:
    """Write what the seller states to the lines, in the transaction that holds the deal.

    A package that nobody ordered becomes a line, and one that the seller cancelled costs nothing. The trail
    keeps what was ordered. Return False, with nothing written, if something cannot be read, or if a package
    would end before it starts.
    """
    if not is_acceptable(deal.differences):
        return False
    lines = list(deal.lines.all())
    changed = {line.position: line for line in lines}
    for one in deal.differences:
        if one["field"] in COLUMNS and one["line"] in changed:
            _accept(changed[one["line"]], one["field"])
    fields = {one["field"] for one in deal.differences}
    position = max(changed, default=0)
    new = list(_new_lines(deal, first=position + 1))
    if any(line.start_at >= line.end_at for line in [*lines, *new]):
        return False
    deal_amended(
        deal,
        actor=actor,
        reason=reason,
        lines=lines,
        new=new,
        changes={
            "differences": [],
            "differs": False,
            "unapproved": False,
            **(_deal_flight([*lines, *new]) if fields & {"start", "end"} or new else {}),
        },
    )
    return True


def _deal_flight(lines: list[DealLine]) -> dict[str, datetime]:
    """The flight of the whole media buy: from its first package to its last."""
    running = [line for line in lines if not line.canceled] or lines
    return {
        "start_at": min(line.start_at for line in running),
        "end_at": max(line.end_at for line in running),
    }


def _accept(line: DealLine, term: str) -> None:
    stated = getattr(line, CONFIRMED_COLUMNS[term])
    if term == "budget":
        set_budget(line, stated)
        return
    setattr(line, COLUMNS[term], stated)
    if term == "canceled" and stated:
        line.budget = Decimal(0)


def _new_lines(deal: Deal, *, first: int) -> Iterator[DealLine]:
    """The packages that nobody ordered, as lines: approved and confirmed as the seller states them.

    Their targeting is the seller's own: none was asked for.
    """
    extra = [one["package"] for one in deal.differences if one["field"] == PACKAGE]
    for position, stated in enumerate(extra, start=first):
        line = DealLine(
            id=ids.new_id(),
            deal=deal,
            position=position,
            product_id=stated.get("product_id", ""),
            product_name=stated["name"],
            pricing_option_id=stated.get("pricing_option_id", ""),
            package_id=stated.get("package_id", ""),
            budget=amount_of(stated.get("budget")) or Decimal(0),
            rate=rate_of(stated.get("rate")),
            start_at=parse_time(stated.get("start")) or deal.start_at,
            end_at=parse_time(stated.get("end")) or deal.end_at,
            paused=stated.get("paused") == "yes",
        )
        line.confirmed_budget = line.budget
        yield line
