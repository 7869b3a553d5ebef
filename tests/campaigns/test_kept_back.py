"""What is in the way of a campaign's purchases, beside gates and people, and who clears it away."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tasks_app import clock
from tasks_app.sellers.models import Account, Seller, SellerBreaker
from tests.campaigns.test_booking import CHANNELS, deal_of, decide, put_forward, said
from tests.orders import late as buying

pytestmark = pytest.mark.django_db

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
