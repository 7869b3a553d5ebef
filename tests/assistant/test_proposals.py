"""Proposals: nothing happens without a person's click, and after it other people decide."""

from __future__ import annotations

import uuid

import pytest

from campaigns.models import Campaign
from campaigns.services import campaign_submit
from orders.models import Deal
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.assistant.errors import AssistantRefusedError
from tasks_app.assistant.governance import set_mode
from tasks_app.assistant.models import AssistantProposal
from tasks_app.assistant.proposals import confirm_proposal, continue_proposals, dismiss_proposal
from tasks_app.assistant.selectors import turn_data
from tasks_app.jobs.engine import mark_failed
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import transition
from tasks_app.notifications.models import Notification
from tasks_app.operations.models import Operation
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tests.assistant.deals import shown, two_deals
from tests.assistant.fakes import converse
from tests.campaigns.briefs import future
from tests.factories import make_account, make_advertiser, make_seller, make_user
from tests.jobs.claiming import claim_step
from tests.orders.live import booked, packages, says

pytestmark = pytest.mark.django_db


def proposed(user: User, question: str) -> AssistantProposal:
    """The proposal that a question leads to; nothing else has changed."""
    before = Approval.objects.count(), Operation.objects.count()
    turn = converse(user, question)
    assert "Nothing has changed yet" in turn.reply, turn.reply
    assert (Approval.objects.count(), Operation.objects.count()) == before
    return AssistantProposal.objects.get(turn=turn)


def decide(approval_id: str, user: User, verdict: str = "approve") -> Approval:
    approval = Approval.objects.get(pk=approval_id)
    return approval_decide(
        approval_id=approval.pk,
        user=user,
        verdict=verdict,
        comment="So.",
        expected_digest=approval.evidence_digest,
    )


def test_a_confirmed_budget_waits_for_approval_and_neither_of_the_two_decides(inline: None) -> None:
    deal, buyer = booked(), make_user("Buyer")
    proposal = proposed(buyer, f"Change the budget of {deal.reference} to 12,000")
    assert "USD 12,000" in str(turn_data(proposal.turn_id)["table"])
    confirmed = confirm_proposal(user=buyer, proposal_id=proposal.pk)
    approval = Approval.objects.get(pk=confirmed.approvals[0])
    assert (approval.opened_by, approval.requested_by) == ("agent:assistant", actor_key(buyer))
    assert turn_data(proposal.turn_id)["proposals"][0]["approval"] == approval.reference
    buyer.groups.add(*make_user("Approver").groups.all())
    with pytest.raises(DecisionRefusedError):
        decide(str(approval.pk), User.objects.get(pk=buyer.pk))
    decide(str(approval.pk), make_user("Approver"))
    operation = Operation.objects.get(pk=approval.evidence["operation_id"])
    assert operation.request["packages"][0]["budget"] == 12_000
    with pytest.raises(AssistantRefusedError):
        confirm_proposal(user=buyer, proposal_id=proposal.pk)


def test_a_proposal_is_its_persons_alone_and_may_be_dismissed(inline: None) -> None:
    deal, buyer = booked(), make_user("Buyer")
    proposal = proposed(buyer, f"Pause {deal.reference}")
    for user, pk in ((make_user("Buyer"), proposal.pk), (buyer, uuid.uuid4())):
        with pytest.raises(AssistantRefusedError):
            confirm_proposal(user=user, proposal_id=pk)
    set_mode(mode="read_only", reason="A trial", user=make_user("Administrator"))
    with pytest.raises(AssistantRefusedError):
        confirm_proposal(user=buyer, proposal_id=proposal.pk)
    dismiss_proposal(user=buyer, proposal_id=proposal.pk)
    with pytest.raises(AssistantRefusedError):
        dismiss_proposal(user=buyer, proposal_id=proposal.pk)
    assert not Approval.objects.filter(status="open").exists()


