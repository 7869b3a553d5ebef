"""Fills the database of the pages bench; prints as JSON what the bench asks for.

10,000 campaigns of ten deals. Most have failed with all deals expired; the deals of the others wait for a
decision.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from bench import data, server

if TYPE_CHECKING:
    from campaigns.models import Campaign
    from tasks_app.people.models import Advertiser

_CAMPAIGNS, _SELLERS, _OPEN = 10_000, 10, 500
_STATUSES = ("brief_received", "budget_allocated", "researching", "awaiting_approval")
_QUOTED = 20  # references that are searched for


def main(decisions: int) -> None:
    """Fill it, with so many decisions to be made."""
    from django.db import transaction

    from campaigns.models import Campaign
    from orders.models import Deal
    from orders.questions import ask_deal
    from tasks_app.approvals.models import Approval
    from tasks_app.lifecycle.transitions import transition_many

    advertiser = data.create_advertiser()
    sellers = [data.create_seller(f"seller-{number}") for number in range(_SELLERS)]
    campaigns = _campaigns(advertiser)
    ids = [campaign.pk for campaign in campaigns]
    over, waiting = ids[: -_OPEN // _SELLERS], ids[-_OPEN // _SELLERS :]
    for number, seller in enumerate(sellers):
        account = data.create_account(advertiser, seller)
        data.create_deals(account, len(ids), prefix=f"B{number}", campaign_id=ids)
        transition_many(Deal.objects.filter(seller=seller, campaign_id__in=over), "expired", actor="system")
    transition_many(Campaign.objects.filter(pk__in=over), "failed", actor="system")
    for deal in Deal.objects.filter(campaign_id__in=waiting).order_by("pk"):
        with transaction.atomic():
            ask_deal(deal)
    _, session = data.create_person(advertiser.team, "Approver")
    asked = Approval.objects.order_by("-pk").values_list("pk", flat=True)[:decisions]
    results = {
        "session": session,
        "approvals": [str(pk) for pk in asked],
        "campaigns": [str(pk) for pk in (*ids[:10], *ids[-10:])],
        "references": list(Deal.objects.order_by("?").values_list("reference", flat=True)[:_QUOTED]),
    }
    print(json.dumps(results))


def _campaigns(advertiser: Advertiser) -> list[Campaign]:
    from django.utils import timezone

    from campaigns.models import Campaign
    from tasks_app.lifecycle.transitions import create_many, transition_many

    start = timezone.now() + timedelta(days=14)
    brief: dict[str, Any] = {
        "name": "Bench",
        "advertiser": advertiser.name,
        "brand_domain": advertiser.brand_domain,
        "objective": {"goal": "Reach of new customers", "kpi": "reach", "target": 1_200_000},
        "budget": {"total": "50000", "currency": "USD"},
        "flight": {
            "start": f"{start:%Y-%m-%d}",
            "end": f"{start + timedelta(days=27):%Y-%m-%d}",
            "zone": "UTC",
        },
        "channels": [{"channel": "display", "weight": 10}],
        "geography": {"countries": ["US"]},
    }
    campaigns = [
        Campaign(
            reference=f"BENCH-{number}",
            team=advertiser.team,
            advertiser=advertiser,
            name=f"Campaign {number}",
            requested_by="system",
            brief=brief,
            budget=Decimal(50_000),
            currency="USD",
            start_at=start,
            end_at=start + timedelta(days=28),
            zone="UTC",
        )
        for number in range(_CAMPAIGNS)
    ]
    create_many(campaigns, actor="system", reason="A bench")
    for status in _STATUSES:
        transition_many(Campaign.objects.all(), status, actor="system")
    return campaigns


if __name__ == "__main__":
    server.django_setup()
    main(int(sys.argv[1]))
