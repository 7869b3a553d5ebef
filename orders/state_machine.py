"""The deal's state machine as document 002 names it, and its stored twin.

`DealStateMachine` lives in memory over the declared lifecycle; `update_deal_status` moves a stored deal.
"""

from __future__ import annotations

import uuid

from orders.models import Deal
from orders.models import DealStatus as BuyerDealStatus
from tasks_app.lifecycle.errors import InvalidTransitionError, TransitionError, UnknownStatusError
from tasks_app.lifecycle.machine import (
    OrderAuditLog,
    OrderStateMachine,
    StateTransition,
    TransitionRule,
    UnknownLegacyStatusError,
)
from tasks_app.lifecycle.transitions import transition
from tasks_app.people.actors import SYSTEM, UnknownActorError

__all__ = [
    "DSP_FLOW_STATUSES",
    "BuyerDealStatus",
    "DealStateMachine",
    "InvalidTransitionError",
    "OrderAuditLog",
    "StateTransition",
    "TransitionRule",
    "UnknownLegacyStatusError",
    "UnknownStatusError",
    "from_dsp_flow_status",
    "update_deal_status",
]

# Document 002, "from_dsp_flow_status".
_DSP_FLOW = {
    "initialized": BuyerDealStatus.QUOTED,
    "request_received": BuyerDealStatus.QUOTED,
    "discovering_inventory": BuyerDealStatus.QUOTED,
    "evaluating_pricing": BuyerDealStatus.NEGOTIATING,
    "requesting_deal": BuyerDealStatus.BOOKING,
    "deal_created": BuyerDealStatus.BOOKED,
    "failed": BuyerDealStatus.FAILED,
}
DSP_FLOW_STATUSES = tuple(_DSP_FLOW)


class DealStateMachine(OrderStateMachine[BuyerDealStatus]):
    """A deal in memory; begins `quoted` unless told."""

    entity = "deal"
    statuses = BuyerDealStatus


def from_dsp_flow_status(value: str) -> BuyerDealStatus:
    """The deal status of a legacy DSPFlowStatus value. Raises UnknownLegacyStatusError, naming the known."""
    found = _DSP_FLOW.get(value) if isinstance(value, str) else None
    if found is None:
        raise UnknownLegacyStatusError("deal", value, DSP_FLOW_STATUSES)
    return found


def update_deal_status(
    deal_id: uuid.UUID | str, status: str, *, triggered_by: str = SYSTEM, notes: str = ""
) -> bool:
    """Move a stored deal; False where that is refused, and then nothing has changed (document 002).

    `triggered_by` is a typed actor (`system`, `human:<id>`, `agent:<id>`). Refused are also an unknown
    status or actor, a person without the right, a guard, and a deal that somebody else moved meanwhile.
    """
    deal = _stored(deal_id)
    if deal is None:
        return False
    try:
        transition(deal, status, actor=triggered_by, reason=notes)
    except (TransitionError, UnknownActorError):
        return False
    return True


def _stored(deal_id: uuid.UUID | str) -> Deal | None:
    try:
        key = deal_id if isinstance(deal_id, uuid.UUID) else uuid.UUID(deal_id)
    except ValueError:
        return None
    return Deal.objects.filter(pk=key).first()
