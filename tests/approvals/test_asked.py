"""Who asked for something hears what became of it, with the reason; nobody else, and once."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import transaction

from campaigns.models import Campaign
from orders.models import Deal
from orders.questions import ask_deal
from tasks_app import clock
from tasks_app.approvals.asked import ENDS, asked_tell
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide, approval_void, approvals_expire_due
from tasks_app.events.bus import Event, subscribers
from tasks_app.jobs import engine, over
from tasks_app.jobs.models import Job
from tasks_app.lifecycle.declarations import lifecycle
from tasks_app.lifecycle.models import OutboxEvent
from tasks_app.lifecycle.transitions import create, transition
from tasks_app.notifications.models import Notification
from tasks_app.notifications.selectors import notifications_of
from tasks_app.operations.services import operation_withdraw
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tests.approvals.conftest import Desk
from tests.approvals.test_in_part import approve, recommended
from tests.factories import approve_deal, make_deal, make_team, make_user
from tests.operations.making import stand
from tests.orders.asking import booked

pytestmark = pytest.mark.django_db


@pytest.fixture
def asker() -> User:
    return make_user("Buyer")


def hand_over(entity_id: uuid.UUID) -> None:
    """Its events, as the bus hands them to this subscriber."""
    subscriber = next(one for one in subscribers() if one.name == "asked")
    for row in OutboxEvent.objects.filter(entity_id=entity_id).order_by("seq"):
        event = Event(
            type=row.type,
            entity_type=row.entity_type,
            entity_id=row.entity_id,
            seq=row.seq,
            payload=row.payload,
            at=row.at,
            position=row.pk,
        )
        if subscriber.wants(row.type):
            asked_tell(event)


def told(person: User) -> list[tuple[str, str]]:
    """(title, text) of what is told to the person alone."""
    mine = Notification.objects.filter(person=person).order_by("pk")
    return list(mine.values_list("title", "body"))


def decide(approval: Approval, verdict: str, comment: str) -> User:
    approver = make_user("Approver")
    approval_decide(approval_id=approval.pk, user=approver, verdict=verdict, comment=comment)
    return approver


@pytest.mark.parametrize(("verdict", "word"), [("approve", "approved"), ("reject", "rejected")])
def test_a_decision_is_told_with_its_reason(desk: Desk, asker: User, verdict: str, word: str) -> None:
    approval = desk.ask(requested_by=asker)
    approver = decide(approval, verdict, "Too dear: ask for 12.00")
    hand_over(approval.pk)
    assert told(asker) == [
        (
            f"{word.capitalize()}: May it? ({approval.reference})",
            f"What you asked for was {word} by {approver}.\nReason: Too dear: ask for 12.00",
        )
    ]
    note = Notification.objects.get(person=asker)
    assert (note.subject_type, note.subject_id) == ("approval", approval.pk)
    assert note in notifications_of(asker)
    assert note not in notifications_of(approver)


def test_the_first_of_two_words_is_no_end(desk: Desk, asker: User) -> None:
    approval = desk.ask(requested_by=asker, quorum=2)
    decide(approval, "approve", "")
    hand_over(approval.pk)
    assert told(asker) == []


def test_an_expiry_is_told(desk: Desk, asker: User) -> None:
    approval = desk.ask(requested_by=asker)
    with clock.injected(lambda: approval.due_at):
        approvals_expire_due()
    hand_over(approval.pk)
    assert told(asker) == [
        (
            f"Expired: May it? ({approval.reference})",
            "What you asked for expired.\nReason: Nobody decided in time.",
        )
    ]


def test_a_withdrawal_is_told_unless_it_was_asked_anew(desk: Desk, asker: User) -> None:
    first = desk.ask(requested_by=asker)
    approval_void(approval=first, reason="The seller answered: completed")
    second = desk.ask(requested_by=asker)
    hand_over(first.pk)
    assert told(asker) == []
    approval_void(approval=second, reason="The seller answered: completed")
    hand_over(second.pk)
    assert [body.split("\n")[1] for _, body in told(asker)] == ["Reason: The seller answered: completed"]


def test_what_was_asked_anew_is_no_withdrawal_though_that_is_decided_by_now(desk: Desk, asker: User) -> None:
    first = desk.ask(requested_by=asker)
    approval_void(approval=first, reason="What was shown has changed")
    second = desk.ask(requested_by=asker)
    decide(second, "reject", "Too dear")
    for question in (first, second):
        hand_over(question.pk)
    assert [title.partition(":")[0] for title, _ in told(asker)] == ["Rejected"]


def test_what_is_approved_in_part_is_told_as_approved_alone(asker: User) -> None:
    first = recommended(requested_by=actor_key(asker))
    approved = approve(first, make_user("Approver"), {1: "30000"}, comment="Half")
    assert approved.replaces == first
    for question in (first, approved):
        hand_over(question.pk)
    assert [title.partition(":")[0] for title, _ in told(asker)] == ["Approved"]


def test_it_is_told_once_and_not_to_machines_nor_of_ones_own_doing(desk: Desk, asker: User) -> None:
    approval = desk.ask(requested_by=asker)
    decide(approval, "approve", "")
    hand_over(approval.pk)
    hand_over(approval.pk)
    assert len(told(asker)) == 1
    agent = make_user("Integration", is_service=True)
    of_a_machine = desk.ask(requested_by=agent, subject_id=uuid.uuid4())
    decide(of_a_machine, "approve", "")
    hand_over(of_a_machine.pk)
    assert told(agent) == []


def deal_of(asker: User, *moves: tuple[str, str, str]) -> Deal:
    deal = make_deal(requested_by=actor_key(asker))
    for to, actor, reason in moves:
        transition(deal, to, actor=actor, reason=reason, context={"approval_id": None, "entity": deal})
    hand_over(deal.pk)
    return deal


def test_nobody_is_told_of_what_they_did_themselves(asker: User) -> None:
    deal_of(asker, ("cancelled", actor_key(asker), "The client withdrew"))
    assert told(asker) == []


def test_a_deal_that_its_seller_refused_is_told_with_the_sellers_reason(asker: User) -> None:
    deal = deal_of(asker, ("cancelled", "agent:norrland-digital", "BUDGET_TOO_LOW: at least 5,000"))
    assert told(asker) == [
        (
            f"Cancelled: {Notification.objects.get().title.partition(': ')[2]}",
            "What you asked for was cancelled.\nReason: BUDGET_TOO_LOW: at least 5,000",
        )
    ]
    assert deal.reference in told(asker)[0][0]


def test_a_deal_that_a_decision_ended_is_told_by_that_decision(asker: User) -> None:
    deal = make_deal(requested_by=actor_key(asker))
    approval = ask_deal(deal)
    decide(approval, "reject", "Not this month")
    hand_over(approval.pk)
    hand_over(deal.pk)
    ((title, body),) = told(asker)
    assert title.startswith("Rejected: Book Norrland Digital")
    assert body.endswith("Reason: Not this month")


def job_of(deal: Deal) -> Job:
    """The booking of a deal that people have approved."""
    approve_deal(deal)
    return Job.objects.get(recipe="book_deal", subject_id=deal.pk)


def end(job: Job, to: str, error: str) -> None:
    with transaction.atomic():
        over.end_job(engine.locked_job(job.pk), to, error=error)


def test_an_approved_deal_whose_booking_fails_is_told_once_with_the_reason(asker: User) -> None:
    deal = make_deal(requested_by=actor_key(asker))
    job = job_of(deal)
    end(job, "FAILED", "buy: the account is suspended")
    hand_over(deal.pk)
    hand_over(job.pk)

    deal.refresh_from_db()
    assert deal.status == "cancelled"
    ((title, body),) = told(asker)
    assert (title.startswith("Cancelled: "), deal.reference in title) == (True, True)
    assert body == "What you asked for was cancelled.\nReason: buy: the account is suspended"


def test_a_booking_that_fails_after_the_purchase_was_sent_is_told(asker: User) -> None:
    deal = make_deal(requested_by=actor_key(asker))
    job = job_of(deal)
    transition(deal, "booking", actor="system", context={"approval_id": None, "entity": deal})
    end(job, "FAILED", "buy: no worker took it in time")
    hand_over(job.pk)
    ((title, body),) = told(asker)
    assert title.startswith("Failed: ")
    assert body.endswith("Reason: buy: no worker took it in time")


@pytest.mark.parametrize("explained", ["approval", "campaign"])
def test_a_deal_that_a_decision_or_its_campaigns_end_calls_off_is_not_told_beside_it(
    asker: User, explained: str
) -> None:
    deal = make_deal(requested_by=actor_key(asker))
    transition(deal, "cancelled", actor="system", reason="So.", metadata={explained: "REF-1"})
    hand_over(deal.pk)
    assert told(asker) == []


def test_a_campaign_that_failed_is_told_with_its_reason(asker: User) -> None:
    campaign = Campaign(
        reference="CMP-2026-900001",
        team=make_team(),
        name="Spring",
        requested_by=actor_key(asker),
        brief={},
    )
    create(campaign, actor="system", reason="A test")
    transition(campaign, "brief_received", actor="system")
    transition(campaign, "validation_failed", actor="system", reason="flight: ends before it starts")
    hand_over(campaign.pk)
    ((title, body),) = told(asker)
    assert (title.startswith("Found not valid: "), "CMP-2026-900001" in title) == (True, True)
    assert body.endswith("Reason: flight: ends before it starts")


def test_a_deal_that_is_booked_and_one_that_is_completed_are_told(asker: User) -> None:
    deal, _ = booked(asker)
    hand_over(deal.pk)
    assert told(asker)[-1][0] == f"Booked: {deal.reference}, {deal.seller.name}"
    for to in ("delivering", "completed"):
        transition(deal, to, actor="system", context={"approval_id": None, "entity": deal})
    hand_over(deal.pk)
    assert [title.partition(":")[0] for title, _ in told(asker)] == ["Booked", "Completed"]
    assert told(asker)[-1][1] == "What you asked for is completed.\nReason: Campaign delivery completed"


_TO_ITS_END = (
    "brief_received", "budget_allocated", "researching", "awaiting_approval", "executing_bookings",
    "completed",
)  # fmt: skip


def test_a_campaign_that_is_completed_is_told(asker: User) -> None:
    campaign = Campaign(
        reference="CMP-2026-900001",
        team=make_team(),
        name="Spring",
        requested_by=actor_key(asker),
        brief={},
    )
    create(campaign, actor="system", reason="A test")
    for to in _TO_ITS_END:
        transition(campaign, to, actor="system")
    hand_over(campaign.pk)
    assert told(asker) == [
        (
            "Completed: CMP-2026-900001, Spring",
            "What you asked for is completed.\nReason: All bookings executed",
        )
    ]


@pytest.mark.parametrize("about", ["", "deal"])
def test_a_job_that_is_completed_is_told_where_nothing_else_tells_of_it(asker: User, about: str) -> None:
    job = job_of(make_deal())
    subject = {"subject_type": about} if about else {"subject_type": "", "subject_id": None}
    Job.objects.filter(pk=job.pk).update(requested_by=actor_key(asker), **subject)
    engine.mark_running(job_id=job.pk)
    end(job, "COMPLETED", "")
    hand_over(job.pk)
    assert [title.partition(":")[0] for title, _ in told(asker)] == ([] if about else ["Completed"])


def test_what_is_told_of_is_declared_and_every_end_is() -> None:
    for entity, ends in ENDS.items():
        declared: Any = lifecycle(entity)
        assert ends.keys() <= set(declared.states)
        assert set(declared.terminal) <= ends.keys()


def test_the_reason_of_a_refused_purchase_reaches_its_operation(asker: User) -> None:
    """Who follows the operation reads the approver's words there too (tests/operations/test_telling.py)."""
    operation = stand("requested")
    operation_withdraw(operation=operation, actor="system", reason="Too dear: ask for 12.00")
    operation.refresh_from_db()
    assert (operation.status, operation.message) == ("canceled", "Too dear: ask for 12.00")