def test_a_pause_and_a_cancellation_are_ordinary_requests(inline: None) -> None:
    paused, cancelled = booked(), booked(make_seller("Quill Audio"), media_buy_id="mb-2")
    buyer = make_user("Buyer")
    questions = (f"Pause {paused.reference}", f"Cancel {cancelled.reference} because the client stopped it")
    asked = [
        confirm_proposal(user=buyer, proposal_id=proposed(buyer, question).pk).approvals[0]
        for question in questions
    ]
    sent = [Approval.objects.get(pk=pk).evidence["sent"] for pk in asked]
    assert "paused" in str(sent[0])
    assert "the client stopped it" in str(sent[1])
    assert "Say why" in converse(buyer, f"Cancel {paused.reference}").reply


@pytest.fixture
def campaign_deals() -> tuple[Deal, Deal]:
    return two_deals()


def test_money_moves_in_two_changes_the_second_after_the_first_is_shown(
    inline: None, campaign_deals: tuple[Deal, Deal]
) -> None:
    tv, audio = campaign_deals
    buyer, approver = make_user("Buyer"), make_user("Approver")
    proposal = proposed(buyer, "Move USD 10,000 of Spring Launch from CTV to audio")
    assert tv.reference in proposal.summary
    assert audio.reference in proposal.summary
    first = confirm_proposal(user=buyer, proposal_id=proposal.pk).approvals[0]
    assert continue_proposals() == 0, "the first change waits for people"
    decrease = Operation.objects.get(pk=decide(first, approver).evidence["operation_id"])
    assert decrease.request["packages"][0]["budget"] == 10_000
    assert continue_proposals() == 0, "the seller has not answered"
    shown(tv, decrease, 10_000.0)
    assert continue_proposals() == 1
    proposal.refresh_from_db()
    second = Approval.objects.get(pk=proposal.approvals[1])
    increase = Operation.objects.get(pk=second.evidence["operation_id"])
    assert (second.subject_id, increase.request["packages"][0]["budget"]) == (audio.pk, 15_000)
    assert (second.opened_by, proposal.remaining) == ("agent:assistant", None)


def test_a_first_change_that_is_rejected_ends_the_move_and_the_person_is_told(
    inline: None, campaign_deals: tuple[Deal, Deal]
) -> None:
    buyer = make_user("Buyer")
    proposal = proposed(buyer, "Move 10k of Spring Launch from TV to podcast")
    first = confirm_proposal(user=buyer, proposal_id=proposal.pk).approvals[0]
    decide(first, make_user("Approver"), "reject")
    assert continue_proposals() == 1
    proposal.refresh_from_db()
    assert (len(proposal.approvals), proposal.remaining) == (1, None)
    assert proposal.error
    assert Notification.objects.filter(kind="assistant", person=buyer).exists()


def test_what_cannot_be_changed_is_refused_in_a_sentence(
    inline: None, campaign_deals: tuple[Deal, Deal]
) -> None:
    tv, _ = campaign_deals
    buyer = make_user("Buyer")
    for question, said in {
        f"Change the budget of {tv.reference} to 20,000": "is that already",
        "Move 30,000 of Spring Launch from CTV to audio": "has only USD 20,000",
        "Move 1,000 of Spring Launch from CTV to print": "Name a deal",
        "Move 1,000 of Spring Launch from CTV to CTV": "two different packages",
        "Pause DEAL-2020-000001": "There is no deal",
    }.items():
        assert said in converse(buyer, question).reply, question
    assert "no right" in converse(make_user("Finance"), f"Pause {tv.reference}").reply
    assert not AssistantProposal.objects.exists()


