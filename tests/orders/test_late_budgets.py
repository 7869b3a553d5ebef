"""What a campaign's budget has left once a late purchase is kept is told whoever decides."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.test import Client
from django.urls import reverse

from campaigns.commitments import money_of
from orders.models import Deal
from orders.questions import LATE
from tasks_app.approvals.kinds import Fate, fate_of
from tasks_app.approvals.models import Approval
from tasks_app.approvals.presenters import effects_of
from tasks_app.approvals.services import DecisionRefusedError
from tests.factories import make_line, make_seller, make_user
from tests.orders.late import BUY, booking, bought, decide, fresh, give_up, overdue, say
from tests.orders.live import booked
from tests.orders.test_amounts import campaign_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("is_given_up", "budget", "left"),
    [(True, 20_499, -1), (True, 20_500, 0), (False, 20_500, 0), (False, 30_000, 9_500)],
)
def test_a_purchase_that_came_late_says_what_keeping_it_leaves_of_the_budget(
    client: Client, is_given_up: bool, budget: int, left: int
) -> None:
    """Another deal was bought in its place meanwhile. It runs: it may be kept, beyond the budget too."""
    campaign = campaign_of(budget)
    deal, operation = booking(make_seller(slots=9))
    Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign.pk)
    (give_up if is_given_up else overdue)(operation)
    booked(make_seller("Another"), media_buy_id="mb-2", campaign_id=campaign.pk)
    say(operation, "completed", bought(fresh(deal)))
    asked = Approval.objects.get(kind=LATE, status="open")
    assert Decimal(asked.evidence["budget_left_after"]) == left
    said = f"1.00 USD beyond the budget of {campaign.reference}"
    assert asked.evidence.get("beyond_budget") == (said if left < 0 else None)
    assert (said in effects_of(asked)["approve"]) == (left < 0)

    client.force_login(make_user("Approver", is_staff=True))
    page = client.get(reverse("admin:tasks_app_approval_change", args=[asked.pk]))
    assert page.context["left"] == left, "as on every other question's page"
    assert (said in page.content.decode()) == (left < 0)

    decide(LATE, "approve")
    assert money_of([campaign.pk])[campaign.pk].confirmed == budget - left


def test_a_late_purchase_that_is_beyond_the_budget_by_now_is_asked_about_as_that() -> None:
    campaign = campaign_of(20_000)
    deal, operation = booking(make_seller(slots=9))
    Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign.pk)
    give_up(operation)
    say(operation, "completed", bought(fresh(deal)))
    asked = Approval.objects.get(kind=LATE, status="open")
    small = make_line(budget=Decimal(5_000))
    booked(make_seller("Small"), line=small, media_buy_id="mb-2", campaign_id=campaign.pk)
    assert fate_of(asked) == Fate.STANDS, "there is less left, and enough"
    booked(make_seller("Another"), media_buy_id="mb-3", campaign_id=campaign.pk)
    with pytest.raises(DecisionRefusedError) as refused:
        decide(LATE, "approve")
    assert refused.value.code == "changed"
    decide(LATE, "approve")
    assert Deal.objects.filter(media_buy_id=BUY, status="booked").exists()


def test_a_late_purchase_without_a_campaign_says_nothing_of_a_budget() -> None:
    deal, operation = booking()
    give_up(operation)
    say(operation, "completed", bought(deal))
    evidence = Approval.objects.get(kind=LATE, status="open").evidence
    assert not {"budget_left_after", "beyond_budget"} & evidence.keys()
