"""Every page of a seller's products is read, within bounds; what was not read is told."""

from __future__ import annotations

from typing import Any

import pytest

from campaigns.models import Campaign
from campaigns.presenters import left_out_words
from campaigns.services import campaign_job, campaign_submit
from tasks_app.adcp.types import Seen
from tasks_app.jobs.worker import drain
from tasks_app.operations import pages as list_pages
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tests.campaigns.briefs import brief
from tests.factories import make_account, make_advertiser, make_seller, make_user
from tests.operations.making import failed, observed

pytestmark = pytest.mark.django_db


def product(number: int) -> dict[str, Any]:
    option = {"pricing_option_id": "o", "pricing_model": "cpm", "currency": "USD", "fixed_price": 10}
    return {
        "product_id": f"p{number}",
        "name": f"p{number}",
        "channels": ["olv"],
        "pricing_options": [option],
    }


def page(number: int, **pagination: Any) -> Seen:
    told = {"products": [product(number)], **({"pagination": pagination} if pagination else {})}
    return Seen(kind="answer", status="completed", raw_status="completed", payload=told)


def researched(*answers: Seen) -> tuple[Campaign, list[Operation]]:
    """A campaign whose one seller answered so, page by page; and what it was asked."""
    advertiser, seller = make_advertiser("Lindqvist Coffee"), make_seller()
    make_account(advertiser, seller, "active")
    campaign = campaign_submit(user=make_user("Buyer"), raw=brief(brand_domain=advertiser.brand_domain))
    assert campaign.problems == []
    drain()
    for answer in answers:
        operation = Operation.objects.filter(task_type="get_products").latest("id")
        claim_one(operation_id=operation.pk)
        observed(operation_id=operation.pk, seen=answer, channel="reply")
        publish(operation_id=operation.pk)
        drain()
    campaign.refresh_from_db()
    return campaign, list(Operation.objects.filter(task_type="get_products").order_by("id"))


def outputs(campaign: Campaign) -> dict[str, Any]:
    job = campaign_job(campaign)
    assert job is not None
    found: dict[str, Any] = job.steps.get(key="research").outputs["results"][0]
    return found


def test_every_page_is_asked_for_and_offered() -> None:
    last = page(3, has_more=False)
    campaign, asked = researched(page(1, has_more=True, cursor="a"), page(2, has_more=True, cursor="b"), last)
    assert [one.request.get("pagination") for one in asked] == [None, {"cursor": "a"}, {"cursor": "b"}]
    assert (outputs(campaign)["products"], outputs(campaign)["error"]) == (3, "")
    assert len(outputs(campaign)["pages"]) == 3


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (failed("SERVICE_BROKEN"), "page 2 was not read: Norrland Digital says: “SERVICE_BROKEN!”"),
        (page(2, has_more=True, cursor="a"), "its pages go round in a circle"),
        (page(2, has_more=True), "the list says that there is more, and not where it goes on"),
        (page(2, has_more=True, cursor="b"), "it lists more than 2 pages"),
    ],
)
def test_what_was_read_is_offered_and_the_rest_told(
    second: Seen, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_pages, "MOST_PAGES", 2)
    campaign, asked = researched(page(1, has_more=True, cursor="a"), second)
    assert len(asked) == 2
    assert outputs(campaign)["products"] >= 1
    assert outputs(campaign)["error"] == ""
    assert ("Norrland Digital", why) in left_out_words(campaign)
