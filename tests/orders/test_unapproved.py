"""What was adopted and nobody has approved yet is shown as that, and not as an approved amount of nothing."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from campaigns.today.cards import departures
from orders.api.serializers import DealSerializer
from orders.evidence import deal_evidence
from orders.models import Deal
from orders.unclaimed.adopt import media_buy_adopt
from tasks_app.approvals.models import Approval
from tests.factories import make_account, make_advertiser, make_seller, make_user
from tests.orders.late import decide

pytestmark = pytest.mark.django_db
NOBODY = "nobody has approved it yet"


def adopted() -> Deal:
    """A media buy that nobody here bought."""
    told = {
        "media_buy_id": "mb",
        "status": "active",
        "currency": "USD",
        "packages": [{"package_id": "p1", "product_id": "olv", "budget": 5000}],
        "start_time": "2030-01-01T00:00:00Z",
        "end_time": "2030-02-01T00:00:00Z",
    }
    account = make_account(make_advertiser(), make_seller())
    return media_buy_adopt(account=account, user=make_user("Ad Ops"), reason="x", told=told)


def page(url: str, pk: object) -> str:
    client = Client()
    client.force_login(make_user("Approver", is_staff=True))
    return client.get(reverse(url, args=[pk])).content.decode()


def test_the_question_shows_that_nobody_has_approved_it() -> None:
    adopted()
    asked = Approval.objects.get(kind="booked_differently", status="open")
    assert asked.evidence["gross"] is None
    shown = page("admin:tasks_app_approval_change", asked.pk)
    assert NOBODY in shown
    assert "0.00</span>" not in shown.replace("5,000.00</span>", "")


def test_the_deal_shows_it_too_until_it_is_accepted() -> None:
    deal = adopted()
    shown = page("admin:orders_deal_change", deal.pk)
    assert NOBODY in shown.lower()
    assert ">0.00<" not in shown
    decide("booked_differently", "approve")
    assert NOBODY not in page("admin:orders_deal_change", deal.pk).lower()


def test_lists_and_the_api_show_no_amount() -> None:
    deal = adopted()
    (listed,) = departures(make_user("Approver"))
    assert (listed.approved, listed.confirmed) == (None, 5000)
    assert DealSerializer(deal).data["gross"] is None
    decide("booked_differently", "approve")
    accepted = Deal.objects.get()
    assert DealSerializer(accepted).data["gross"] == "5000.0000"
    assert deal_evidence(accepted)["gross"] == "5000.0000"
