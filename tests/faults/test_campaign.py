"""A whole campaign with two sellers of whom one is broken: the rest goes on, and nothing is bought twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from campaigns.models import ENDED, Campaign
from campaigns.models import CampaignStatus as C
from campaigns.services import campaign_job, campaign_submit
from orders.models import CONFIRMED, Deal, DealStatus
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import approval_decide
from tasks_app.jobs.models import JobStatus
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.verify import entity_models, verify_all
from tasks_app.operations.models import Operation
from tests.factories import make_advertiser, make_user
from tests.fake_seller.driver import FakeSeller
from tests.faults.conftest import Known, Passes, misbehaving

BRIEF = {
    "name": "Cold brew, spring",
    "advertiser": "Lindqvist Coffee",
    "brand_domain": "lindqvist-coffee.com",
    "objective": {"goal": "Awareness of cold brew", "kpi": "reach", "target": 2_000_000},
    "budget": {"total": 20_000, "currency": "USD"},
    "flight": {"zone": "America/New_York", "start": "+20d", "end": "+40d"},
    "channels": ["display", "olv"],
    "geography": {"countries": ["US"]},
}


@dataclass
class Stage:
    """A well seller of display, a broken one of olv, and a campaign for both."""

    well: FakeSeller
    broken: FakeSeller
    campaign: Campaign
    passes: Passes

    def run(self, until: Callable[[], bool], most: int = 20) -> None:
        """Workers and sweeps in turn, as time goes by, until it is so."""
        for _ in range(most):
            self.passes()
            if until():
                return
        raise AssertionError(
            f"not so: {[(o.reference, o.status, o.message) for o in Operation.objects.all()]}"
        )

    def decide(self) -> None:
        """An approver says yes to everything that is asked."""
        for asked in Approval.objects.filter(status=ApprovalStatus.OPEN):
            self.answer(asked, "approve")

    def answer(self, asked: Approval, verdict: str) -> None:
        with self.passes.time():
            approval_decide(
                approval_id=asked.pk, user=make_user("Approver"), verdict=verdict, comment="So it be."
            )

    def asked(self) -> bool:
        """Whether people are asked, or it ended without."""
        return Approval.objects.filter(status=ApprovalStatus.OPEN).exists() or self.ended()

    def ended(self) -> bool:
        self.campaign.refresh_from_db()
        return self.campaign.status in ENDED

    def deals(self) -> dict[str, str]:
        found = Deal.objects.filter(campaign_id=self.campaign.pk)
        return {deal.seller.name: deal.status for deal in found.select_related("seller")}


@pytest.fixture
def stage(known: Callable[..., Known], passes: Passes, settings: Any) -> Stage:
    settings.STEP_LEASE_S = 3600  # our clock runs faster than the lease is renewed
    passes.work = drain
    (well, _), (broken, _) = known("Well"), known("Broken", channel="olv")
    make_advertiser("Lindqvist Coffee")
    return Stage(well, broken, campaign_submit(user=make_user("Buyer"), raw=BRIEF), passes)


def sound() -> None:
    """Every status is what its trail says."""
    for entity in entity_models():
        assert [(pk, found) for pk, found in verify_all(entity) if not found.ok] == []


# Every kind of fault meets a campaign once, here or at the purchase; test_one_call has them all.
RESEARCH = [("html", {}), ("huge", {}), ("unauthorized", {}), ("status", {"status": "approved"})]


@pytest.mark.parametrize(("kind", "params"), RESEARCH, ids=[fault[0] for fault in RESEARCH])
def test_a_seller_that_cannot_be_asked_costs_its_share_not_the_campaign(
    stage: Stage, kind: str, params: dict[str, Any]
) -> None:
    stage.broken.fault("get_products", kind, times=0, **params)

    stage.run(until=stage.asked)
    stage.decide()
    stage.run(until=stage.ended)

    assert stage.campaign.status == C.COMPLETED
    assert stage.deals().keys() == {"Well"}
    assert len(stage.well.books()) == 1
    assert stage.broken.books() == []
    research = campaign_job(stage.campaign).steps.get(key="research").outputs["results"]
    assert [bool(found["error"]) for found in sorted(research, key=lambda found: found["error"])] == [
        False,
        True,
    ]
    sound()


def test_a_seller_that_is_down_costs_its_share_not_the_campaign(stage: Stage) -> None:
    stage.broken.kill()

    stage.run(until=stage.asked)
    stage.decide()
    stage.run(until=stage.ended)

    assert (stage.campaign.status, stage.deals().keys()) == (C.COMPLETED, {"Well"})
    sound()


BUYING = [
    ("http", {}),
    ("truncated", {}),
    ("hang", {}),
    ("drop", {}),
    ("in_flight", {}),
    ("status", {}),
]


@pytest.mark.parametrize(("kind", "params"), BUYING, ids=[fault[0] for fault in BUYING])
def test_a_purchase_that_first_goes_wrong_is_booked_once(
    stage: Stage, kind: str, params: dict[str, Any]
) -> None:
    with misbehaving(stage.broken, "create_media_buy", kind, **params):
        stage.run(until=stage.asked)
        stage.decide()
        stage.run(until=stage.ended)

    assert stage.campaign.status == C.COMPLETED
    assert {seller: status in CONFIRMED for seller, status in stage.deals().items()} == {
        "Well": True, "Broken": True,
    }  # fmt: skip
    assert [len(stage.well.books()), len(stage.broken.books())] == [1, 1]
    assert campaign_job(stage.campaign).status == JobStatus.COMPLETED
    sound()


def test_a_refused_purchase_fails_its_deal_and_tells_why(stage: Stage) -> None:
    stage.broken.fault("create_media_buy", "error", code="PRODUCT_UNAVAILABLE", message="Sold out.", times=0)

    stage.run(until=stage.asked)
    stage.decide()
    stage.run(until=stage.ended)

    assert stage.campaign.status == C.COMPLETED
    assert stage.deals()["Broken"] == DealStatus.FAILED
    assert stage.deals()["Well"] in CONFIRMED
    assert [len(stage.well.books()), len(stage.broken.books())] == [1, 0]
    sound()


def test_a_purchase_nobody_answers_is_found_at_the_seller(stage: Stage) -> None:
    stage.broken.fault("create_media_buy", "drop", times=0)
    stage.run(until=stage.asked)
    stage.decide()
    stage.run(until=lambda: stage.deals()["Well"] in CONFIRMED)

    stage.passes.ahead += timedelta(hours=25)
    stage.run(until=stage.ended)

    assert stage.deals()["Broken"] in CONFIRMED
    assert (
        Operation.objects.get(seller__name="Broken", task_type="create_media_buy").settled_by == "reconcile"
    )
    assert len(stage.broken.books()) == 1
    sound()


def test_a_purchase_nobody_answers_goes_to_a_person_and_the_campaign_waits_for_it(stage: Stage) -> None:
    for tool in ("create_media_buy", "get_media_buys", "list_tasks"):
        stage.broken.fault(tool, "drop", times=0)
    stage.run(until=stage.asked)
    stage.decide()
    stage.run(until=lambda: stage.deals()["Well"] in CONFIRMED)

    stage.passes.ahead += timedelta(hours=25)
    stage.run(until=stage.asked)
    question = Approval.objects.get(status=ApprovalStatus.OPEN)
    assert (question.kind, stage.ended()) == ("overdue", False)
    stage.answer(question, "reject")
    stage.run(until=stage.ended)

    assert stage.campaign.status == C.COMPLETED
    assert stage.deals()["Broken"] == DealStatus.FAILED
    assert len(stage.broken.books()) == 1, "it did book: once"
    sound()
