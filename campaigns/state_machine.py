"""The campaign's state machine as document 002 names it, in memory over the declared lifecycle."""

from __future__ import annotations

from campaigns.models import CampaignStatus as BuyerCampaignStatus
from tasks_app.lifecycle.errors import InvalidTransitionError, UnknownStatusError
from tasks_app.lifecycle.machine import (
    OrderAuditLog,
    OrderStateMachine,
    StateTransition,
    TransitionRule,
    UnknownLegacyStatusError,
)

__all__ = [
    "BuyerCampaignStatus",
    "CampaignStateMachine",
    "InvalidTransitionError",
    "OrderAuditLog",
    "StateTransition",
    "TransitionRule",
    "UnknownLegacyStatusError",
    "UnknownStatusError",
    "from_execution_status",
]


class CampaignStateMachine(OrderStateMachine[BuyerCampaignStatus]):
    """A campaign in memory; begins `initialized` unless told."""

    entity = "campaign"
    statuses = BuyerCampaignStatus


def from_execution_status(value: str) -> BuyerCampaignStatus:
    """The campaign status of a legacy ExecutionStatus value, which has the same name (document 002).

    Raises UnknownLegacyStatusError, naming the known.
    """
    try:
        return BuyerCampaignStatus(value)
    except ValueError:
        raise UnknownLegacyStatusError("campaign", value, tuple(BuyerCampaignStatus.values)) from None
