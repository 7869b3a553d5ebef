"""What is sent is what was approved, at the moment it leaves: whatever of it, or of who pays, changes after
the decision puts it to people once more, and nothing has left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orders.acts import deal_cancel_ask
from orders.ask import Ask
from orders.changes.send import change_ask
from orders.models import Deal
from orders.questions import ask_deal
from orders.services import deal_book
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide, approvals_expire_due
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.commands.questions import gates_ask_again
from tasks_app.jobs.models import JOB_OPEN, Job, JobStatus
from tasks_app.jobs.worker import drain
from tasks_app.notifications.models import Notification
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish_due
from tasks_app.operations.services import operation_withdraw
from tasks_app.people.models import Advertiser
from tasks_app.sellers.models import Account, Seller
from tests.factories import approve_deal, make_deal, make_user
from tests.operations.making import give_back, not_sent, observed, silent
from tests.orders.late import bought, fresh, say
from tests.orders.live import booked, packages, says

pytestmark = pytest.mark.django_db

# What a purchase is bound to beside the deal's own rows, and how it changes.
CHANGES: dict[str, Callable[[], object]] = {
    "who pays": lambda: Account.objects.update(billing_party="The advertiser"),
    "payment terms": lambda: Account.objects.update(payment_terms="prepay"),
    "the account": lambda: Account.objects.update(reference={"account_id": "acc-another"}),
    "the brand": lambda: Advertiser.objects.update(brand_domain="another-brand.com"),
    "the advertiser": lambda: Advertiser.objects.update(name="Another Brand"),
    "the seller": lambda: Seller.objects.update(name="Another Seller"),
}


def open_question() -> Approval:
    return Approval.objects.get(status="open")


def decided(verdict: str = "approve") -> Approval:
    return approval_decide(
        approval_id=open_question().pk, user=make_user("Approver"), verdict=verdict, comment="As it is now."
    )


def released() -> tuple[Deal, Operation]:
    deal = make_deal()
    approve_deal(deal)
    return fresh(deal), deal_book(deal=deal)


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_before_the_decision_is_asked_anew(what: str) -> None:
    asked = ask_deal(make_deal())
    CHANGES[what]()
    with pytest.raises(DecisionRefusedError) as refused:
        approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve")
    assert refused.value.code == "changed"
    assert open_question().replaces == asked


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("when", ["after the decision", "after the release", "at the kill switch"])
def test_what_changes_before_it_leaves_is_asked_again(what: str, when: str) -> None:
    deal = make_deal()
    approved = approve_deal(deal)
    if when == "after the decision":
        CHANGES[what]()
    if when == "at the kill switch":
        kill_switch_set(on=True, reason="A drill", actor="system")
    operation = deal_book(deal=deal)
    if when != "after the decision":
        CHANGES[what]()
    if when == "at the kill switch":
        kill_switch_set(on=False, reason="Over", actor="system")
        gates_ask_again()
        operation = deal_book(deal=deal)

    assert claim_one(operation_id=operation.pk) is None
    assert claim_sends(limit=5) == []

    operation.refresh_from_db()
    assert (operation.status, operation.attempts, operation.send_at) == ("requested", 0, None)
    asked = open_question()
    assert (asked.kind, asked.replaces, asked.requested_by) == ("deal", approved, approved.requested_by)

    assert decided().status == "approved"
    assert claim_one(operation_id=operation.pk) is not None


def test_it_is_asked_as_often_as_it_changes() -> None:
    _, operation = released()
    for terms in ("prepay", "net_90"):
        Account.objects.update(payment_terms=terms)
        assert claim_one(operation_id=operation.pk) is None
        assert open_question().evidence["payment_terms"] == terms
        decided()
    Account.objects.update(payment_terms="net_7")
    assert claim_one(operation_id=operation.pk) is None
    Account.objects.update(payment_terms="net_14")
    with pytest.raises(DecisionRefusedError):
        decided()
    assert open_question().evidence["payment_terms"] == "net_14"
    decided()
    assert claim_one(operation_id=operation.pk) is not None


@pytest.mark.parametrize("end", ["rejected", "expired"])
def test_what_nobody_approves_again_is_never_sent(end: str) -> None:
    deal, operation = released()
    Account.objects.update(payment_terms="prepay")
    assert claim_one(operation_id=operation.pk) is None
    if end == "rejected":
        decided("reject")
    else:
        Approval.objects.filter(pk=open_question().pk).update(due_at=clock.now())
        approvals_expire_due()
    publish_due(limit=5)

    operation.refresh_from_db()
    assert (operation.status, operation.attempts) == ("canceled", 0)
    assert operation.published_at is not None  # its step goes on
    assert fresh(deal).status == "cancelled"
    assert not Approval.objects.filter(status="open").exists()


@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_the_job_that_buys_it_waits_for_that_word_and_goes_on(verdict: str) -> None:
    deal = make_deal()
    approve_deal(deal)
    drain()
    operation = Operation.objects.get(task_type="create_media_buy")
    Account.objects.update(payment_terms="prepay")
    assert claim_one(operation_id=operation.pk) is None
    drain()
    job = Job.objects.get(subject_id=deal.pk)
    assert (fresh(deal).status, job.status in JOB_OPEN) == ("booking", True)

    decided(verdict)
    if verdict == "approve":
        claim_one(operation_id=operation.pk)
        say(operation, "completed", bought(deal), channel="reply")
    publish_due(limit=5)
    drain()

    assert fresh(deal).status == ("booked" if verdict == "approve" else "cancelled")
    if verdict == "reject":
        job.refresh_from_db()
        assert job.status == JobStatus.COMPLETED


def test_a_withdrawn_purchase_takes_the_question_with_it() -> None:
    _, operation = released()
    Account.objects.update(payment_terms="prepay")
    assert claim_one(operation_id=operation.pk) is None
    operation.refresh_from_db()
    operation_withdraw(operation=operation, actor="system", reason="The job was cancelled", tell=True)
    publish_due(limit=5)
    assert not Approval.objects.filter(status="open").exists()


# ---- changes


def asked_change(deal: Deal, **arguments: Any) -> Operation:
    arguments = arguments or {"packages": [{"package_id": "pkg-1", "budget": 20000}]}
    told = {"media_buy_id": deal.media_buy_id, **arguments}
    asker = make_user("Integration")
    return change_ask(Ask(user=asker, task="update_media_buy", seller=deal.seller, arguments=told))


def latest() -> Operation:
    return Operation.objects.filter(task_type="update_media_buy").latest("pk")


def test_a_change_is_asked_again_where_the_seller_has_moved_on() -> None:
    deal = booked()
    operation = asked_change(deal)
    says(deal, "pending_start", revision=5, packages=packages(deal))  # the deal itself stays as it was

    with pytest.raises(DecisionRefusedError) as refused:
        decided()
    assert refused.value.code == "changed"
    operation.refresh_from_db()
    assert (operation.status, operation.attempts) == ("canceled", 0)
    assert latest().reference in operation.message
    assert (latest().request["revision"], open_question().evidence["revision"]) == (5, 5)
    assert latest().requested_by == operation.requested_by

    decided()
    assert claim_one(operation_id=latest().pk) is not None


@pytest.mark.parametrize("when", ["released", "at the kill switch"])
@pytest.mark.parametrize("what", ["an integrator's change", "a cancellation"])
def test_a_change_let_go_reads_what_the_seller_holds(what: str, when: str) -> None:
    deal = booked()
    if what == "a cancellation":
        deal_cancel_ask(deal_id=deal.pk, user=make_user("Buyer"), reason="The client withdrew")
    else:
        asked_change(deal)
    operation = latest()
    if when == "at the kill switch":
        kill_switch_set(on=True, reason="A drill", actor="system")
    approved = decided()
    says(deal, "pending_start", revision=5, packages=packages(deal))
    if when == "at the kill switch":
        kill_switch_set(on=False, reason="Over", actor="system")
        gates_ask_again()

    assert claim_one(operation_id=operation.pk) is None

    operation.refresh_from_db()
    assert (operation.status, operation.attempts) == ("canceled", 0)
    asked = open_question()
    assert (asked.replaces, asked.evidence["operation_id"]) == (approved, str(latest().pk))
    assert (latest().request["revision"], latest().send_at) == (5, None)
    decided()
    assert claim_one(operation_id=latest().pk) is not None


def test_a_cancellation_that_follows_from_another_decision_is_given_up_where_the_seller_moved_on() -> None:
    """What was refused is no more: people hear that the buy stands, and may cancel it."""
    deal = booked()
    says(deal, "pending_start", revision=2, packages=packages(deal, budget=12_000))
    kill_switch_set(on=True, reason="A drill", actor="system")
    decided("reject")  # what the seller booked otherwise: it is to be cancelled
    operation = latest()
    says(deal, "pending_start", revision=5, packages=packages(deal))  # and now it is as it was approved
    kill_switch_set(on=False, reason="Over", actor="system")
    gates_ask_again()

    assert claim_one(operation_id=operation.pk) is None
    operation.refresh_from_db()
    assert operation.status == "canceled"
    publish_due(limit=5)
    assert not Approval.objects.filter(status="open").exists()
    assert Notification.objects.filter(kind="buy_not_cancelled", subject_id=deal.pk).exists()


def test_a_cancellation_for_the_revision_there_is_leaves_at_once() -> None:
    deal = booked()
    says(deal, "pending_start", revision=2, packages=packages(deal, budget=12_000))
    decided("reject")
    assert claim_one(operation_id=latest().pk) is not None


def test_a_change_whose_account_changed_is_asked_again_as_it_stands() -> None:
    deal = booked()
    operation = asked_change(deal)
    decided()
    Account.objects.update(payment_terms="prepay")

    assert claim_one(operation_id=operation.pk) is None
    assert open_question().evidence["operation_id"] == str(operation.pk)
    decided()
    assert claim_one(operation_id=operation.pk) is not None


def test_a_change_of_a_media_buy_that_is_over_is_given_up() -> None:
    deal = booked()
    operation = asked_change(deal)
    decided()
    says(deal, "canceled", revision=5, packages=packages(deal))
    assert claim_one(operation_id=operation.pk) is None
    operation.refresh_from_db()
    assert operation.status == "canceled"
    assert not Approval.objects.filter(status="open").exists()


# ---- repeats


@pytest.mark.parametrize("bought", [False, True], ids=["certainly not had", "perhaps had"])
def test_a_repeat_of_what_certainly_was_not_had_asks_people(bought: bool) -> None:
    _, operation = released()
    assert claim_one(operation_id=operation.pk) is not None
    observed(operation_id=operation.pk, seen=silent() if bought else not_sent(), channel="reply")
    Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
    Account.objects.update(payment_terms="prepay")

    sent = [call.operation_id for call in claim_sends(limit=5)]

    assert sent == ([operation.pk] if bought else [])
    if not bought:
        assert open_question().kind == "risk_gate"
        assert "payment terms" in open_question().evidence["why"]
        decided()
        assert [call.operation_id for call in claim_sends(limit=5)] == [operation.pk]


TRIED = {"never arrived": not_sent(), "credentials awaited": Seen(kind="answer", status="auth-required")}


def tried(operation: Operation, seen: Seen) -> None:
    """An attempt that the seller has not taken; it is due again."""
    assert claim_one(operation_id=operation.pk) is not None
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    give_back(operation.pk)
    Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())


@pytest.mark.parametrize("what", ["a change", "a cancellation"])
@pytest.mark.parametrize("came", TRIED)
def test_a_repeated_change_is_asked_again_where_the_seller_has_moved_on(came: str, what: str) -> None:
    deal = booked()
    Seller.objects.update(slots=5)
    if what == "a change":
        asked_change(deal)
    else:
        deal_cancel_ask(deal_id=deal.pk, user=make_user("Buyer"), reason="The client withdrew")
    decided("approve")
    operation = latest()
    tried(operation, TRIED[came])
    says(deal, "pending_start", revision=5, packages=packages(deal, budget=90_000))

    assert [call for call in claim_sends(limit=5) if call.tool == "update_media_buy"] == []

    operation.refresh_from_db()
    assert (operation.status, operation.attempts) == ("failed", 1)
    assert latest().reference in operation.message
    asked = Approval.objects.get(kind="deal_change", status="open")
    assert (asked.evidence["operation_id"], asked.evidence["revision"]) == (str(latest().pk), 5)
    assert asked.evidence["sent"]["revision"] == 5


@pytest.mark.parametrize("came", TRIED)
def test_a_repeated_cancellation_that_follows_from_a_decision_asks_that_decision_again(came: str) -> None:
    deal = booked()
    Seller.objects.update(slots=5)
    says(deal, "pending_start", revision=2, packages=packages(deal, budget=12_000))
    decided("reject")
    operation = latest()
    tried(operation, TRIED[came])
    says(deal, "pending_start", revision=5, packages=packages(deal, budget=90_000))

    assert [call for call in claim_sends(limit=5) if call.tool == "update_media_buy"] == []
    publish_due(limit=5)

    operation.refresh_from_db()
    assert (operation.status, operation.attempts) == ("failed", 1)
    assert open_question().kind == "booked_differently"


def test_a_repeated_change_that_may_have_been_had_is_sent_again_as_it_was() -> None:
    deal = booked()
    Seller.objects.update(slots=5)
    operation = asked_change(deal)
    decided()
    tried(operation, silent())
    says(deal, "pending_start", revision=5, packages=packages(deal))
    (call,) = (call for call in claim_sends(limit=5) if call.tool == "update_media_buy")
    assert call.arguments["revision"] == 1


def test_a_repeated_change_is_sent_again_while_it_is_as_approved() -> None:
    deal = booked()
    Seller.objects.update(slots=5)
    operation = asked_change(deal)
    decided()
    tried(operation, not_sent())
    assert [call.operation_id for call in claim_sends(limit=5)] == [operation.pk]
