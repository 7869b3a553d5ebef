"""SIGKILL between any two statements: all of it is there or nothing, and the same again completes."""

from __future__ import annotations

from contextlib import suppress

from campaigns.models import Campaign
from orders.models import Deal
from orders.questions import ask_deal
from orders.services import deal_book
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.jobs.models import Job, Step
from tasks_app.lifecycle.models import AuditEntry, OutboxEvent, Stateful
from tasks_app.lifecycle.verify import entity_models, verify_all, verify_entity
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tests.database import Database
from tests.enforcement import mortal
from tests.enforcement.mortal import lives
from tests.factories import approve_deal, make_advertiser, make_deal, make_seller, make_user
from tests.rounds import kill_points


def verifies(*entities: Stateful) -> None:
    for entity in entities:
        found = verify_entity(entity.entity, entity.pk)
        assert found.ok, found.problem


def everything_verifies() -> None:
    for entity in entity_models():
        assert [(pk, found) for pk, found in verify_all(entity) if not found.ok] == []
    assert OutboxEvent.objects.count() == AuditEntry.objects.count()


def rows() -> tuple[int, ...]:
    """How many there are of what a submission makes."""
    return tuple(model.objects.count() for model in (Campaign, Job, Step, AuditEntry, OutboxEvent))


def test_a_submission_is_whole_or_not_there(committed_db: Database) -> None:
    make_advertiser()
    make_seller()
    user = make_user("Buyer")
    made = []
    with lives("submit") as die:
        for number in kill_points(every=2):
            before = rows()
            killed = die(number, user.pk)
            made.append(tuple(now - then for now, then in zip(rows(), before, strict=True)))
            if not killed:
                break
    whole, nothing = made[-1], (0,) * len(made[-1])
    assert whole[:2] == (1, 1)
    assert set(made) == {nothing, whole}, "some of it was there"
    assert number > 5, "it was not killed in the middle"
    assert all(job.steps.exists() for job in Job.objects.all())
    everything_verifies()


def test_a_decision_and_its_effect_are_one(committed_db: Database) -> None:
    user = make_user("Approver")
    seen = set()
    with lives("decide") as die:
        for number in kill_points(every=2):
            deal = make_deal(seller=make_seller(f"Seller {number}"))
            approval = ask_deal(deal)
            killed = die(number, approval.pk, user.pk)
            decided = decided_parts(approval, deal)
            assert len(set(decided)) == 1, decided
            verifies(approval, deal)
            seen.add(decided[0])
            decide_again(approval, user.pk)
            assert set(decided_parts(approval, deal)) == {True}
            verifies(approval, deal)
            if not killed:
                break
    assert seen == {True, False}
    assert number > 5
    everything_verifies()


def decided_parts(approval: Approval, deal: Deal) -> tuple[bool, ...]:
    """Whether the answer, the decision, its effect and what that starts are there."""
    return (
        Approval.objects.get(pk=approval.pk).status == "approved",
        approval.decisions.count() == 1,
        Deal.objects.get(pk=deal.pk).status == "accepted",
        Job.objects.filter(subject_id=deal.pk, recipe="book_deal").count() == 1,
    )


def decide_again(approval: Approval, user_id: object) -> None:
    with suppress(DecisionRefusedError):  # it was decided
        mortal.decide(str(approval.pk), str(user_id))


def test_an_observation_is_whole_and_published_once(committed_db: Database) -> None:
    approver = make_user("Approver")
    seen = set()
    with lives("settle") as die:
        for number in kill_points(every=2):
            deal, operation = purchase(number, approver)
            killed = die(number, operation.pk)
            seen.add(settled_parts(operation, deal))
            verifies(operation, deal)
            mortal.settle(str(operation.pk))
            assert settled_parts(operation, deal) == ("completed", True, True, "booked")
            assert operation.observations.filter(outcome="applied").count() == 1
            verifies(operation, deal)
            if not killed:
                break
    assert seen == {
        ("calling_adcp", False, False, "booking"),
        ("completed", True, False, "booking"),
        ("completed", True, True, "booked"),
    }
    assert number > 5
    everything_verifies()


def purchase(number: int, approver: object) -> tuple[Deal, Operation]:
    """A deal whose purchase is with the seller."""
    deal = make_deal(seller=make_seller(f"Seller {number}"))
    approve_deal(deal, approver=approver)  # type: ignore[arg-type]
    operation = deal_book(deal=deal)
    claim_one(operation_id=operation.pk)
    return deal, operation


def settled_parts(operation: Operation, deal: Deal) -> tuple[str, bool, bool, str]:
    """Its status, whether the observation that led there is kept, whether it is published, the deal's."""
    operation.refresh_from_db()
    deal.refresh_from_db()
    applied = operation.observations.filter(outcome="applied").exists()
    assert applied == (operation.settled_at is not None)
    return operation.status, applied, operation.published_at is not None, deal.status
