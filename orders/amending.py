"""Approving a recommendation in part: which packages, and for how much, within the seller's minimums and the
campaign's budget. What is left out is not bought; the voided question's evidence keeps what was recommended.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.db import connection

from orders.models import UNDECIDED, Deal, DealLine
from orders.services import deal_locked, deal_total, purchase_purpose
from tasks_app import money
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.operations.models import Operation

_MAX_UNITS = Decimal(10) ** 18  # as many as a line holds


@dataclass(frozen=True, kw_only=True)
class Room:
    """How much a deal may come to: `left` in its campaign's budget beside every other deal that is not lost,
    in the deal's currency; `of` names the campaign."""

    left: Decimal
    of: str


RoomFor = Callable[[Deal], Room | None]
_rooms: list[RoomFor] = []


def room_register(room_for: RoomFor) -> None:
    """Let the storey that knows budgets say how much room a deal has; None: it knows of no bound."""
    if room_for not in _rooms:
        _rooms.append(room_for)


def deal_amend(approval: Approval, budgets: Mapping[int, Decimal]) -> bool:
    """Set budgets of an undecided deal's lines, by their number as shown (from 1), 0 leaves a line out, in
    the caller's transaction. Answers whether anything changed. Raises DecisionRefusedError."""
    deal = deal_locked(approval.subject_id)
    if deal.status not in UNDECIDED:
        raise DecisionRefusedError("impossible", f"{deal.reference} is {deal.status}.")
    if Operation.objects.filter(purpose=purchase_purpose(deal)).exists():
        said = (
            "The integrator's own request is bought as it is, or not at all: reject it and say what would do."
        )
        raise DecisionRefusedError("impossible", said)
    lines = list(deal.lines.all())
    _check_numbers(budgets, len(lines))
    wanted = {line: budgets.get(number, line.budget) for number, line in enumerate(lines, start=1)}
    changed = {line: budget for line, budget in wanted.items() if budget != line.budget}
    if not changed:
        return False
    if not any(wanted.values()):  # every one is 0
        raise DecisionRefusedError("limits", "Nothing would be bought: reject it.")
    for line, budget in changed.items():
        _check_line(line, budget, deal.currency)
    _check_room(deal, sum(wanted.values(), Decimal(0)))
    for line, budget in changed.items():
        _write(line, budget)
    return True


def _check_numbers(budgets: Mapping[int, Decimal], count: int) -> None:
    unknown = sorted(number for number in budgets if not 1 <= number <= count)
    if unknown:
        raise DecisionRefusedError("limits", f"There is no line {unknown[0]}.")


def _check_line(line: DealLine, budget: Decimal, currency: str) -> None:
    if budget == 0:
        return
    name = line.product_name
    if not budget.is_finite() or budget < 0:
        raise DecisionRefusedError("limits", f"{name}: a budget is above zero, or 0 to leave it out.")
    if budget != money.floor_to_unit(budget, currency):
        raise DecisionRefusedError("limits", f"{name}: finer than the smallest unit of {currency}.")
    if line.pricing_model == "flat_rate":
        raise DecisionRefusedError("limits", f"{name} has a flat rate: it is bought whole, or left out.")
    least = max(line.minimum or Decimal(0), line.rate or Decimal(0))
    if budget < least:
        least_text = money.floor_to_unit(least, currency)
        raise DecisionRefusedError("limits", f"{name}: at least {least_text} {currency} are needed.")


def _check_room(deal: Deal, total: Decimal) -> None:
    """Less is always within; more only where a budget is known that holds it."""
    before = deal_total(deal)
    if total <= before:
        return
    if deal.campaign_id is not None:
        _one_at_a_time(deal.campaign_id)
    rooms = [room for room_for in _rooms if (room := room_for(deal)) is not None]
    if not rooms:
        raise DecisionRefusedError("limits", f"At most {before} {deal.currency}, as recommended.")
    for room in rooms:
        if total > room.left:
            said = f"{total} {deal.currency} are more than the {room.left} that are left in {room.of}."
            raise DecisionRefusedError("limits", said)


def _one_at_a_time(campaign_id: uuid.UUID) -> None:
    """Two who raise deals of one campaign at once follow one another, until the commit. No row is locked for
    it: others take the campaign's before those of its approvals, which a decision holds already."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"amend:{campaign_id}"])


def _write(line: DealLine, budget: Decimal) -> None:
    if budget == 0:
        line.delete()
        return
    if line.units is not None:
        units = line.units * budget / line.budget
        line.units = units.quantize(Decimal("0.1")) if units < _MAX_UNITS else None
    line.budget = budget
    line.save(update_fields=["budget", "units"])
