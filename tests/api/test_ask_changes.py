"""update_media_buy asked for by an integrator: held until people have decided."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from rest_framework.test import APIClient

from orders.models import Change, Deal, DealLine
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_void
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tasks_app.sellers.models import Seller
from tests.api.asks import BOUGHT, ROOM, booked, change, shown
from tests.api.conftest import Open, client_of
from tests.factories import make_team, make_user
from tests.operations.making import observed

pytestmark = pytest.mark.django_db


@pytest.fixture
def deal() -> Deal:
    return booked()


@pytest.fixture
def api() -> APIClient:
    return client_of(make_user("Integration"))


def ask(api: APIClient, body: dict[str, Any], **headers: str) -> Any:
    return api.post(ROOM, body, format="json", headers=headers)


def decided(opened: Open, told: dict[str, Any], verdict: str) -> Any:
    return opened("Approver").post(
        f"/api/v1/approvals/{told['approval_id']}/decide/",
        {"verdict": verdict, "comment": "So.", "evidence_digest": shown(told["approval_id"])},
        format="json",
    )


def answered(operation: Operation, payload: dict[str, Any]) -> None:
    """The seller does it."""
    assert claim_one(operation_id=operation.pk) is not None
    observed(
        operation_id=operation.pk,
        seen=Seen(kind="answer", status="completed", payload=payload),
        channel="reply",
    )
    publish(operation_id=operation.pk)


def nothing_asked() -> bool:
    changes = Operation.objects.filter(task_type="update_media_buy")
    return not (changes.exists() or Approval.objects.filter(kind="deal_change").exists())


def test_nothing_is_sent_before_the_decision(api: APIClient, deal: Deal) -> None:
    answer = ask(api, change())

    told = answer.json()
    operation = Operation.objects.get(pk=told["operation_id"])
    assert (answer.status_code, told["status"], told["deal_id"]) == (202, "requested", str(deal.pk))
    assert operation.send_at is None
    assert claim_one(operation_id=operation.pk) is None
    sent = json.loads(operation.request_text)
    assert (sent["revision"], sent["account"]) == (3, {"account_id": "acc-norrland-digital"})
    approval = Approval.objects.get(pk=told["approval_id"])
    assert (approval.kind, approval.amount) == ("deal_change", Decimal(90_000))
    assert approval.evidence["sent"]["packages"] == [{"package_id": "pkg-1", "budget": 90_000}]


def test_approved_it_is_sent_and_becomes_what_was_approved(api: APIClient, opened: Open, deal: Deal) -> None:
    told = ask(api, change()).json()
    assert decided(opened, told, "approve").status_code == 200

    answered(
        Operation.objects.get(pk=told["operation_id"]),
        {
            "media_buy_id": BOUGHT,
            "revision": 4,
            "affected_packages": [{"package_id": "pkg-1", "budget": 90_000}],
        },
    )

    deal.refresh_from_db()
    line = deal.lines.get()
    assert (line.budget, line.confirmed_budget) == (Decimal(90_000), Decimal(90_000))
    assert (deal.status, deal.revision, deal.differs) == ("booked", 4, False)


def test_a_seller_that_does_something_else_is_flagged(api: APIClient, opened: Open, deal: Deal) -> None:
    told = ask(api, change()).json()
    decided(opened, told, "approve")

    answered(
        Operation.objects.get(pk=told["operation_id"]),
        {"media_buy_id": BOUGHT, "affected_packages": [{"package_id": "pkg-1", "budget": 95_000}]},
    )

    deal.refresh_from_db()
    assert deal.differs
    assert Approval.objects.filter(kind="booked_differently", status="open").exists()


def test_rejected_it_is_withdrawn(api: APIClient, opened: Open, deal: Deal) -> None:
    told = ask(api, change()).json()
    decided(opened, told, "reject")

    operation = Operation.objects.get(pk=told["operation_id"])
    assert (operation.status, claim_one(operation_id=operation.pk)) == ("canceled", None)
    assert DealLine.objects.get(deal=deal).budget == Decimal("10250")


def test_when_the_deal_has_moved_it_is_asked_anew(api: APIClient, opened: Open, deal: Deal) -> None:
    told = ask(api, change()).json()
    transition(deal, "delivering", actor="system")

    assert decided(opened, told, "approve").status_code == 409
    now = api.get(f"{ROOM}{told['operation_id']}/").json()
    assert (now["status"], now["approval_id"] != told["approval_id"]) == ("requested", True)
    assert decided(opened, now, "approve").status_code == 200


def test_when_the_deal_is_over_it_is_withdrawn(api: APIClient, opened: Open, deal: Deal) -> None:
    told = ask(api, change()).json()
    transition(deal, "cancelled", actor="system")

    assert decided(opened, told, "approve").status_code == 409
    assert Operation.objects.get(pk=told["operation_id"]).status == "canceled"


def test_a_voided_question_takes_its_operation_with_it(api: APIClient, deal: Deal) -> None:
    told = ask(api, change()).json()
    approval_void(approval=Approval.objects.get(pk=told["approval_id"]), reason="Gone")

    assert Operation.objects.get(pk=told["operation_id"]).status == "canceled"


def test_a_second_change_is_refused_and_the_open_one_named(api: APIClient, deal: Deal) -> None:
    first = ask(api, change()).json()
    again = ask(api, change())
    assert (again.status_code, first["reference"] in again.content.decode()) == (409, True)
    assert Operation.objects.filter(task_type="update_media_buy").count() == 1


def test_a_pause_withdraws_a_change_that_was_not_sent(api: APIClient, deal: Deal) -> None:
    ask(api, change())
    first = Operation.objects.get(task_type="update_media_buy")
    assert ask(api, change(paused=True)).status_code == 202
    first.refresh_from_db()
    assert (first.status, Change.objects.get(operation=first).outcome) == ("canceled", "withdrawn")
    assert ask(api, change(canceled=True)).status_code == 202
    assert ask(api, change(canceled=True)).status_code == 409


def test_a_change_is_withdrawn_by_its_asker(api: APIClient, deal: Deal, opened: Open) -> None:
    first = Operation.objects.get(pk=ask(api, change()).json()["operation_id"])
    path = f"/api/v1/operations/{first.reference}/withdraw/"
    assert opened("Integration").post(path, {"reason": "No."}, format="json").status_code == 409
    assert api.post(path, {"reason": "No more."}, format="json").status_code == 200
    first.refresh_from_db()
    assert (first.status, Change.objects.get(operation=first).outcome) == ("canceled", "withdrawn")
    assert not Approval.objects.filter(status="open").exists()
    assert api.post(path, {"reason": "Again."}, format="json").status_code == 409
    assert ask(api, change()).status_code == 202


def test_a_deal_that_is_over_is_not_changed(api: APIClient, deal: Deal) -> None:
    transition(deal, "cancelled", actor="system")

    answer = ask(api, change())

    told = answer.json()
    assert (answer.status_code, told["status_now"], told["allowed"]) == (409, "cancelled", [])
    assert nothing_asked()


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"media_buy_id": "other", "paused": True}, "arguments.media_buy_id"),
        ({"name": None}, "arguments"),
        ({"packages": [{"package_id": "pkg-9", "budget": 1}]}, "arguments.packages.0"),
        ({"packages": [{"package_id": "pkg-1", "budget": 0}]}, "arguments.packages.0"),
        ({"packages": [{"package_id": "pkg-1", "canceled": True}]}, "arguments.packages.0"),
        ({"packages": [{"package_id": "pkg-1", "budget": 0.001}]}, "arguments.packages.0"),
        ({"packages": [{"package_id": "pkg-1", "budget": 9e12}]}, "arguments.packages.0"),
        ({"end_time": "2020-01-01T00:00:00Z"}, "arguments.end_time"),
        ({"start_time": "asap"}, "arguments.start_time"),
        ({"total_budget": {"amount": 5, "currency": "USD"}}, "arguments.total_budget"),
        ({"new_packages": [{"product_id": "p", "pricing_option_id": "o"}]}, "arguments.new_packages"),
        ({"account": {"account_id": "other"}, "paused": True}, "arguments.account"),
        ({"paussed": True}, "arguments.paussed"),
    ],
)
def test_a_wrong_change_is_named_by_field(
    api: APIClient, deal: Deal, arguments: dict[str, Any], field: str
) -> None:
    answer = ask(api, change(**arguments))

    assert answer.status_code == 400, answer.content
    assert field in answer.json()["errors"]
    assert nothing_asked()


def test_another_teams_media_buy_is_out_of_reach(opened: Open, deal: Deal) -> None:
    answer = ask(opened("Integration", make_team("Somebody else")), change())

    assert list(answer.json()["errors"]) == ["arguments.media_buy_id"]
    assert nothing_asked()


KEY = {"Idempotency-Key": "change-1"}


def test_what_a_key_made_is_answered_whatever_its_seller_offers_since(api: APIClient, deal: Deal) -> None:
    first = ask(api, change(), **KEY)
    Seller.objects.update(tools=["get_products"])
    again = ask(api, change(), **KEY)
    assert (again.status_code, again.json()["operation_id"]) == (202, first.json()["operation_id"])
    assert ask(api, change(), **{"Idempotency-Key": "another"}).status_code == 400
