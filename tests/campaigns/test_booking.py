"""When what is approved is booked: each deal by itself, together where the brief says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from campaigns.actions import approve_deal as approve_deal_step
from campaigns.brief import brief_validate
from campaigns.explain import progress_of
from campaigns.explain_words import campaign_answers
from campaigns.models import Campaign, CampaignStatus
from campaigns.presenters import brief_facts
from campaigns.services import campaign_job
from orders.models import CONFIRMED, Deal, DealStatus
from orders.questions import ask_undecided
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import approval_decide
from tasks_app.commands import gates
from tasks_app.commands.gates import Gate
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.desk.explain import explain
from tasks_app.jobs import recipes
from tasks_app.jobs.endings import job_cancel
from tasks_app.jobs.models import Job, JobStatus, StepStatus
from tasks_app.jobs.recipes import Recipe, recipe_named
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tasks_app.sellers.models import Account
from tasks_app.sellers.services import account_change
from tests.approvals.deciding import decides
from tests.campaigns.booking import (
    CHANNELS,
    booked_by_its_seller,
    deal_of,
    decide,
    effect,
    purchase,
    put_forward,
    said,
    sent,
    status,
)
from tests.campaigns.briefs import NOW, brief
from tests.factories import make_user
from tests.orders import late as buying

pytestmark = pytest.mark.django_db
# What jobs that began with it are pinned to.
VERSION_1 = Recipe.model_validate(
    {
        "name": "campaign",
        "version": 1,
        "title": "Campaign",
        "steps": [
            *(step.model_dump() for step in recipe_named("campaign").steps[:4]),
            {
                "id": "approve",
                "action": "campaigns.approve",
                "after": ["recommend"],
                "inputs": {"deals": "{{ steps.recommend.outputs.deals }}"},
            },
            {
                "id": "book",
                "recipe": "book_deal",
                "after": ["approve"],
                "for_each": "{{ steps.approve.outputs.accepted }}",
                "inputs": {"deal_id": "{{ item }}"},
                "optional": True,
            },
            {"id": "complete", "action": "campaigns.complete", "after": ["book"]},
        ],
    }
)


# ---- each


def test_an_approved_deal_is_bought_while_another_is_undecided() -> None:
    campaign = put_forward()
    first, second = (deal_of(campaign, channel) for channel in CHANNELS)
    assert status(campaign) == CampaignStatus.AWAITING_APPROVAL

    assert effect(first) == "Places the order at once."
    decide(first)
    assert purchase(first) is not None
    assert status(campaign) == CampaignStatus.EXECUTING_BOOKINGS
    booked_by_its_seller(first)
    assert Deal.objects.get(pk=first.pk).status in CONFIRMED
    assert status(campaign) == CampaignStatus.EXECUTING_BOOKINGS, "completion waits for the open question"
    assert Approval.objects.get(subject_id=second.pk).status == ApprovalStatus.OPEN

    decide(second)
    booked_by_its_seller(second)
    assert status(campaign) == CampaignStatus.COMPLETED
    assert campaign.outcome["booked"] == sorted([first.reference, second.reference])


def test_the_rest_may_be_rejected_and_the_campaign_completes() -> None:
    campaign = put_forward()
    first, second = (deal_of(campaign, channel) for channel in CHANNELS)
    decide(first)
    booked_by_its_seller(first)
    decide(second, "reject")
    assert purchase(second) is None
    assert (status(campaign), campaign.outcome["rejected"]) == (
        CampaignStatus.COMPLETED,
        [second.reference],
    )


def test_where_nothing_is_approved_it_fails() -> None:
    campaign = put_forward()
    for channel in CHANNELS:
        assert status(campaign) == CampaignStatus.AWAITING_APPROVAL
        decide(deal_of(campaign, channel), "reject")
    assert status(campaign) == CampaignStatus.FAILED
    trail = AuditEntry.objects.filter(entity_id=campaign.pk).latest("seq")
    assert "no recommendation was approved" in trail.reason


# ---- together


def test_together_nothing_is_bought_before_all_is_decided() -> None:
    campaign = put_forward(booking="together")
    first, second = (deal_of(campaign, channel) for channel in CHANNELS)
    decide(first)
    assert purchase(first) is None
    assert status(campaign) == CampaignStatus.AWAITING_APPROVAL
    told = explain(campaign.reference, make_user("Administrator"))
    assert "Nothing is bought before all is decided." in told.otherwise
    assert "once every deal of its campaign is decided" in effect(second)

    decide(second)
    assert purchase(first) is not None
    assert purchase(second) is not None
    assert status(campaign) == CampaignStatus.EXECUTING_BOOKINGS


def test_what_the_brief_says_stands_on_its_page() -> None:
    said = {"each": "each deal when it is approved", "together": "all together, once every deal is decided"}
    for booking, words in said.items():
        assert dict(brief_facts(Campaign(brief=brief(booking=booking))))["Booking"] == words
    assert dict(brief_facts(Campaign(brief=brief())))["Booking"] == said["each"]


def test_a_brief_says_each_or_together_and_nothing_else() -> None:
    found, problems = brief_validate(brief(booking="later"), now=NOW)
    assert found is None
    assert [problem["field"] for problem in problems] == ["booking"]
    found, _ = brief_validate(brief(), now=NOW)
    assert found is not None
    assert found.booking == "each"


# ---- in between


def test_a_campaign_that_executes_says_both_what_is_asked_and_what_is_out() -> None:
    campaign = put_forward()
    first = deal_of(campaign, CHANNELS[0])
    decide(first)
    assert said(campaign).waiting_for.endswith(" 1 deal is sent next.")
    sent(first)
    told = said(campaign)
    assert "It waits for sellers to confirm 1 deal besides." in told.waiting_for
    assert "What is approved is bought." in told.otherwise


def test_a_campaign_whose_purchase_is_overdue_waits_for_people() -> None:
    campaign = put_forward()
    first, second = (deal_of(campaign, channel) for channel in CHANNELS)
    decide(first)
    decide(second, "reject")
    operation = sent(first)
    assert said(campaign).waiting_for == "It waits for sellers to confirm 1 deal."
    buying.overdue(operation)
    asked = Approval.objects.get(kind="overdue", status=ApprovalStatus.OPEN)
    told = said(campaign)
    assert told.waiting_for.startswith(f"It waits for people to decide: {asked.reference}, ")
    assert "sellers" not in told.waiting_for
    assert "recommendation" not in told.otherwise
    assert told.deadline == asked.due_at
    does = [one.does for one in told.who]
    assert does[0] == f"decide on {asked.reference}"
    assert "confirm or refuse" not in does
    buying.decide("overdue", "approve")
    assert said(campaign).waiting_for == "It waits for sellers to confirm 1 deal."


def test_a_campaign_whose_purchase_stands_at_a_gate_waits_for_people(monkeypatch: Any) -> None:
    gate = Gate(name="test", label="Test", why_closed=lambda command: "Not now", always=True)
    monkeypatch.setitem(gates._gates, "test", gate)
    campaign = put_forward()
    first, second = (deal_of(campaign, channel) for channel in CHANNELS)
    decide(first)
    decide(second, "reject")
    asked = Approval.objects.get(kind="risk_gate", status=ApprovalStatus.OPEN)
    told = said(campaign)
    assert told.waiting_for.startswith(f"It waits for people to decide: {asked.reference}, ")
    assert "sellers" not in told.waiting_for


@pytest.mark.parametrize("off", ["", "human:1"])
def test_a_campaign_whose_account_is_not_active_says_so(off: str) -> None:
    campaign = put_forward()
    first, second = (deal_of(campaign, channel) for channel in CHANNELS)
    Account.objects.filter(pk=first.account_id).update(status="suspended", switched_off_by=off)
    decide(first)
    decide(second, "reject")
    told = said(campaign)
    assert told.waiting_for == "1 deal waits for an account that is not active yet."
    two = "let the account go, on its page; a second person approves it"
    assert (two if off else "make the account active") in {one.does for one in told.who}
    if not off:
        return
    account = Account.objects.select_related("seller", "advertiser").get(pk=first.account_id)
    account_change(account=account, values={"status": "active"}, actor=make_user("Administrator"))
    asked = Approval.objects.get(kind="seller_trust")
    does = {one.does for one in said(campaign).who}
    assert f"decide on {asked.reference}" in does
    assert two not in does


@pytest.mark.parametrize("bound", ["said", "reference"])
def test_a_campaign_whose_account_is_in_another_currency_does_not_wait_for_it(bound: str) -> None:
    campaign = put_forward()
    first, second = (deal_of(campaign, channel) for channel in CHANNELS)
    Account.objects.filter(pk=first.account_id).update(status="pending_approval")
    decide(first)
    decide(second, "reject")
    Account.objects.filter(pk=first.account_id).update(**{bound: {"account_id": "a-1", "currency": "SEK"}})
    told = said(campaign)
    assert told.waiting_for == "1 deal cannot be bought under its account and ends next."
    assert "make the account active" not in {one.does for one in told.who}


@pytest.mark.parametrize("given", [(0, 0), (1, 0), (1, 1)])
def test_a_campaign_with_stopped_purchases_counts_the_decisions_given(given: tuple[int, int]) -> None:
    campaign = put_forward()
    kill_switch_set(on=True, reason="Wrong rates", actor="system")
    for channel in CHANNELS:
        decide(deal_of(campaign, channel))
    passes = list(Approval.objects.filter(kind="kill_switch", status=ApprovalStatus.OPEN).order_by("due_at"))
    assert len(passes) == 2
    for number, one in zip(given, passes, strict=True):
        if number:
            approval_decide(approval_id=one.pk, user=make_user("Approver"), verdict="approve", comment="So.")
    told = said(campaign)
    assert "2 deals are approved and not sent." in told.waiting_for
    campaign.refresh_from_db()
    movers = campaign_answers(progress_of(campaign)).movers
    assert movers[0].does == "let the kill switch go; then what is approved is sent"
    for number, one in zip(given, passes, strict=True):
        (named,) = [mover for mover in movers if one.reference in mover.does]
        assert ("a second approver is still needed" in named.does) is (number == 0)
        assert set(named.people or ()) == {str(user) for user in User.objects.all() if decides(one, user)}
    assert not any("two of them" in mover.does for mover in movers)


def test_a_step_that_died_after_moving_its_campaign_moves_it_once() -> None:
    campaign = put_forward()
    deal = deal_of(campaign, CHANNELS[0])
    approval = Approval.objects.get(subject_id=deal.pk)
    for _ in range(approval.quorum):
        approval_decide(approval_id=approval.pk, user=make_user("Approver"), verdict="approve", comment="So.")
    run: Any = SimpleNamespace(inputs={"deal_id": str(deal.pk)})
    outputs = [approve_deal_step(run), approve_deal_step(run)]
    assert outputs[0] == outputs[1]
    moves = AuditEntry.objects.filter(
        entity_id=campaign.pk, to_status=CampaignStatus.EXECUTING_BOOKINGS
    ).exclude(from_status=CampaignStatus.EXECUTING_BOOKINGS)
    assert moves.count() == 1
    drain()
    assert Operation.objects.filter(task_type="create_media_buy").count() == 1


def test_what_is_decided_is_not_asked_again() -> None:
    """A step that was woken for a question which somebody decides at that moment."""
    campaign = put_forward()
    deal = deal_of(campaign, CHANNELS[0])
    decide(deal)
    assert ask_undecided(deal.pk) is None
    assert Approval.objects.filter(subject_id=deal.pk).count() == 1


def test_a_deal_whose_booking_is_cancelled_is_called_off_with_its_question() -> None:
    campaign = put_forward()
    deal, other = (deal_of(campaign, channel) for channel in CHANNELS)
    step = campaign_job(campaign).steps.get(fan_out__isnull=False, item=str(deal.pk))  # type: ignore[union-attr]
    job_cancel(job_id=Job.objects.get(parent_step=step).pk, actor=make_user("Ad Ops"), reason="not this one")
    drain()
    deal.refresh_from_db()
    assert deal.status == DealStatus.CANCELLED
    assert Approval.objects.get(subject_id=deal.pk).status == ApprovalStatus.VOIDED
    assert Approval.objects.get(subject_id=other.pk).status == ApprovalStatus.OPEN
    assert status(campaign) == CampaignStatus.AWAITING_APPROVAL


def test_calling_it_off_while_one_is_bought_leaves_that_one_with_its_seller() -> None:
    campaign = put_forward()
    first, second = (deal_of(campaign, channel) for channel in CHANNELS)
    decide(first)
    operation = purchase(first)
    assert operation is not None
    claim_one(operation_id=operation.pk)
    job = campaign_job(campaign)
    assert job is not None
    job_cancel(job_id=job.pk, actor=make_user("Ad Ops"), reason="the client withdrew")
    found = {deal.pk: deal.status for deal in Deal.objects.filter(campaign_id=campaign.pk)}
    assert found == {first.pk: DealStatus.BOOKING, second.pk: DealStatus.CANCELLED}
    assert not Approval.objects.filter(status=ApprovalStatus.OPEN).exists()


# ---- jobs that began before


def test_a_job_that_began_with_the_first_version_goes_on_as_it_began(monkeypatch: Any) -> None:
    with monkeypatch.context() as then:
        then.setitem(recipes._recipes, "campaign", VERSION_1)
        campaign = put_forward()
    job = campaign_job(campaign)
    assert job is not None
    assert job.recipe_version == 1
    first, second = (deal_of(campaign, channel) for channel in CHANNELS)
    decide(first)
    assert purchase(first) is None, "it waits for all, as it did"
    assert job.steps.get(key="approve").status == StepStatus.AWAITING_USER
    decide(second, "reject")
    booked_by_its_seller(first)
    assert status(campaign) == CampaignStatus.COMPLETED
    job.refresh_from_db()
    assert job.status == JobStatus.COMPLETED
