"""Campaigns within a user's scope, and the words by which people call them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from django.db.models import QuerySet
from pydantic import Field

from campaigns.models import Campaign
from orders.models import Deal
from tasks_app.assistant.tools.facts import MOST_ROWS
from tasks_app.assistant.tools.objects import find_by_reference, links_to, visible_rows
from tasks_app.assistant.tools.registry import Arguments, Link
from tasks_app.people.models import User

VIEW_CAMPAIGN = "campaigns.view_campaign"
_MOST = 500


class CampaignArguments(Arguments):
    """Arguments of a question about one campaign."""

    campaign: str = Field(min_length=1, description="Reference of the campaign, such as CMP-2026-4.")


def visible_campaigns(user: User) -> QuerySet[Campaign]:
    """Return the campaigns that the user may see, newest first."""
    rows: QuerySet[Campaign] = visible_rows("campaign", user)
    return rows.select_related("advertiser").order_by("-pk")


def find_campaign(user: User, reference: str) -> Campaign:
    """Return the campaign with that reference. Raise ToolRefusedError if the user may see none."""
    campaign: Campaign = find_by_reference("campaign", reference, visible_campaigns(user))
    return campaign


def campaign_names(user: User) -> Iterable[tuple[uuid.UUID, str, tuple[str, ...]]]:
    """Return id, reference and words of the newest 500 campaigns that the user may see."""
    columns = ("pk", "reference", "name", "advertiser__name")
    return [
        (pk, reference, tuple(word for word in (reference, name, advertiser) if word))
        for pk, reference, name, advertiser in visible_campaigns(user).values_list(*columns)[:_MOST]
    ]


def campaign_links(campaign: Campaign, deals: Sequence[Deal], user: User) -> list[Link]:
    """Return links to a campaign, to its first deals and to their sellers."""
    shown = deals[:MOST_ROWS]
    sellers = [deal.seller for deal in shown]
    return [
        *links_to("campaign", [campaign], user),
        *links_to("deal", shown, user),
        *links_to("seller", sellers, user),
    ]
