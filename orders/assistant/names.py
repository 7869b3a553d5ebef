"""Words by which people call deals."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable

from orders.assistant.channels import CHANNEL_WORDS
from orders.models import DealLine
from tasks_app.assistant.tools.objects import visible_names, visible_rows
from tasks_app.people.models import User

_MOST = 500


def deal_names(user: User) -> Iterable[tuple[uuid.UUID, str, tuple[str, ...]]]:
    """Return id, reference and words of the newest 500 deals that the user may see."""
    columns = ("pk", "reference", "seller__name", "advertiser__name", "campaign_id")
    rows = list(visible_rows("deal", user).order_by("-pk").values_list(*columns)[:_MOST])
    campaigns = visible_names("campaign", {row[-1] for row in rows if row[-1]}, user)
    channels = _channel_words([row[0] for row in rows])
    found = []
    for pk, reference, seller, advertiser, campaign in rows:
        title = str(campaigns[campaign]) if campaign in campaigns else ""
        words = (reference, seller, title, advertiser, *channels[pk])
        found.append((pk, reference, tuple(dict.fromkeys(word for word in words if word))))
    return found


def _channel_words(deals: Collection[uuid.UUID]) -> defaultdict[uuid.UUID, list[str]]:
    lines = DealLine.objects.order_by("position").filter(deal__in=deals).values_list("deal_id", "channel")
    found: defaultdict[uuid.UUID, list[str]] = defaultdict(list)
    for deal, channel in lines:
        found[deal].extend(CHANNEL_WORDS.get(channel, ()))
    return found
