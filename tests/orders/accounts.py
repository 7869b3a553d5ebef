"""A deal that people approved under an account, and what its seller says of the account."""

from __future__ import annotations

from typing import Any

from orders.models import Deal
from tasks_app import clock
from tasks_app.adcp.types import Seen, WireError
from tasks_app.jobs.worker import drain
from tasks_app.notifications.models import Notification
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tasks_app.sellers.models import Account
from tests.factories import approve_deal, make_deal, make_seller
from tests.operations.making import observed

TOOLS = ["get_products", "create_media_buy", "get_media_buys", "list_accounts", "sync_accounts"]
WORDS = {"code": "BILLING_NOT_SUPPORTED", "message": "We bill agencies only.", "suggestion": "Name one."}


def approved_deal(status: str) -> Deal:
    """A deal that people approved, its account in that state; its booking has run as far as it can."""
    deal = make_deal(seller=make_seller(tools=TOOLS))
    Account.objects.update(
        status=status, reference={"account_id": "acc-1"}, next_read_at=clock.now(), requested_by="system"
    )
    approve_deal(fresh(deal))
    drain()
    return fresh(deal)


def fresh(deal: Deal) -> Deal:
    return Deal.objects.get(pk=deal.pk)


def end(task: str, status: str, payload: dict[str, Any] | None = None, code: str = "") -> Operation:
    """The seller ends the latest operation of a task."""
    operation = Operation.objects.filter(task_type=task).latest("id")
    claim_one(operation_id=operation.pk)
    error = WireError(code=code, message="No.", recovery="terminal") if code else None
    seen = Seen(kind="answer", status=status, raw_status=status, payload=payload, error=error)
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    assert publish(operation_id=operation.pk)
    return operation


def listed(status: str, **more: Any) -> dict[str, Any]:
    return {
        "accounts": [
            {"account_id": "acc-0", "status": "closed"},
            {"account_id": "acc-1", "status": status, **more},
        ]
    }


def told() -> list[tuple[str, str]]:
    return list(
        Notification.objects.filter(kind="account_changed").order_by("id").values_list("title", "body")
    )


def purchases() -> int:
    return Operation.objects.filter(task_type="create_media_buy").count()
