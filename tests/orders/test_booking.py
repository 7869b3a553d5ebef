"""From an approved deal to a booked one: guards, confirmation, departures, losses, late answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from orders.models import Deal, DealStatus
from orders.questions import DEAL, DIFFERENT, ask_deal
from orders.seller_state import deal_follow
from orders.services import deal_book
from orders.unclaimed.question import UNCLAIMED
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals import kinds
from tasks_app.approvals.evidence import differences as evidence_differences
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import approval_decide, approvals_expire_due
from tasks_app.lifecycle.errors import InvalidTransitionError
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import transition
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tasks_app.operations.services import OperationRefusedError
from tasks_app.sellers.models import Account
from tests.factories import approve_deal, make_deal, make_line, make_user
from tests.operations.making import observed

pytestmark = pytest.mark.django_db


def confirmed(deal: Deal, **changed: Any) -> dict[str, Any]:
    """What a seller answers to create_media_buy, with some things changed in the first package."""
    packages = [
        {
            "package_id": f"pkg-{line.position}",
            "product_id": line.product_id,
            "pricing_option_id": line.pricing_option_id,
            "budget": float(line.budget),
            "start_time": line.start_at.isoformat(),
            "end_time": line.end_at.isoformat(),
            "targeting_overlay": line.targeting,
            "context": {"line_id": str(line.pk)},
        }
        for line in deal.lines.all()
    ]
    packages[0].update(changed)
    return {
        "media_buy_id": "nrl-58213",
        "media_buy_status": "pending_creatives",
        "revision": 1,
        "valid_actions": ["sync_creatives", "cancel"],
        "creative_deadline": "2030-11-20T17:00:00-05:00",
        "packages": packages,
    }


def settle(
    operation: Operation, status: str, payload: dict[str, Any] | None = None, message: str = ""
) -> None:
    """The seller answers the call that is out."""
    claim_one(operation_id=operation.pk)
    observed(
        operation_id=operation.pk,
        seen=Seen(kind="answer", status=status, payload=payload, message=message or None),
        channel="reply",
    )
    publish(operation_id=operation.pk)


@pytest.fixture
def booking() -> tuple[Deal, Operation]:
    """A deal in booking and its purchase, about to be sent."""
    deal = make_deal(make_line(), make_line(channel="display", product_id="prod-dsp", budget=Decimal(61_500)))
    approve_deal(deal)
    operation = deal_book(deal=deal)
    deal.refresh_from_db()
    return deal, operation


def test_booking_needs_an_approval() -> None:
    deal = make_deal()
    with pytest.raises(InvalidTransitionError, match="no matching transition rule"):
        transition(deal, DealStatus.BOOKING, actor="system")
    transition(deal, DealStatus.ACCEPTED, actor="system")
    with pytest.raises(InvalidTransitionError, match="nobody has approved it"):
        transition(deal, DealStatus.BOOKING, actor="system")
    deal.refresh_from_db()
    assert deal.status == DealStatus.ACCEPTED


@pytest.mark.parametrize("kind", sorted(kinds._kinds.keys() - {DEAL}))
def test_an_approval_of_something_else_about_the_deal_spends_nothing(kind: str) -> None:
    """A purchase-order number, a departure, a change: whatever was approved, it was not the purchase."""
    deal = make_deal()
    transition(deal, DealStatus.ACCEPTED, actor="system")
    approved = ask_deal(deal)
    Approval.objects.filter(pk=approved.pk).update(kind=kind)
    transition(approved, "approved", actor="system")
    with pytest.raises(InvalidTransitionError, match="nobody has approved it"):
        transition(deal, DealStatus.BOOKING, actor="system")
    if kind != UNCLAIMED:  # the decision that keeps a purchase made late is named by whoever keeps it
        with pytest.raises(InvalidTransitionError, match="nobody has approved it"):
            transition(deal, DealStatus.BOOKING, actor="system", context={"approval_id": approved.pk})
    Approval.objects.filter(pk=approved.pk).update(kind=DEAL)
    transition(deal, DealStatus.BOOKING, actor="system")


@pytest.mark.parametrize("status", sorted(set(ApprovalStatus.values) - {"approved"}))
def test_a_question_about_the_deal_that_nobody_approved_spends_nothing(status: str) -> None:
    deal = make_deal()
    transition(deal, DealStatus.ACCEPTED, actor="system")
    asked = ask_deal(deal)
    if status != "open":
        transition(asked, status, actor="system")
    with pytest.raises(InvalidTransitionError, match="nobody has approved it"):
        transition(deal, DealStatus.BOOKING, actor="system")


@pytest.mark.parametrize("status", [None, *sorted(set(Account.Status.values) - {"active"})])
def test_booking_needs_an_active_account(status: str | None) -> None:
    deal = make_deal(account=status is not None)
    approve_deal(deal)
    Account.objects.update(status=status or "")
    deal = Deal.objects.get(pk=deal.pk)
    for attempt in (lambda: deal_book(deal=deal), lambda: transition(deal, "booking", actor="system")):
        with pytest.raises(InvalidTransitionError, match=f"{deal.advertiser}|{deal.seller}"):
            attempt()
    deal.refresh_from_db()
    assert deal.status == DealStatus.ACCEPTED
    assert not Operation.objects.exists()


def test_the_purchase_says_what_was_approved_and_is_made_once(booking: tuple[Deal, Operation]) -> None:
    deal, operation = booking
    assert deal.status == DealStatus.BOOKING
    assert deal_book(deal=deal).pk == operation.pk
    assert Operation.objects.filter(task_type="create_media_buy").count() == 1
    sent = operation.request
    assert [p["budget"] for p in sent["packages"]] == [10250, 61500]
    assert sent["account"] == {"account_id": "acc-norrland-digital"}
    assert sent["context"]["deal_id"] == str(deal.pk)
    assert sent["packages"][0]["context"]["line_id"] == str(deal.lines.get(position=1).pk)


def test_a_confirmation_as_approved_books_the_deal(booking: tuple[Deal, Operation]) -> None:
    deal, operation = booking
    settle(operation, "completed", confirmed(deal))
    deal.refresh_from_db()
    assert (deal.status, deal.media_buy_id, deal.media_buy_status) == (
        "booked",
        "nrl-58213",
        "pending_creatives",
    )
    assert deal.creative_deadline is not None
    assert (deal.differs, deal.differences) == (False, [])
    assert deal.lines.get(position=1).confirmed_budget == deal.lines.get(position=1).budget
    assert verify_entity("deal", deal.pk).ok


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("budget", lambda deal: {"budget": 9665.75}),
        ("start", lambda deal: {"start_time": (deal.start_at + timedelta(days=1)).isoformat()}),
        ("end", lambda deal: {"end_time": (deal.end_at - timedelta(days=1)).isoformat()}),
        ("rate", lambda deal: {"bid_price": 15.1}),
        ("targeting", lambda deal: {"targeting_overlay": {"geo_countries": ["CA"]}}),
        ("targeting", lambda deal: {"targeting_overlay": {"geo_countries": []}}),
        ("targeting", lambda deal: {"targeting_overlay": {"geo_countries": None}}),
        ("targeting", lambda deal: {"targeting_overlay": {"device_type": ["mobile"]}}),
        ("targeting", lambda deal: {"targeting_overlay": {}}),
    ],
)
def test_any_material_departure_is_flagged_and_asked_about(
    booking: tuple[Deal, Operation], field: str, change: Callable[[Deal], dict[str, Any]]
) -> None:
    deal, operation = booking
    settle(operation, "completed", confirmed(deal, **change(deal)))
    deal.refresh_from_db()
    assert deal.status == DealStatus.BOOKED
    assert deal.differs
    assert [found["field"] for found in deal.differences] == [field]
    asked = Approval.objects.get(kind=DIFFERENT)
    assert asked.evidence["differences"] == deal.differences
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve", comment="Fine.")
    deal.refresh_from_db()
    assert not deal.differs
    assert deal.differences == []
    entry = AuditEntry.objects.filter(entity_id=deal.pk).latest("seq")
    assert (entry.reason, entry.metadata["lines"][0] == entry.metadata["lines"][1]) == ("Fine.", False)


def whole(deal: Deal, total: float | None) -> dict[str, Any]:
    """A confirmation whose packages have no budgets of their own."""
    told = confirmed(deal)
    for package in told["packages"]:
        del package["budget"]
    return told if total is None else {**told, "total_budget": total}


@pytest.mark.parametrize(("total", "differs"), [(71_750, False), (60_000.5, True), (None, False)])
def test_a_total_without_package_budgets_is_compared_with_what_was_approved(
    booking: tuple[Deal, Operation], total: float | None, differs: bool
) -> None:
    deal, operation = booking
    settle(operation, "completed", whole(deal, total))
    deal.refresh_from_db()
    assert deal.differs == differs
    told = {"line": 0, "product": "The media buy", "field": "total_budget"}
    expected = [{**told, "approved": "71750", "confirmed": "60000.5"}] if differs else []
    assert deal.differences == expected
    if differs:
        (shown,) = evidence_differences(Approval.objects.get(kind=DIFFERENT))
        assert (shown.confirmed, shown.approved) == ("60,000.50", "71,750.00")
        assert shown.change.startswith("−11,749.50")


def test_a_total_that_differs_stays_so_until_the_seller_states_another(
    booking: tuple[Deal, Operation],
) -> None:
    deal, operation = booking
    settle(operation, "completed", whole(deal, 150_000))

    deal = deal_follow(deal_id=deal.pk, buy={**whole(deal, None), "revision": 2}, asked_at=clock.now())
    assert deal.differs, "it says nothing of the total"
    deal = deal_follow(deal_id=deal.pk, buy={**whole(deal, 71_750), "revision": 3}, asked_at=clock.now())
    assert (deal.differs, deal.differences) == (False, [])
    assert Approval.objects.get(kind=DIFFERENT).status == "voided"


def test_what_the_seller_adds_to_the_targeting_is_no_departure(booking: tuple[Deal, Operation]) -> None:
    deal, operation = booking
    added = {"geo_countries": ["US"], "device_type": ["mobile"]}
    settle(operation, "completed", confirmed(deal, targeting_overlay=added))
    deal.refresh_from_db()
    assert not deal.differs


def test_rejecting_a_departure_asks_the_seller_to_cancel(booking: tuple[Deal, Operation]) -> None:
    deal, operation = booking
    settle(operation, "completed", confirmed(deal, budget=1.0))
    asked = Approval.objects.get(kind=DIFFERENT)
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="reject", comment="Too little.")
    cancel = Operation.objects.get(task_type="update_media_buy")
    assert cancel.request["canceled"] is True
    deal.refresh_from_db()
    assert deal.status == DealStatus.BOOKED, "it is booked until the seller has cancelled it"
    settle(cancel, "completed", {"media_buy_id": "nrl-58213", "media_buy_status": "canceled"})
    deal.refresh_from_db()
    assert (deal.status, deal.media_buy_status) == ("cancelled", "canceled")


@pytest.mark.parametrize(
    ("told", "becomes"), [("rejected", "failed"), ("failed", "failed"), ("canceled", "cancelled")]
)
def test_a_lost_purchase_ends_the_deal_and_says_why(
    booking: tuple[Deal, Operation], told: str, becomes: str
) -> None:
    deal, operation = booking
    settle(operation, told, message="Competitive separation")
    deal.refresh_from_db()
    assert deal.status == becomes
    trail = verify_entity("deal", deal.pk)
    assert trail.ok
    from tasks_app.lifecycle.models import AuditEntry

    last = AuditEntry.objects.filter(entity_id=deal.pk).order_by("-seq")[0]
    assert "Competitive separation" in last.reason
    assert last.actor == "agent:norrland-digital"


def overdue(operation: Operation) -> None:
    claim_one(operation_id=operation.pk)
    observed(
        operation_id=operation.pk,
        channel="reply",
        seen=Seen(kind="answer", status="submitted", task_id="task-1"),
    )
    assert operation.deadline_at is not None
    late = operation.deadline_at + timedelta(minutes=1)
    with clock.injected(lambda: late):
        assert time_out_due(limit=10) == 1


def complete_late(deal: Deal, operation: Operation) -> None:
    seen = Seen(kind="answer", status="completed", task_id="task-1", payload=confirmed(deal))
    observed(operation_id=operation.pk, seen=seen, channel="poll")
    publish(operation_id=operation.pk)


def test_a_purchase_completed_after_its_deadline_waits_for_a_person(booking: tuple[Deal, Operation]) -> None:
    deal, operation = booking
    overdue(operation)
    complete_late(deal, operation)
    deal.refresh_from_db()
    assert deal.status == DealStatus.BOOKING
    asked = Approval.objects.get(kind=UNCLAIMED)
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve", comment="Keep it.")
    deal.refresh_from_db()
    assert deal.status == DealStatus.BOOKED


def test_a_purchase_completed_after_it_was_given_up_is_kept_as_a_new_deal(
    booking: tuple[Deal, Operation],
) -> None:
    deal, operation = booking
    overdue(operation)
    asked = Approval.objects.get(kind="overdue")
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="reject", comment="Enough.")
    publish(operation_id=operation.pk)
    deal.refresh_from_db()
    assert deal.status == DealStatus.FAILED

    complete_late(deal, operation)
    late = Approval.objects.get(kind=UNCLAIMED)
    approval_decide(approval_id=late.pk, user=make_user("Approver"), verdict="approve", comment="Keep it.")
    deal.refresh_from_db()
    kept = Deal.objects.exclude(pk=deal.pk).get()
    assert deal.status == DealStatus.FAILED, "a terminal deal is never reopened"
    assert (kept.status, kept.media_buy_id) == ("booked", "nrl-58213")
    assert kept.reasons["replaces"] == deal.reference
    assert verify_entity("deal", kept.pk).ok


def test_a_purchase_completed_too_late_can_be_cancelled_at_the_seller(
    booking: tuple[Deal, Operation],
) -> None:
    deal, operation = booking
    overdue(operation)
    complete_late(deal, operation)
    asked = Approval.objects.get(kind=UNCLAIMED)
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="reject", comment="Too late.")
    cancel = Operation.objects.get(task_type="update_media_buy")
    assert cancel.request["media_buy_id"] == "nrl-58213"
    settle(cancel, "completed", {"media_buy_id": "nrl-58213", "media_buy_status": "canceled"})
    deal.refresh_from_db()
    assert deal.status == DealStatus.CANCELLED


def test_a_deal_that_nobody_accepted_buys_nothing() -> None:
    deal = make_deal()
    transition(deal, DealStatus.CANCELLED, actor="system")
    with pytest.raises(OperationRefusedError, match="is cancelled, not accepted"):
        deal_book(deal=deal)
    assert not Operation.objects.filter(task_type="create_media_buy").exists()


@pytest.mark.parametrize(
    "odd",
    [
        {"media_buy_id": "x" * 300},
        {"media_buy_status": "y" * 300},
        {"revision": -1},
        {"revision": 2**40},
        {"revision": True},
        {"creative_deadline": "9999-12-31T23:59:59-12:00"},
        {"packages": [{"product_id": "prod-olv", "budget": 1e300}]},
        {"packages": "none", "valid_actions": {"a": 1}},
        {"media_buy_id": None},
    ],
)
def test_whatever_a_seller_confirms_the_deal_is_booked_or_flagged(
    booking: tuple[Deal, Operation], odd: dict[str, Any]
) -> None:
    deal, operation = booking
    settle(operation, "completed", {**confirmed(deal), **odd})
    deal.refresh_from_db()
    assert deal.status == DealStatus.BOOKED
    assert deal.differs == (not deal.media_buy_id or isinstance(odd.get("packages"), list))


def test_a_media_buy_that_is_another_deals_is_not_this_ones(booking: tuple[Deal, Operation]) -> None:
    deal, operation = booking
    other = make_deal(seller=deal.seller, account=False)
    Deal.objects.filter(pk=other.pk).update(media_buy_id="nrl-58213")
    settle(operation, "completed", confirmed(deal))
    deal.refresh_from_db()
    assert (deal.status, deal.media_buy_id, deal.differs) == ("failed", "", False)
    assert not Approval.objects.filter(status="open").exists()


def test_a_cancellation_the_seller_refuses_opens_the_question_again(
    booking: tuple[Deal, Operation],
) -> None:
    deal, operation = booking
    settle(operation, "completed", confirmed(deal, budget=1.0))
    for attempt in (1, 2):
        asked = Approval.objects.get(kind=DIFFERENT, status="open")
        approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="reject", comment="No.")
        cancel = Operation.objects.filter(task_type="update_media_buy").latest("id")
        assert cancel.purpose.endswith(f":{attempt}")
        settle(cancel, "rejected", message="Too late to cancel")
    deal.refresh_from_db()
    assert (deal.status, deal.differs) == ("booked", True)
    assert Approval.objects.filter(kind=DIFFERENT, status="open").count() == 1


@pytest.mark.parametrize("kind", [DIFFERENT, UNCLAIMED])
def test_a_question_about_a_bought_deal_that_nobody_answers_is_asked_again(
    booking: tuple[Deal, Operation], kind: str
) -> None:
    deal, operation = booking
    if kind == UNCLAIMED:
        overdue(operation)
        complete_late(deal, operation)
    else:
        settle(operation, "completed", confirmed(deal, budget=1.0))
    first = Approval.objects.get(kind=kind)
    with clock.injected(lambda: first.due_at + timedelta(minutes=1)):
        assert approvals_expire_due() >= 1
    second = Approval.objects.get(kind=kind, status="open")
    assert second.pk != first.pk
