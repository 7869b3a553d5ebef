"""How much a deal may come to beside what else its campaign buys: the one rule. It is asked where somebody
asks for more, and once more where people let it go.

Room is what nobody has accepted and nothing takes that is on its way: other deals as their sellers confirmed
them, as they were approved or as they are put forward, with what changes on their way bring (`committed.py`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import connection

from orders.amounts import amount_after
from orders.committed import committed_beside
from orders.models import Deal, lines_read_once
from tasks_app import money
from tasks_app.approvals.services import DecisionRefusedError

NOTHING = Decimal(0)
LEFT_AFTER, BEYOND = "budget_left_after", "beyond_budget"  # of a question's evidence


@dataclass(frozen=True, kw_only=True)
class Room:
    """How much a deal may come to: `left` in its campaign's `budget` beside every other deal that is not
    lost, in the deal's currency; `of` names the campaign."""

    left: Decimal
    of: str
    budget: Decimal


RoomFor = Callable[[Deal], Room | None]
_rooms: list[RoomFor] = []


def room_register(room_for: RoomFor) -> None:
    """Let the storey that knows budgets say how much room a deal has; None: it knows of no bound."""
    if room_for not in _rooms:
        _rooms.append(room_for)


def is_bounded(deal: Deal) -> bool:
    """Whether anybody knows how much a deal may come to."""
    return next(_rooms_of(deal), None) is not None


def room_problem(deal: Deal, total: Decimal, *, before: Decimal) -> str:
    """Why a deal may not come to `total`; empty where it may, or nobody knows a bound. `before`: what counts
    for it already; no more than that always has room."""
    if total <= before:
        return ""
    full = (room for room in _rooms_of(deal) if total > room.left)
    return next((_too_much(deal, total, room) for room in full), "")


def room_take(deal: Deal, total: Decimal, *, before: Decimal) -> None:
    """The same where people let it go: two deals of one campaign follow one another, until the commit. Raises
    DecisionRefusedError."""
    if total > before and deal.campaign_id is not None:
        lock_budget(deal.campaign_id)
    why = room_problem(deal, total, before=before)
    if why:
        raise DecisionRefusedError("limits", why)


@lines_read_once
def change_comes_to(deal: Deal, request: Mapping[str, Any]) -> dict[str, Decimal]:
    """What a change (update_media_buy's arguments) brings a media buy to, and what counts for it without."""
    return {"total": amount_after(deal, request), "before": amount_after(deal, {})}


def budget_after(deal: Deal, total: Decimal) -> dict[str, Any]:
    """What is left in its campaign's budget once a deal comes to `total` beside what the others commit, as
    evidence; where that is beyond it, by how much too, in words. For what runs already: nothing is refused by
    it. Empty where nobody knows a budget."""
    room = next(_rooms_of(deal), None)
    if room is None:
        return {}
    left = room.budget - committed_beside(deal) - total
    beyond = f"{money.floor_to_unit(-left, deal.currency)} {deal.currency} beyond the budget of {room.of}"
    return {LEFT_AFTER: left, **({BEYOND: beyond} if left < 0 else {})}


def _too_much(deal: Deal, total: Decimal, room: Room) -> str:
    wanted, left = (money.floor_to_unit(one, deal.currency) for one in (total, max(room.left, NOTHING)))
    return f"{wanted} {deal.currency} are more than the {left} that are left in {room.of}."


def _rooms_of(deal: Deal) -> Iterator[Room]:
    return (room for room_for in _rooms if (room := room_for(deal)) is not None)


def lock_budget(campaign_id: uuid.UUID) -> None:
    """Make decisions that spend a campaign's budget follow one another, until the caller's commit.

    No row is locked: others lock the campaign before its approvals, which a decision has locked already.
    """
    with connection.cursor() as cursor:
        cursor.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"amend:{campaign_id}"])
