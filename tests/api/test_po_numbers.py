"""A purchase-order number used again: the same order answers the first one, another is shown as a warning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from orders.models import Deal
from orders.services import deal_book
from orders.unclaimed.question import UNCLAIMED
from tasks_app.approvals.models import Approval
from tasks_app.approvals.presenters import effects_of
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tests.api.asks import ROOM, purchase
from tests.factories import make_account, make_advertiser, make_user
from tests.orders import late

pytestmark = pytest.mark.django_db
USED = "purchase_order_used"


def ask(api: APIClient, body: dict[str, Any]) -> Any:
    told = api.post(ROOM, body, format="json")
    assert told.status_code == 202, told.content
    return told.json()


def another(number: str = "PO-4711", budget: int = 700) -> dict[str, Any]:
    """Another order under the number."""
    body = purchase(po_number=number)
    body["arguments"]["packages"][0]["budget"] = budget
    body["arguments"]["total_budget"]["amount"] = budget
    return body


def warning(deal: Deal) -> str:
    """What people are warned of when they decide whether to book a deal."""
    asked = Approval.objects.get(kind="deal", status="open", subject_id=deal.pk)
    said: str = asked.evidence.get(USED, "")
    assert said in effects_of(asked)["approve"]
    return said


def placed(api: APIClient, body: dict[str, Any]) -> tuple[Deal, Operation]:
    """What was asked for, approved, and with the seller."""
    ask(api, body)
    asked = Deal.objects.latest("id")
    decide(asked, "approve")
    operation = deal_book(deal=late.fresh(asked))
    claim_one(operation_id=operation.pk)
    late.say(operation, "submitted", channel="reply")
    return late.fresh(asked), operation


def decide(deal: Deal, verdict: str) -> None:
    asked = Approval.objects.get(kind="deal", status="open", subject_id=deal.pk)
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict=verdict, comment="So.")


def test_the_same_order_again_is_the_first_one(api: APIClient) -> None:
    body = purchase(po_number="PO-4711")
    assert ask(api, body)["operation_id"] == ask(api, body)["operation_id"]
    assert (Deal.objects.count(), Operation.objects.count(), Approval.objects.count()) == (1, 1, 1)


def test_another_order_under_a_number_that_left_is_a_warning(api: APIClient) -> None:
    first, _ = placed(api, purchase(po_number="PO-47 11"))
    for number in ("PO-47 11", "po-47  11", "PO-\u200b47 11", "ＰＯ-47 11"):
        ask(api, another(number))
        said = warning(Deal.objects.latest("id"))
        assert first.reference in said, "also under a number that looks the same"
    ask(api, another("PO-47 12"))
    assert warning(Deal.objects.latest("id")) == ""
    elsewhere = make_advertiser("Tamarack")
    make_account(elsewhere, first.seller).save()
    ask(api, purchase(po_number="PO-47 11", brand={"domain": elsewhere.brand_domain}))
    assert warning(Deal.objects.latest("id")) == "", "another account's orders are its own"


def test_a_question_is_asked_anew_once_another_order_left_under_its_number(api: APIClient) -> None:
    ask(api, another())
    second = Deal.objects.get()
    first, _ = placed(api, purchase(po_number="PO-4711"))
    with pytest.raises(DecisionRefusedError, match="asked anew"):
        decide(second, "approve")
    assert first.reference in warning(second)
    decide(second, "approve")
    assert late.fresh(second).status == "accepted"


def cancelled_later(deal: Deal, operation: Operation) -> None:
    late.say(operation, "completed", late.bought(deal))
    transition(late.fresh(deal), "cancelled", actor="system", reason="The seller cancelled it.")


def given_up(_deal: Deal, operation: Operation) -> None:
    late.give_up(operation)


def refused(_deal: Deal, operation: Operation) -> None:
    late.say(operation, "rejected")


@pytest.mark.parametrize("ending", [cancelled_later, given_up, refused])
def test_an_order_that_is_over_is_put_to_people_anew(
    api: APIClient, ending: Callable[[Deal, Operation], None]
) -> None:
    body = purchase(po_number="PO-4711")
    deal, operation = placed(api, body)
    ending(deal, operation)
    assert ask(api, body)["operation_id"] != str(operation.pk)
    assert deal.reference in warning(Deal.objects.latest("id"))


def test_who_decides_on_what_came_late_sees_what_was_bought_under_its_number(api: APIClient) -> None:
    body = purchase(po_number="PO-4711")
    deal, operation = placed(api, body)
    late.give_up(operation)
    anew, _ = placed(api, body)
    late.say(operation, "completed", late.bought(deal))
    asked = Approval.objects.get(kind=UNCLAIMED)
    assert anew.reference in effects_of(asked)["approve"]
    late.decide(UNCLAIMED, "approve")
    assert Deal.objects.get(follows=deal).status == "booked", "people may want both"
