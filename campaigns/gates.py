"""The ceiling, as a risk gate: a repeated purchase must still fit its campaign's budget."""

from __future__ import annotations

from campaigns.models import Campaign
from orders.commitments import committed_beside, deal_amount
from orders.models import Deal
from tasks_app.commands.gates import Gate, gate_register
from tasks_app.commands.models import Command
from tasks_app.operations.ordering import CHANGE, PLACE

CEILING = "ceiling"


def register() -> None:
    """Called when the application starts."""
    gate_register(Gate(name=CEILING, label="Budget ceiling", why_closed=why_closed))


def why_closed(command: Command) -> str:
    """Why a purchase or a change no longer fits; empty where it does, or no campaign's budget bounds it."""
    if command.kind not in (PLACE, CHANGE) or command.subject_type != "deal":
        return ""
    deal = Deal.objects.filter(pk=command.subject_id).first() if command.subject_id else None
    if deal is None or deal.campaign_id is None:
        return ""
    campaign = Campaign.objects.get(pk=deal.campaign_id)
    if campaign.budget is None:
        return ""
    change = command.payload.get("arguments") if command.kind == CHANGE else None
    would_be = committed_beside(deal) + deal_amount(deal.pk, change)
    if would_be <= campaign.budget:
        return ""
    return (
        f"{campaign.reference} would come to {would_be:f} {campaign.currency}, "
        f"above its budget of {campaign.budget:f}"
    )
