"""A purchase that its seller refuses as correctable, and its correction."""

from __future__ import annotations

import json
from typing import Any

from orders.ask import Ask
from orders.changes.send import change_ask
from orders.models import Deal
from tasks_app.adcp.types import Seen, WireError
from tasks_app.jobs.worker import drain
from tasks_app.operations.corrections import correction_arguments, operation_correct
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tasks_app.people.models import User
from tests.factories import approve_deal, make_deal, make_user
from tests.operations.making import observed
from tests.orders.late import decide, fresh
from tests.orders.live import booked

ERROR = WireError(
    code="BUDGET_TOO_LOW",
    message="At least 12,000 for this package.",
    recovery="correctable",
    field="packages[0].budget",
    suggestion="Raise it to 12,000.",
)
WORDS = (
    "Norrland Digital says about packages[0].budget: “At least 12,000 for this package.” "
    "It suggests: “Raise it to 12,000.”"
)


def refuse(operation: Operation, error: WireError = ERROR, status: str = "rejected") -> Operation:
    answer_refused(operation, error, status)
    publish(operation_id=operation.pk)
    operation.refresh_from_db()
    return operation


def answer_refused(operation: Operation, error: WireError = ERROR, status: str = "rejected") -> None:
    """The seller's word; what follows from it is still to come."""
    claim_one(operation_id=operation.pk)
    seen = Seen(kind="answer", status=status, raw_status=status, error=error)
    observed(operation_id=operation.pk, seen=seen, channel="reply")


def refused(error: WireError = ERROR, **fields: Any) -> tuple[Deal, Operation]:
    """A deal whose purchase its seller refused."""
    deal = make_deal(**fields)
    approve_deal(deal)
    drain()
    operation = refuse(Operation.objects.get(task_type="create_media_buy"), error)
    assert fresh(deal).status == "failed"
    return fresh(deal), operation


def change_asked(deal: Deal) -> Operation:
    """A change of its budget, approved."""
    package = {"package_id": deal.lines.get().package_id, "budget": 11000}
    arguments = {"media_buy_id": deal.media_buy_id, "packages": [package]}
    asked = Ask(user=make_user("Buyer"), task="update_media_buy", seller=deal.seller, arguments=arguments)
    operation = change_ask(asked)
    decide("deal_change", "approve")
    operation.refresh_from_db()
    return operation


def refused_change() -> tuple[Deal, Operation]:
    deal = booked()
    return deal, refuse(change_asked(deal))


def corrected(operation: Operation, budget: float = 12000) -> dict[str, Any]:
    arguments: dict[str, Any] = json.loads(json.dumps(correction_arguments(operation)))
    arguments["packages"][0]["budget"] = budget
    return arguments


def correct(operation: Operation, user: User | None = None, **changed: Any) -> Operation:
    arguments = {**corrected(operation), **changed}
    user = user or make_user("Ad Ops")
    return operation_correct(operation_id=operation.pk, user=user, arguments=arguments, reason="As they say")
