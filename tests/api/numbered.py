"""Orders under a purchase-order number, as an integrator asks for them, and what becomes of them."""

from __future__ import annotations

from typing import Any

from rest_framework.test import APIClient

from orders.models import Deal
from orders.services import deal_book
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tests.api.asks import ROOM, purchase
from tests.factories import make_user
from tests.orders import late


def ask(api: APIClient, body: dict[str, Any]) -> Any:
    return api.post(ROOM, body, format="json")


def decide(approval: Approval, verdict: str) -> None:
    approval_decide(approval_id=approval.pk, user=make_user("Approver"), verdict=verdict, comment="So.")


def questions() -> list[tuple[str, str]]:
    return list(Approval.objects.order_by("id").values_list("kind", "status"))


def held_by(deal: Deal) -> Approval:
    """The question about the number, which that deal holds; the order that was asked for waits for it."""
    asked = Approval.objects.get(kind="po_number", status="open")
    assert [one["deal"] for one in asked.evidence["used_by"]] == [deal.reference]
    assert not Approval.objects.filter(kind="deal", status="open").exists()
    return asked


def another(budget: int = 700) -> dict[str, Any]:
    """Another order under the number."""
    body = purchase(po_number="PO-4711")
    body["arguments"]["packages"][0]["budget"] = budget
    body["arguments"]["total_budget"]["amount"] = budget
    return body


def placed(api: APIClient, body: dict[str, Any]) -> tuple[Deal, Operation]:
    """What was asked for, approved, and with the seller."""
    assert ask(api, body).status_code == 202
    asked = Deal.objects.latest("id")
    decide(Approval.objects.get(kind="deal", subject_id=asked.pk), "approve")
    operation = deal_book(deal=late.fresh(asked))
    claim_one(operation_id=operation.pk)
    late.say(operation, "submitted", channel="reply")
    return late.fresh(asked), operation


def cancelled_later(deal: Deal, operation: Operation) -> None:
    late.say(operation, "completed", late.bought(deal))
    transition(late.fresh(deal), "cancelled", actor="system", reason="The seller cancelled it.")


def given_up(deal: Deal, operation: Operation) -> None:
    late.give_up(operation)


def refused(deal: Deal, operation: Operation) -> None:
    late.say(operation, "rejected")
