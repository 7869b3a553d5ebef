"""Both sides of a comparison: what a fake seller lists, and what is open or booked here."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from orders.models import Deal
from orders.services import deal_book
from tasks_app.adcp import client
from tasks_app.adcp.types import Seen
from tasks_app.operations.asking import operation_ensure
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tasks_app.sellers.models import Account, Seller
from tests.commands.running import Ran
from tests.factories import approve_deal, make_deal
from tests.fake_seller.driver import FakeSeller
from tests.operations.making import observed
from tests.support import PATIENCE_S


def sent(seller: Seller, *, purpose: str = "update") -> Operation:
    """A change that is out with the seller, unanswered."""
    account = Account.objects.filter(seller=seller).first()
    arguments = {"media_buy_id": "mb", **({"account": account.reference} if account else {})}
    operation = operation_ensure(
        purpose=purpose, task_type="update_media_buy", seller=seller, arguments=arguments,
        actor="system", team=None, account=account,
    )  # fmt: skip
    claim_one(operation_id=operation.pk)
    return operation


def told(operation: Operation, status: str, **more: Any) -> Operation:
    """The operation after the seller answered it."""
    observed(operation_id=operation.pk, seen=Seen(kind="answer", status=status, **more), channel="reply")
    publish(operation_id=operation.pk)
    operation.refresh_from_db()
    return operation


def pending(seller: Seller, task_id: str) -> Operation:
    return told(sent(seller, purpose=task_id), "submitted", task_id=task_id)


def task(task_id: str, status: str = "submitted", task_type: str = "update_media_buy") -> dict[str, Any]:
    return {"task_id": task_id, "task_type": task_type, "status": status, "domain": "media-buy"}


def lists(faulty: FakeSeller, *tasks: dict[str, Any]) -> None:
    """What the seller lists from now on."""
    faulty.fault("list_tasks", "merge", 0, answer={"tasks": list(tasks)})


def booking(seller: Seller) -> Deal:
    """A deal whose purchase is with the seller."""
    deal = make_deal(seller=seller)
    approve_deal(deal)
    claim_one(operation_id=deal_book(deal=deal).pk)
    deal.refresh_from_db()
    return deal


def settle(deal: Deal, status: str, payload: dict[str, Any] | None = None) -> None:
    told(Operation.objects.get(subject_id=deal.pk), status, payload=payload)
    deal.refresh_from_db()


def bought(faulty: FakeSeller, seller: Seller, context: dict[str, Any] | None) -> str:
    """Buy at the seller behind our back; the media_buy_id."""
    packages = [{"product_id": "p", "budget": 10}]
    arguments: dict[str, Any] = {"idempotency_key": str(uuid.uuid4()), "packages": packages}
    if context is not None:
        arguments["context"] = context
    seen = asyncio.run(client.call(seller.endpoint(timeout_s=PATIENCE_S), "create_media_buy", arguments))
    assert seen.payload is not None
    return str(seen.payload["media_buy_id"])


def task_at(faulty: FakeSeller, seller: Seller) -> str:
    """A task that the seller knows of; its task_id."""
    faulty.fault("create_media_buy", "status", status="submitted")
    arguments = {"idempotency_key": str(uuid.uuid4()), "packages": [], "context": {}}
    seen = asyncio.run(client.call(seller.endpoint(timeout_s=PATIENCE_S), "create_media_buy", arguments))
    assert seen.task_id is not None
    return seen.task_id


def verdicts(ran: Ran, kind: str = "tasks") -> dict[str, str]:
    """The seller's id to the verdict, of the first seller."""
    return {found["theirs"]: found["verdict"] for found in ran.json["sellers"][0][kind]}
