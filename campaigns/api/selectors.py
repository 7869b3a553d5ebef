"""What the API reads of campaigns. Every selector takes the viewer."""

from __future__ import annotations

from django.db.models import QuerySet

from campaigns.models import Campaign
from tasks_app.people.models import User
from tasks_app.people.scope import visible


def campaigns_of(viewer: User) -> QuerySet[Campaign]:
    """Campaigns of the viewer's teams."""
    return visible(Campaign.objects.select_related("advertiser", "team"), viewer)
