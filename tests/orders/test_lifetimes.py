"""A question lives as long as its subject: each kind, each thing that can happen to what it is about. What
changes, or changes hands, is in test_changing_subjects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orders.acts import deal_cancel_ask, deal_withdraw
from orders.models import Deal
from orders.questions import DIFFERENT
from orders.seller_state import deal_follow
from orders.services import deal_book, deal_withdraw_held, purchases_of
from orders.unclaimed.question import UNCLAIMED
from tasks_app import clock
from tasks_app.approvals.kinds import kind_names, kind_of
from tasks_app.approvals.models import Approval
from tasks_app.approvals.selectors import obstacle
from tasks_app.approvals.subjects import questions_end_with_job
from tasks_app.commands.models import Command
from tasks_app.commands.questions import gates_ask_again
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import PENDING, Operation
from tasks_app.operations.publish import publish
from tasks_app.operations.services import operation_withdraw
from tasks_app.sellers.models import Seller
from tasks_app.sellers.trust import trust_locked, trust_withdraw
from tests.factories import approve_deal, make_deal, make_line, make_user
from tests.operations.making import give_back
from tests.orders import live
from tests.orders.asking import ASKED, asked, booked
from tests.orders.late import BUY, bought, cancellation, decide, ended, fresh, overdue, say
from tests.orders.live import packages, says
from tests.support import undone

pytestmark = pytest.mark.django_db
SOMEBODY, NOBODY = "somebody is asked", "nobody is needed"


def deal_of(asked_now: Approval) -> Deal | None:
    """The deal that a question is about, by whatever it names."""
    if asked_now.subject_type == "deal":
        return Deal.objects.get(pk=asked_now.subject_id)
    operation = operation_of(asked_now)
    about = operation.subject_id if operation is not None and operation.subject_type == "deal" else None
    return Deal.objects.filter(pk=about).first()


def operation_of(asked_now: Approval) -> Operation | None:
    kind, pk = asked_now.subject_type, asked_now.subject_id
    if kind == "command":
        pk = Command.objects.get(pk=pk).operation_id
    elif kind == "conflict":
        pk = Conflict.objects.get(pk=pk).operation_id
    return Operation.objects.filter(pk=pk).first()


def its_subject_ends(first: Approval) -> None:
    """By whoever ends it: a person withdraws it, its seller ends it."""
    deal, operation = deal_of(first), operation_of(first)
    if first.kind == "seller_trust":
        change = trust_locked(first.subject_id)
        assert change is not None
        trust_withdraw(change, actor="system")
    elif deal is not None and first.kind == "deal" and deal.status == "booking":
        purchase = purchases_of(deal).get()  # approved, and found to be another before it left
        operation_withdraw(operation=purchase, actor="system", reason="It is not to be bought", tell=True)
        publish(operation_id=purchase.pk)
    elif first.kind == "deal":
        deal_withdraw(deal_id=first.subject_id, user=make_user("Buyer"), reason="It is not to be bought")
    elif deal is not None and deal.status == "accepted":
        transition(deal, "cancelled", actor="system", reason="It is not to be bought")
        deal_withdraw_held(deal=deal, reason="It is not to be bought", actor="system", rights=())
        gates_ask_again()
    elif deal is not None and deal.media_buy_id:
        gone(deal, deal.media_buy_id)
        live.withdraw_obsolete()
        gates_ask_again()
    elif operation is not None:
        give_back(operation.pk)
        say(operation, "failed", task_id=operation.task_id or None)
        gates_ask_again()


def gone(deal: Deal, media_buy_id: str) -> None:
    buy = {"media_buy_id": media_buy_id, "status": "canceled", "context": {"deal_id": str(deal.pk)}}
    deal_follow(deal_id=deal.pk, buy=buy, asked_at=clock.now())


def its_job_ends(first: Approval) -> None:
    questions_end_with_job([first.pk], reason="The job was cancelled", actor="system", rights=())


def its_seller_goes_off(_first: Approval) -> None:
    Seller.objects.update(active=False)


def it_becomes_overdue(approval: Approval) -> None:
    """Its operation, where that waits for its seller."""
    operation = operation_of(approval)
    if operation is not None and operation.status in PENDING:
        overdue(operation)


HAPPENS: dict[str, Callable[[Approval], None]] = {
    "it ends": its_subject_ends,
    "its job ends": its_job_ends,
    "its seller goes off": its_seller_goes_off,
    "it becomes overdue": it_becomes_overdue,
}
# What stays a person's although its subject ended: a contradiction that was told, a late purchase that its
# seller also calls failed now. Each way in which these can end is tried below.
STAYS = {("a contradiction", "it ends"), ("a late purchase", "it ends")}
# What is about something that a seller holds, or that no job asked for alone, outlives the job.
OUTLIVE = {DIFFERENT, UNCLAIMED, "deal_change", "conflict", "seller_trust"}
OUTLIVE |= {"overdue", "settle_by_hand", "answer"}


def expected(what: str, kind: str, happening: str) -> str:
    if happening == "it ends":
        return SOMEBODY if (what, happening) in STAYS else NOBODY
    if happening == "its job ends":
        return SOMEBODY if kind in OUTLIVE else NOBODY
    if happening == "it becomes overdue":
        return NOBODY if kind == "answer" else SOMEBODY
    return SOMEBODY


def test_every_kind_is_tried() -> None:
    assert {kind for kind, _ in ASKED.values()} == kind_names().keys()


@pytest.mark.parametrize("what", ASKED)
def test_either_somebody_is_asked_or_nobody_needed(what: str) -> None:
    first = asked(what, make_user("Administrator"))
    found = {}
    for happening, happens in HAPPENS.items():
        with undone():
            happens(Approval.objects.get(pk=first.pk))
            found[happening] = outcome(first)
    assert found == {happening: expected(what, first.kind, happening) for happening in HAPPENS}


def outcome(first: Approval) -> str:
    """Exactly one of the two: an open question that people can decide on, or none and nothing to decide."""
    live.withdraw_obsolete()
    now = Approval.objects.filter(
        kind=first.kind, subject_type=first.subject_type, subject_id=first.subject_id, status="open"
    ).first()
    if now is None:
        return NOBODY
    assert kind_of(now).version(now) is not None, "somebody is asked about what needs nobody"
    assert obstacle(now, make_user("Approver"), []) == ""
    return SOMEBODY


# ---- every way in which the subjects of those that may stay end


def _says(operation: Operation, status: str, payload: dict[str, Any] | None = None) -> None:
    say(operation, status, payload, task_id=operation.task_id or None)


def _buy_says(deal: Deal, status: str) -> None:
    """Its seller's list shows the media buy in that state."""
    buy = {"media_buy_id": BUY, "status": status, "context": {"deal_id": str(deal.pk)}}
    deal_follow(deal_id=deal.pk, buy=buy, asked_at=clock.now())


