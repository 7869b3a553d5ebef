"""A purchase-order number used again: the same order answers the first one, another is asked about."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from orders.models import Deal
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.operations.models import Operation
from tests.api.asks import ROOM, known, purchase
from tests.api.conftest import client_of
from tests.factories import make_account, make_advertiser, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> APIClient:
    known()
    return client_of(make_user("Integration"))


def ask(api: APIClient, body: dict[str, Any]) -> Any:
    return api.post(ROOM, body, format="json")


def decide(approval: Approval, verdict: str) -> None:
    approval_decide(approval_id=approval.pk, user=make_user("Approver"), verdict=verdict, comment="So.")


def questions() -> list[tuple[str, str]]:
    return list(Approval.objects.order_by("id").values_list("kind", "status"))


def test_the_same_order_again_is_the_first_one(api: APIClient) -> None:
    body = purchase(po_number="PO-4711")
    first, again = ask(api, body), ask(api, body)

    assert (first.status_code, again.status_code) == (202, 202), again.content
    assert first.json()["operation_id"] == again.json()["operation_id"]
    assert (Deal.objects.count(), Operation.objects.count()) == (1, 1)
    assert questions() == [("deal", "open")]


def test_another_order_under_the_number_warns_and_asks_before_the_deal_is_put_to_people(
    api: APIClient,
) -> None:
    body = purchase(po_number="PO-4711")
    ask(api, body)
    first = Deal.objects.get()
    other = purchase(po_number="PO-4711")
    other["arguments"]["packages"][0]["budget"] = 2500
    other["arguments"]["total_budget"]["amount"] = 2500
    told = ask(api, other)

    assert told.status_code == 202, told.content
    asked = Approval.objects.get(kind="po_number")
    assert str(asked.pk) == told.json()["approval_id"]
    assert (first.reference in asked.title, "PO-4711" in asked.title) == (True, True)
    assert [one["deal"] for one in asked.evidence["used_by"]] == [first.reference]
    assert questions() == [("deal", "open"), ("po_number", "open")], "its deal is not put to people yet"

    decide(asked, "approve")
    second = Deal.objects.exclude(pk=first.pk).get()
    assert second.status == "quoted"
    assert Approval.objects.get(kind="deal", subject_id=second.pk).status == "open"


def test_refused_nothing_is_bought_and_the_number_is_free_where_nothing_stands(api: APIClient) -> None:
    ask(api, purchase(po_number="PO-1"))
    other = purchase(po_number="PO-1")
    other["arguments"]["packages"][0]["budget"] = 700
    other["arguments"]["total_budget"] = {"amount": 700, "currency": "USD"}
    ask(api, other)

    decide(Approval.objects.get(kind="po_number"), "reject")
    assert sorted(Deal.objects.values_list("status", flat=True)) == ["cancelled", "quoted"]
    assert sorted(Operation.objects.values_list("status", flat=True)) == ["canceled", "requested"]
    decide(Approval.objects.get(kind="deal"), "reject")
    ask(api, other)
    assert Approval.objects.filter(status="open").values_list("kind", flat=True).get() == "deal"


def test_another_account_or_no_number_is_no_question(api: APIClient) -> None:
    ask(api, purchase(po_number="PO-1"))
    elsewhere = make_advertiser("Tamarack")
    make_account(elsewhere, Operation.objects.get().seller).save()
    told = ask(api, purchase(po_number="PO-1", brand={"domain": elsewhere.brand_domain}))
    assert told.status_code == 202, told.content
    ask(api, purchase())
    ask(api, purchase())

    assert {kind for kind, _ in questions()} == {"deal"}
    assert Deal.objects.count() == 4


def test_a_number_asked_about_again_after_the_deal_has_changed(api: APIClient) -> None:
    ask(api, purchase(po_number="PO-1"))
    other = purchase(po_number="PO-1")
    other["arguments"]["packages"][0]["budget"] = 700
    other["arguments"]["total_budget"]["amount"] = 700
    ask(api, other)
    asked = Approval.objects.get(kind="po_number")
    Approval.objects.filter(pk=asked.pk).update(subject_version=99)

    with pytest.raises(Exception, match="changed"):
        decide(asked, "approve")
    assert Approval.objects.filter(kind="po_number", status="open").count() == 1
