"""Proposals: nothing happens without a person's click, and after it other people decide."""

from __future__ import annotations

import uuid

import pytest

from orders.models import Deal
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.assistant.errors import AssistantRefusedError
from tasks_app.assistant.governance import set_mode
from tasks_app.assistant.models import AssistantProposal
from tasks_app.assistant.proposals import confirm_proposal, continue_proposals, dismiss_proposal
from tasks_app.assistant.selectors import turn_data
from tasks_app.notifications.models import Notification
from tasks_app.operations.models import Operation
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tests.assistant.deals import shown, two_deals
from tests.assistant.fakes import converse
from tests.factories import make_seller, make_user
from tests.orders.live import booked

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
