"""What is in the way of a campaign's purchases, beside gates and people, and who clears it away."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from campaigns.models import Campaign
from orders.models import Deal
from tasks_app import clock
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import SELLER_ASIDE, Account, Seller, SellerBreaker
from tests.campaigns.booking import CHANNELS, deal_of, decide, put_forward, said
from tests.factories import make_user
from tests.operations.making import answer, give_back, not_sent, observed
from tests.orders import late as buying
from tests.ui.pages import page_of, read

pytestmark = [pytest.mark.deep, pytest.mark.django_db]

KEPT_BACK: dict[str, tuple[str, str]] = {
    "off": ("is switched off.", "switch the seller on, on its page"),
    "risk": ("declares no idempotency", "accept the risk of a seller that replays no key, on its page"),
    "alone": ("failed too often in a row and is left alone until", "answers when it is tried again"),
}


@pytest.mark.parametrize("booking", [False, True], ids=["accepted", "booking"])
@pytest.mark.parametrize("what", KEPT_BACK)
def test_a_campaign_says_what_is_in_the_way_of_a_purchase(what: str, booking: bool) -> None:
    campaign = put_forward()
    first, second = (deal_of(campaign, channel) for channel in CHANNELS)
    if booking:
        decide(first)
    else:
        Account.objects.filter(pk=first.account_id).update(status="suspended")
        decide(first)
        Account.objects.filter(pk=first.account_id).update(status="active")
    decide(second, "reject")
    assert said(campaign).waiting_for == "1 deal is sent next."
    assert buying.fresh(first).status == ("booking" if booking else "accepted")
    if what == "alone":
        soon = clock.now() + timedelta(minutes=5)
        SellerBreaker.objects.create(seller=first.seller, state="open", failures=5, probe_at=soon)
    else:
        changed = {"active": False} if what == "off" else {"idempotency_ttl_s": None}
        Seller.objects.filter(pk=first.seller_id).update(**changed)

    told, (why, clears) = said(campaign), KEPT_BACK[what]
    assert told.waiting_for.startswith(f"1 deal is not sent: {first.seller.name} {why}")
    does = " ".join(one.does for one in told.who)
    assert clears in does
    assert "sends what is approved" not in does


@pytest.mark.parametrize(("status", "waits"), [("suspended", True), ("closed", False)])
def test_a_campaign_tells_of_an_account_that_ended_since_its_purchase_was_asked_for(
    status: str, waits: bool
) -> None:
    campaign = put_forward()
    first, second = (deal_of(campaign, channel) for channel in CHANNELS)
    decide(first)
    decide(second, "reject")
    Account.objects.filter(pk=first.account_id).update(status=status)
    ends = "1 deal cannot be bought under its account and ends next."
    awaits = "1 deal waits for an account that is not active yet."
    assert said(campaign).waiting_for == (awaits if waits else ends)


def page_says(campaign: Campaign) -> str:
    client = Client()
    client.force_login(
        make_user("Administrator", is_staff=True), backend="tasks_app.people.holders.RoleBackend"
    )
    return read(client, page_of(campaign))


def one_approved(status: str = "active") -> tuple[Campaign, Deal]:
    """A campaign of two deals: one is rejected, the other approved while its account stands so."""
    campaign = put_forward()
    first, second = (deal_of(campaign, channel) for channel in CHANNELS)
    Account.objects.filter(pk=first.account_id).update(status=status)
    decide(first)
    decide(second, "reject")
    return campaign, buying.fresh(first)


@pytest.mark.parametrize("status", ["suspended", "pending_approval"])
def test_its_page_says_what_a_campaign_waits_for_that_nobody_is_asked_about(status: str) -> None:
    campaign, _ = one_approved(status)
    page = page_says(campaign)
    assert "1 deal waits for an account that is not active yet" in page
    assert "What waits for its account waits on" in page
    assert "within seconds" not in page
    Account.objects.update(status="active")
    assert "within seconds" in page_says(campaign)


def test_a_purchase_that_reached_nobody_is_one_that_is_to_be_sent() -> None:
    campaign, deal = one_approved()
    operation = Operation.objects.get(subject_id=deal.pk, task_type="create_media_buy")
    assert claim_one(operation_id=operation.pk) is not None
    assert said(campaign).waiting_for == "It waits for sellers to confirm 1 deal."
    observed(operation_id=operation.pk, seen=not_sent(), channel="reply")
    give_back(operation.pk)
    assert said(campaign).waiting_for == "1 deal is sent next."
    Seller.objects.filter(pk=deal.seller_id).update(active=False)
    assert "is switched off" in said(campaign).waiting_for
    Seller.objects.filter(pk=deal.seller_id).update(active=True)
    Account.objects.filter(pk=deal.account_id).update(status="closed")
    assert said(campaign).waiting_for == "1 deal cannot be bought under its account and ends next."


@pytest.mark.parametrize("stopped", [False, True])
def test_of_a_flight_under_an_account_that_has_ended_nobody_is_asked(stopped: bool) -> None:
    campaign, deal = one_approved()
    Account.objects.filter(pk=deal.account_id).update(status="closed")
    if stopped:
        kill_switch_set(on=True, reason="A drill", actor="system")
    with clock.injected(lambda: deal.start_at + timedelta(minutes=1)):
        told = said(campaign).waiting_for
    assert "begun" not in told
    assert "is closed" in told if stopped else "cannot be bought under its account" in told


@pytest.mark.parametrize("stopped", [False, True])
def test_a_campaign_tells_of_credentials_that_a_seller_wants(stopped: bool) -> None:
    campaign, deal = one_approved()
    operation = Operation.objects.get(subject_id=deal.pk, task_type="create_media_buy")
    assert claim_one(operation_id=operation.pk) is not None
    observed(operation_id=operation.pk, seen=answer("auth-required"), channel="reply")
    give_back(operation.pk)
    if stopped:
        kill_switch_set(on=True, reason="A drill", actor="system")
    told = said(campaign)
    assert f"{deal.seller.name} wants other credentials." in told.waiting_for
    assert "sent next" not in told.waiting_for
    assert "give the seller's page new credentials" in " ".join(one.does for one in told.who)


def test_a_campaign_is_explained_without_what_its_sellers_keep_secret() -> None:
    campaign, _ = one_approved()
    with CaptureQueriesContext(connection) as asked:
        said(campaign)
    read = " ".join(one["sql"] for one in asked if 'FROM "orders_deal"' in one["sql"])
    assert '."probe_at"' in read
    for column in SELLER_ASIDE:
        assert f'."{column}"' not in read


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize("what", ["off", "suspended", "closed"])
def test_what_the_switch_keeps_and_something_else_too_is_said_to_be_kept_by_both(
    what: str, swept: bool
) -> None:
    campaign, deal = one_approved()
    kill_switch_set(on=True, reason="A drill", actor="system")
    if swept:
        claim_sends(limit=10)
    if what == "off":
        Seller.objects.filter(pk=deal.seller_id).update(active=False)
    else:
        Account.objects.filter(pk=deal.account_id).update(status=what)
    told = said(campaign)
    assert "Of these 1 would not be sent otherwise either: " in told.waiting_for
    assert ("is switched off" if what == "off" else f"is {what}") in told.waiting_for
    does = " ".join(one.does for one in told.who)
    assert "then what nothing else keeps is sent" in does
    clears = {"off": "switch the seller on", "suspended": "make the account active", "closed": ""}[what]
    assert clears in does


@pytest.mark.parametrize("kept", ["out", "ready", "account", "off", "stopped"])
def test_what_happens_if_nobody_acts_is_said_of_what_there_is(kept: str) -> None:
    campaign, deal = one_approved("suspended" if kept == "account" else "active")
    if kept == "out":
        assert claim_one(operation_id=Operation.objects.get(subject_id=deal.pk).pk) is not None
    if kept == "off":
        Seller.objects.filter(pk=deal.seller_id).update(active=False)
    if kept == "stopped":
        kill_switch_set(on=True, reason="A drill", actor="system")
    told = said(campaign).otherwise
    assert ("people decide whether to wait on" in told) == (kept == "out")
    assert ("not sent by its deadline" in told) == (kept in ("ready", "off"))
    assert ("waits for its account waits on" in told) == (kept == "account")
    assert ("while it is stopped" in told) == (kept == "stopped")