def test_a_brief_is_drafted_from_a_sentence_and_submitted_by_the_assistant(inline: None) -> None:
    make_advertiser("Lindqvist Coffee")
    buyer = make_user("Buyer")
    question = "Draft a brief for Lindqvist: USD 50,000 on CTV and podcast from 2031-01-10 to 2031-02-10"
    proposal = proposed(buyer, question)
    table = str(turn_data(proposal.turn_id)["table"])
    for stated in (
        "Lindqvist Coffee 2031-01-10",
        "USD 50,000",
        "ctv, podcast",
        "['Countries', 'US', 'assumed']",
    ):
        assert stated in table
    assert "currency assumed" not in table
    confirm_proposal(user=buyer, proposal_id=proposal.pk)
    campaign = Campaign.objects.get()
    assert (campaign.budget, campaign.requested_by, campaign.problems) == (50_000, actor_key(buyer), [])
    first = AuditEntry.objects.filter(entity_type="campaign", entity_id=campaign.pk).earliest("pk")
    assert first.actor == "agent:assistant"
    data = turn_data(proposal.turn_id)["proposals"][0]
    assert (data["approval"], data["subject"]["reference"]) == (None, campaign.reference)


def test_a_brief_that_says_too_little_or_is_wrong_is_not_proposed(inline: None) -> None:
    make_advertiser("Lindqvist Coffee")
    buyer = make_user("Buyer")
    days = "from 2031-01-10 to 2031-02-10"
    for question, said in {
        "Draft a brief for Lindqvist": "Say the budget",
        f"Draft a brief for Channel 4 on CTV {days}": "Say the budget",
        f"Draft a brief for Lindqvist: USD 5,000 {days}": "Say on which channels",
        "Draft a brief for Lindqvist: USD 5,000 on CTV": "from which day",
        f"Draft a brief for Nobody 7: 5,000 EUR on CTV {days}": "There is no advertiser",
        f"Draft a brief for Lindqvist: USD 5,000 on TV {days}": "ctv or linear_tv",
        f"Draft a brief for Lindqvist: USD 5,000 on smoke {days}": "There is no channel",
        f"Draft a brief for Lindqvist: QQQ 5,000 on CTV {days}": "currency",
        "Draft a brief for Lindqvist: USD 5,000 on CTV from 2021-01-10 to 2021-02-10": "cannot be submitted",
    }.items():
        assert said in converse(buyer, question).reply, question
    complete = f"Draft a brief for Lindqvist: USD 5,000 on CTV {days}"
    assert "no right" in converse(make_user("Finance"), complete).reply
    assert not AssistantProposal.objects.exists()


def test_a_failed_campaign_is_retried_by_who_steers_jobs_and_submitted_again_by_a_buyer(inline: None) -> None:
    make_account(make_advertiser("Lindqvist Coffee"), make_seller())
    buyer, steers = make_user("Buyer"), make_user("Ad Ops")
    campaign = campaign_submit(user=buyer, raw=future())
    assert campaign.problems == []
    question = f"Retry {campaign.reference}"
    assert "it has not failed" in converse(buyer, question).reply
    step = claim_step()
    assert step is not None
    mark_failed(step=step, error="the seller is gone")
    again, retried = proposed(buyer, question), proposed(steers, question)
    assert "from where it failed" in retried.summary
    assert "USD 250,000" in str(turn_data(again.turn_id)["table"])
    confirm_proposal(user=steers, proposal_id=retried.pk)
    campaign.refresh_from_db()
    assert campaign.status == "brief_received"
    with pytest.raises(AssistantRefusedError, match="has not failed"):
        confirm_proposal(user=buyer, proposal_id=again.pk)
    transition(campaign, "failed", actor="system")
    confirm_proposal(user=buyer, proposal_id=again.pk)
    assert Campaign.objects.filter(requested_by=actor_key(buyer)).count() == 2


def test_only_what_was_shown_is_confirmed(inline: None) -> None:
    deal, buyer = booked(), make_user("Buyer")
    proposal = proposed(buyer, f"Change the budget of {deal.reference} to 12,000")
    says(deal, "active", revision=2, packages=packages(deal, budget=9_000.0))
    with pytest.raises(AssistantRefusedError, match="has changed"):
        confirm_proposal(user=buyer, proposal_id=proposal.pk)
    assert not Approval.objects.filter(opened_by="agent:assistant").exists()
