"""A whole campaign over the limit: it is booked when two people have said yes, and not before."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from campaigns.models import CampaignStatus as C
from campaigns.services import campaign_submit
from orders.models import Deal
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.jobs.worker import drain
from tests.factories import make_advertiser, make_user
from tests.faults.conftest import Known, Passes
from tests.faults.test_campaign import BRIEF, Stage, sound


def test_a_campaign_over_the_limit_is_booked_by_two(
    known: Callable[..., Known], passes: Passes, settings: Any
) -> None:
    settings.STEP_LEASE_S = 3600
    passes.work = drain
    (well, _), (other, _) = known("Well"), known("Other", channel="olv")
    make_advertiser("Lindqvist Coffee")
    brief = {
        **BRIEF,
        "budget": {"total": 240_000, "currency": "USD"},
        "channels": ["display", {"channel": "olv", "fixed": 40_000}],
        "policy_categories": ["age_restricted"],
    }
    stage = Stage(well, other, campaign_submit(user=make_user("Buyer"), raw=brief), passes)
    stage.run(until=lambda: Approval.objects.count() == 2)
    large, small = Approval.objects.order_by("-amount")
    assert [(one.amount, one.quorum) for one in (large, small)] == [(200_000, 2), (40_000, 1)]
    assert Deal.objects.exclude(reasons__policy_categories=["age_restricted"]).count() == 0

    for asked in (large, small):
        stage.answer(asked, "approve")
    passes(3)
    large.refresh_from_db()
    assert (large.status, well.books()) == ("open", []), "one is not enough"

    stage.answer(large, "approve")
    stage.run(until=stage.ended)
    assert stage.campaign.status == C.COMPLETED
    assert [len(one.books()) for one in (well, other)] == [1, 1]
    assert large.decisions.values("actor").distinct().count() == 2
    sound()


def test_waiting_books_nothing(known: Callable[..., Known], passes: Passes, settings: Any) -> None:
    settings.STEP_LEASE_S = 10**6
    passes.work = drain
    (well, _), (other, _) = known("Well"), known("Other", channel="olv")
    make_advertiser("Lindqvist Coffee")
    stage = Stage(well, other, campaign_submit(user=make_user("Buyer"), raw=BRIEF), passes)
    stage.run(until=stage.asked)
    asked = Approval.objects.first()
    assert asked is not None
    with passes.time():
        approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="reject", comment="No.")
    passes.ahead += timedelta(hours=25)
    stage.run(until=stage.ended)
    assert stage.campaign.status == C.FAILED
    assert [*well.books(), *other.books()] == []
