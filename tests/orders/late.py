"""A deal whose purchase becomes overdue, and what the seller says of it afterwards."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from orders.models import Deal, UnclaimedBuy
from orders.services import deal_book, deal_locked
from orders.unclaimed.question import UNCLAIMED
from orders.unclaimed.unclaimed_buys import record_unclaimed
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.operations.answers import operation_answer
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.pauses import continuation_current
from tasks_app.operations.publish import publish
from tasks_app.people.models import User
from tasks_app.sellers.models import Account, Seller
from tests.factories import approve_deal, make_deal, make_user
from tests.operations.making import give_back, observed

BUY = "nrl-58213"


def booking(seller: Seller | None = None, approver: User | None = None) -> tuple[Deal, Operation]:
    """A deal in booking, its purchase with the seller as task-<deal>."""
    account = Account.objects.filter(seller=seller).first()
    deal = make_deal(seller=seller, account=account is None)
    if account is not None:
        Deal.objects.filter(pk=deal.pk).update(account=account)
        deal = fresh(deal)
    approve_deal(deal, approver=approver)
    operation = deal_book(deal=deal)
    claim_one(operation_id=operation.pk)
    say(operation, "submitted", channel="reply")
    return fresh(deal), operation


def bought(deal: Deal, media_buy_id: str = BUY, **changed: Any) -> dict[str, Any]:
    """What a seller answers to create_media_buy."""
    packages = [
        {
            "package_id": f"pkg-{line.position}",
            "product_id": line.product_id,
            "pricing_option_id": line.pricing_option_id,
            "budget": float(line.budget),
            "context": {"line_id": str(line.pk)},
        }
        for line in deal.lines.all()
    ]
    packages[0].update(changed)
    return {"media_buy_id": media_buy_id, "media_buy_status": "pending_start", "packages": packages}


def unclaimed(deal: Deal, media_buy_id: str = BUY, **changed: Any) -> None:
    """The seller lists a media buy that was made for a deal and that no deal holds."""
    with transaction.atomic():
        record = {**bought(deal, media_buy_id, **changed), "status": "active"}
        assert record_unclaimed(deal_locked(deal.pk), record, source=UnclaimedBuy.Source.LISTED)


def kept(lost: Deal, media_buy_id: str = BUY) -> Deal:
    """People keep a media buy that was made for a lost deal."""
    unclaimed(lost, media_buy_id)
    decide(UNCLAIMED, "approve")
    return Deal.objects.get(follows=lost, media_buy_id=media_buy_id)


def say(
    operation: Operation,
    status: str,
    payload: dict[str, Any] | None = None,
    *,
    channel: str = "poll",
    task_id: str | None = None,
) -> Any:
    """The seller's word, and what follows from it."""
    seen = Seen(
        kind="answer",
        status=status,
        raw_status=status,
        payload=payload,
        task_id=task_id or f"task-{operation.reference}",
        raw={"status": status, "result": payload},
    )
    seen = observed(operation_id=operation.pk, seen=seen, channel=channel)  # type: ignore[assignment]
    publish(operation_id=operation.pk)
    return seen


def overdue(operation: Operation) -> None:
    # Looked up in vain, where its call has no answer, and nobody waits for one.
    now = clock.now()
    Operation.objects.filter(pk=operation.pk).update(deadline_at=now, looked_up_at=now)
    give_back(operation.pk)
    assert time_out_due(limit=10) == 1


def decide(kind: str, verdict: str, *, user: User | None = None) -> Approval:
    asked = Approval.objects.get(kind=kind, status="open")
    return approval_decide(
        approval_id=asked.pk, user=user or make_user("Approver"), verdict=verdict, comment="So."
    )


def give_up(operation: Operation, *, published: bool = True) -> None:
    overdue(operation)
    decide("overdue", "reject")
    if published:
        assert publish(operation_id=operation.pk)


def ended(operation: Operation, status: str, payload: dict[str, Any] | None = None) -> None:
    """The seller answers a call that is about to be made."""
    claim_one(operation_id=operation.pk)
    seen = Seen(kind="answer", status=status, raw_status=status, payload=payload)
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    publish(operation_id=operation.pk)


def ignored(operation: Operation, media_buy_id: str) -> None:
    """The seller says that the change is completed; its answer shows that nothing was changed."""
    ended(operation, "completed", {"media_buy_id": media_buy_id, "media_buy_status": "pending_start"})


def cancellation() -> Operation:
    return Operation.objects.filter(task_type="update_media_buy").latest("id")


def fresh(deal: Deal) -> Deal:
    return Deal.objects.select_related("seller", "team", "account", "advertiser").get(pk=deal.pk)


def paused(operation: Operation, status: str = "input-required", asked: str = "Which markets?") -> Operation:
    """The call goes out, and its seller pauses it in a way that can be answered."""
    Seller.objects.filter(pk=operation.seller_id).update(protocol="a2a", slots=9)
    assert claim_one(operation_id=operation.pk) is not None
    identity = {"task_id": "native-task", "context_id": "native-context"}
    seen = Seen(kind="answer", status=status, raw_status=status, message=asked, continuation=identity)
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    give_back(operation.pk)
    return Operation.objects.select_related("seller", "team", "account").get(pk=operation.pk)


def answered(operation: Operation, text: str = "Sweden.", **changes: Any) -> Continuation:
    """Ad Ops answer; somebody else is to let it go."""
    current = continuation_current(operation)
    assert current is not None
    return operation_answer(
        operation_id=operation.pk,
        generation=current.generation,
        user=make_user("Ad Ops"),
        text=text,
        changes=changes,
    )
