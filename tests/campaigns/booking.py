"""A campaign whose deals are put forward, decided on and bought."""

from __future__ import annotations

from typing import Any

from campaigns.models import Campaign
from campaigns.services import campaign_submit
from orders.models import Deal
from orders.questions import DEAL
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.presenters import effects_of
from tasks_app.approvals.services import approval_decide
from tasks_app.desk.explain import Explanation, explain
from tasks_app.jobs.worker import drain
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tests.campaigns.briefs import brief
from tests.factories import make_account, make_advertiser, make_seller, make_user
from tests.operations.making import observed
from tests.orders import late as buying

CHANNELS = ("display", "ctv")


def put_forward(**said: Any) -> Campaign:
    """A campaign whose two sellers offered a product each; people are asked about both deals."""
    advertiser = make_advertiser("Lindqvist Coffee")
    for channel in CHANNELS:
        make_account(advertiser, make_seller(channel))
    campaign = campaign_submit(
        user=make_user("Buyer"), raw=brief(brand_domain=advertiser.brand_domain, **said)
    )
    assert campaign.problems == []
    drain()
    for asked in Operation.objects.filter(task_type="get_products").select_related("seller"):
        _offered(asked, asked.seller.name)
    drain()
    return campaign


def _offered(asked: Operation, channel: str) -> None:
    option = {"pricing_option_id": "o", "pricing_model": "cpm", "currency": "USD", "fixed_price": 10}
    product = {
        "product_id": channel,
        "name": channel,
        "delivery_type": "guaranteed",
        "channels": [channel],
        "pricing_options": [option],
    }
    claim_one(operation_id=asked.pk)
    seen = Seen(kind="answer", status="completed", payload={"products": [product]})
    observed(operation_id=asked.pk, seen=seen, channel="reply")
    publish(operation_id=asked.pk)


def deal_of(campaign: Campaign, channel: str) -> Deal:
    return Deal.objects.get(campaign_id=campaign.pk, seller__name=channel)


def decide(deal: Deal, verdict: str = "approve") -> None:
    asked = Approval.objects.get(kind=DEAL, subject_id=deal.pk, status=ApprovalStatus.OPEN)
    for _ in range(asked.quorum if verdict == "approve" else 1):
        approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict=verdict, comment="So.")
    drain()


def purchase(deal: Deal) -> Operation | None:
    return Operation.objects.filter(task_type="create_media_buy", subject_id=deal.pk).first()


def booked_by_its_seller(deal: Deal) -> None:
    """The purchase is answered at once, and read back."""
    operation = purchase(deal)
    assert operation is not None
    buying.ended(operation, "completed", buying.bought(deal, f"buy-{deal.reference}"))
    drain()
    for read in Operation.objects.filter(task_type="get_media_buys", published_at=None):
        buying.ended(read, "completed", {"media_buys": []})
    drain()


def effect(deal: Deal) -> str:
    """What approving the open question about it is said to do."""
    return effects_of(Approval.objects.get(kind=DEAL, subject_id=deal.pk))["approve"]


def status(campaign: Campaign) -> str:
    campaign.refresh_from_db()
    return campaign.status


def said(campaign: Campaign) -> Explanation:
    return explain(campaign.reference, make_user("Administrator"))


def sent(deal: Deal) -> Operation:
    operation = purchase(deal)
    assert operation is not None
    claim_one(operation_id=operation.pk)
    buying.say(operation, "submitted", channel="reply")
    return operation
