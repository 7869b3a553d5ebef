"""Approving a recommendation in part: which packages, and for how much, within the seller's minimums and the
campaign's budget. What is left out is not bought; the voided question's evidence keeps what was recommended.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from orders.amounts import deal_amounts, units_at
from orders.models import UNDECIDED, Deal, DealLine
from orders.request_rules import FLAT_RATE, FLAT_WHOLE
from orders.rooms import is_bounded, room_take
from orders.services import deal_amended, deal_locked, purchase_purpose
from tasks_app import money
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.operations.models import Operation


def deal_amend(approval: Approval, budgets: Mapping[int, Decimal], actor: str) -> bool:
    """Set budgets of an undecided deal's lines, by their number as shown (from 1), 0 leaves a line out, in
    the caller's transaction, as an act of `actor`. Answers whether anything changed. Raises
    DecisionRefusedError."""
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
        set_budget(line, budget)
    deal_amended(
        deal,
        actor=actor,
        reason=f"Other amounts are approved: {approval.reference}",
        lines=[line for line in changed if line.budget],
        gone=[line for line in changed if not line.budget],
    )
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
    if line.pricing_model == FLAT_RATE:
        raise DecisionRefusedError("limits", f"{name} {FLAT_WHOLE}, or left out.")
    least = max(line.minimum or Decimal(0), line.rate or Decimal(0))
    if budget < least:
        least_text = money.floor_to_unit(least, currency)
        raise DecisionRefusedError("limits", f"{name}: at least {least_text} {currency} are needed.")


def _check_room(deal: Deal, total: Decimal) -> None:
    """Less is always within; more only where a budget is known that holds it."""
    before = deal_amounts(deal).approved
    if total > before and not is_bounded(deal):
        raise DecisionRefusedError("limits", f"At most {before} {deal.currency}, as recommended.")
    room_take(deal, total, before=before)


def set_budget(line: DealLine, budget: Decimal) -> None:
    """Set the budget of a line that is not saved yet, and the units that it buys."""
    if budget:
        line.units = units_at(line, budget)
    line.budget = budget