# How the purchase, its media buy or its deal goes on, by whoever brings it about.
ENDS: dict[str, Callable[[Deal, Operation], object]] = {
    "the seller says once more that it is completed": lambda deal, op: _says(op, "completed", bought(deal)),
    "the seller says that it failed": lambda deal, op: _says(op, "failed"),
    "the seller says that it rejected it": lambda deal, op: _says(op, "rejected"),
    "the seller says that it is canceled": lambda deal, op: _says(op, "canceled"),
    "the media buy is canceled": lambda deal, _op: _buy_says(deal, "canceled"),
    "the media buy is rejected": lambda deal, _op: _buy_says(deal, "rejected"),
    "the media buy runs": lambda deal, _op: _buy_says(deal, "active"),
    "another deal holds the media buy": lambda deal, _op: live.booked(deal.seller, media_buy_id=BUY),
}


# Of a late purchase, what leaves nothing to decide; a contradiction was told, and people say what holds.
OVER = {"the media buy is canceled", "the media buy is rejected", "another deal holds the media buy"}


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("what", ["a contradiction", "a late purchase"])
def test_a_question_ends_with_its_subject_or_can_still_be_decided(what: str, how: str) -> None:
    first = asked(what, make_user("Administrator"))
    deal, operation = deal_of(first), operation_of(first)
    assert deal is not None
    ENDS[how](deal, operation or purchases_of(deal).get())
    over = what == "a late purchase" and how in OVER
    assert outcome(first) == (NOBODY if over else SOMEBODY)
    first.refresh_from_db()
    assert first.status == ("voided" if over else "open"), "the same question, not another in its place"
    if not over:
        decide(first.kind, "approve")
        assert outcome(first) == NOBODY


# ---- a departure


def departing() -> Deal:
    deal, _ = booked(make_user("Buyer"), budget=12_000.0)
    return deal


@pytest.mark.parametrize(("verdict", "differs"), [("approve", False), ("reject", True)])
def test_a_departure_undecided_at_completion_can_be_decided(verdict: str, differs: bool) -> None:
    deal = departing()
    with clock.injected(lambda: deal.end_at):
        says(deal, "completed", final=True, packages=packages(deal, budget=12_000.0))
    assert deal.status == "completed"
    decide(DIFFERENT, verdict)
    deal.refresh_from_db()
    assert deal.differs is differs
    assert not Operation.objects.filter(task_type="update_media_buy").exists(), "nothing is left to cancel"
    assert not Approval.objects.filter(status="open").exists()
    assert "So." in AuditEntry.objects.filter(entity_id=deal.pk).latest("seq").reason


def test_a_departure_after_our_own_cancellation_is_withdrawn() -> None:
    deal = departing()
    deal_cancel_ask(deal_id=deal.pk, user=make_user("Buyer"), reason="No more")
    decide("deal_change", "approve")
    ended(cancellation(), "completed", {"media_buy_id": BUY, "media_buy_status": "canceled"})
    live.withdraw_obsolete()
    assert not Approval.objects.filter(status="open").exists()


def test_a_cancellation_done_late_asks_nothing_more() -> None:
    deal, _ = booked(make_user("Buyer"))
    deal_cancel_ask(deal_id=deal.pk, user=make_user("Buyer"), reason="No more")
    decide("deal_change", "approve")
    operation = cancellation()
    claim_one(operation_id=operation.pk)
    say(operation, "submitted", channel="reply")
    overdue(operation)
    say(operation, "completed", {"media_buy_id": BUY, "media_buy_status": "canceled"})
    deal.refresh_from_db()
    assert deal.status == "cancelled"
    assert not Approval.objects.filter(status="open").exists()


def test_a_purchase_answered_with_the_media_buy_of_a_dead_deal_is_somebodys() -> None:
    dead = says(live.booked(), "canceled", revision=2)
    assert dead.status == "cancelled"
    deal = make_deal(make_line(), seller=dead.seller, account=False)
    Deal.objects.filter(pk=deal.pk).update(account=dead.account)
    approve_deal(fresh(deal))
    operation = deal_book(deal=fresh(deal))
    claim_one(operation_id=operation.pk)
    told = {**bought(fresh(deal), dead.media_buy_id), "media_buy_status": "active"}
    say(operation, "completed", told, channel="reply")
    deal = fresh(deal)
    assert (deal.status, deal.media_buy_id) == ("booked", "")
    assert Approval.objects.filter(subject_id=deal.pk, status="open").exists()
