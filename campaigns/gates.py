"""The ceiling, as a risk gate: a purchase, a change or an answer that is had again must still fit its
campaign's budget."""

from __future__ import annotations

from campaigns.models import Campaign
from orders.answering import order_comes_to
from orders.committed import committed_beside
from tasks_app.commands.gates import Gate, gate_register
from tasks_app.commands.models import Command

CEILING = "ceiling"


def register() -> None:
    """Called when the application starts."""
    gate_register(Gate(name=CEILING, label="Budget ceiling", why_closed=why_closed))


def why_closed(command: Command) -> str:
    """Why what is to leave no longer fits; empty where it does, or no campaign's budget bounds it. What
    makes nothing dearer, a cut or a pause, always fits."""
    deal, comes_to, without = order_comes_to(command)
    if deal is None or deal.campaign_id is None or comes_to <= without:
        return ""
    campaign = Campaign.objects.get(pk=deal.campaign_id)
    if campaign.budget is None:
        return ""
    would_be = committed_beside(deal) + comes_to
    if would_be <= campaign.budget:
        return ""
    return (
        f"{campaign.reference} would come to {would_be:f} {campaign.currency}, "
        f"above its budget of {campaign.budget:f}"
    )
