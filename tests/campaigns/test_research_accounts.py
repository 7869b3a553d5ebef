"""Research under an account that the seller reviews, refused, or names by an id that it does not know; and
with a seller that does not promise what the brief needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from campaigns.models import Campaign, CampaignStatus
from campaigns.presenters import left_out_words
from campaigns.services import campaign_job, campaign_submit
from orders.models import DealLine
from tasks_app.adcp.types import Seen, WireError
from tasks_app.jobs.retrying import job_retry
from tasks_app.jobs.worker import drain
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tasks_app.sellers.models import Account, Seller
from tests.campaigns.briefs import brief
from tests.factories import make_account, make_advertiser, make_seller, make_user
from tests.operations.making import observed

pytestmark = pytest.mark.django_db
_TOOLS = ["get_products", "create_media_buy", "sync_accounts"]


def researched(status: str, *, regions: Sequence[str] = (), declared: Any = None, **account: Any) -> Campaign:
    """A campaign that has asked its one seller as far as the state of its account allows."""
    advertiser, seller = make_advertiser("Lindqvist Coffee"), make_seller()
    seller.capabilities = {"media_buy": {"execution": {"targeting": {"geo_regions": declared}}}}
    seller.save()
    make_account(advertiser, seller, status)
    Account.objects.update(**account)
    raw = brief(brand_domain=advertiser.brand_domain, geography__regions=[*regions])
    campaign = campaign_submit(user=make_user("Buyer"), raw=raw)
    assert campaign.problems == []
    drain()
    return campaign


def asked_with() -> list[Any]:
    rows = Operation.objects.filter(task_type="get_products").order_by("id")
    return [operation.request.get("account") for operation in rows]


@pytest.mark.parametrize("status", ["active", "payment_required"])
def test_products_are_asked_for_under_an_account_that_allows_it(status: str) -> None:
    researched(status)
    assert asked_with() == [{"account_id": "acc-norrland-digital"}]


@pytest.mark.parametrize("status", ["pending_approval", "suspended"])
def test_products_are_asked_for_without_an_account_that_is_under_review(status: str) -> None:
    researched(status)
    assert asked_with() == [None]


@pytest.mark.parametrize("status", ["rejected", "closed"])
def test_nothing_is_researched_under_an_account_that_the_seller_ended(status: str) -> None:
    campaign = researched(
        status, said={"errors": [{"code": "X", "message": "No.", "field": "", "suggestion": ""}]}
    )
    campaign.refresh_from_db()
    job = campaign_job(campaign)
    assert asked_with() == []
    assert campaign.status == CampaignStatus.FAILED
    assert job is not None
    assert f"the account with Norrland Digital is {status}: No." in job.error
    assert left_out_words(campaign) == [
        ("Norrland Digital", f"the account with Norrland Digital is {status}: No.")
    ]


def test_a_seller_that_refuses_its_own_id_is_asked_by_brand_and_operator_once() -> None:
    researched("active")
    for _ in range(2):
        operation = Operation.objects.filter(task_type="get_products").latest("id")
        claim_one(operation_id=operation.pk)
        error = WireError(code="ACCOUNT_NOT_FOUND", message="Which account?", recovery="correctable")
        seen = Seen(kind="answer", status="failed", raw_status="failed", error=error)
        observed(operation_id=operation.pk, seen=seen, channel="reply")
        publish(operation_id=operation.pk)
        drain()

    first, second = asked_with()
    assert first == {"account_id": "acc-norrland-digital"}
    assert second["brand"] == {"domain": "lindqvist-coffee.com"}


def said(task_type: str, status: str, body: dict[str, Any]) -> None:
    """The seller answers what it was asked last."""
    operation = Operation.objects.filter(task_type=task_type).latest("id")
    claim_one(operation_id=operation.pk)
    seen = Seen(kind="answer", status=status, raw_status=status, payload=body)
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    publish(operation_id=operation.pk)
    drain()


def test_a_seller_that_is_new_in_a_retry_opens_the_account_of_no_other() -> None:
    """The one that was asked first opened one and is switched off now: another stands in its place."""
    advertiser, first = make_advertiser("Lindqvist Coffee"), make_seller("First", tools=_TOOLS)
    campaign = campaign_submit(user=make_user("Buyer"), raw=brief(brand_domain=advertiser.brand_domain))
    drain()
    said("sync_accounts", "completed", {"accounts": []})
    said("get_products", "completed", {"products": []})
    old = campaign_job(campaign)
    assert old is not None
    assert old.status == "FAILED"
    Seller.objects.filter(pk=first.pk).update(active=False)
    second = make_seller("Second", tools=_TOOLS)
    job_retry(job_id=old.pk, actor=make_user("Ad Ops"), reason="another seller", from_step="allocate")
    drain()
    opened = Operation.objects.filter(task_type="sync_accounts").order_by("id")
    assert list(opened.values_list("seller", flat=True)) == [first.pk, second.pk]


US = {"countries": {"US": {"values": ["US-IL"]}, "CA": {"all_values": True}}}


@pytest.mark.parametrize(("declared", "beyond"), [
    (True, ""),
    (US, "US-WI"),
    ({"countries": {"US": {"all_values": True}}}, ""),
    ({"countries": {"US": {"all_values": True}}, "max_values_per_package": 2}, ""),
    ({"countries": {"US": {"all_values": True}}, "max_values_per_package": 1}, "US-WI"),
    ({"countries": {"US": {"all_values": True}}, "max_values_per_package": 0}, "US-IL, US-WI"),
    ({"countries": {"US": {"all_values": "yes"}}}, "US-IL, US-WI"),
    ({"countries": {"US": {"values": "US-IL, US-WI"}}}, "US-IL, US-WI"),
    (False, "US-IL, US-WI"),
    ("true", "US-IL, US-WI"),
    (None, "US-IL, US-WI"),
    ([], "US-IL, US-WI"),
])  # fmt: skip
def test_a_seller_that_promises_to_honour_no_regions_is_not_asked(declared: Any, beyond: str) -> None:
    """It might deliver everywhere, and say nothing."""
    campaign = researched("active", regions=["US-IL", "US-WI"], declared=declared)
    assert len(asked_with()) == (0 if beyond else 1)
    campaign.refresh_from_db()
    why = f"Norrland Digital does not declare that it targets {beyond}"
    assert left_out_words(campaign) == ([("Norrland Digital", why)] if beyond else [])


@pytest.mark.parametrize("withdrawn", [False, True])
def test_what_a_seller_offered_and_cuts_to_no_regions_by_now_is_not_put_forward(withdrawn: bool) -> None:
    """It was asked while it promised to, or by a version that did not ask for them."""
    campaign = researched("active", regions=["US-IL"], declared=True)
    option = {"pricing_option_id": "cpm", "pricing_model": "cpm", "currency": "USD", "fixed_price": 10}
    product = {"product_id": "p", "name": "p", "channels": ["ctv"], "pricing_options": [option]}
    operation = Operation.objects.get(task_type="get_products")
    claim_one(operation_id=operation.pk)
    seen = Seen(kind="answer", status="completed", raw_status="completed", payload={"products": [product]})
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    publish(operation_id=operation.pk)
    drain(1)  # it is read
    if withdrawn:
        Seller.objects.update(capabilities={})
    drain()
    campaign.refresh_from_db()
    bought = [line.targeting for line in DealLine.objects.all()]
    assert bought == ([] if withdrawn else [{"geo_regions": ["US-IL"]}])
    why = ("Norrland Digital", "Norrland Digital does not declare that it targets US-IL")
    assert (why in left_out_words(campaign)) is withdrawn
