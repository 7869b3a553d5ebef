"""A purchase that its seller refuses as correctable, and its correction."""

from __future__ import annotations

import json
from typing import Any

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
from tests.orders.late import fresh

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
    claim_one(operation_id=operation.pk)
    seen = Seen(kind="answer", status=status, raw_status=status, error=error)
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    publish(operation_id=operation.pk)
    operation.refresh_from_db()
    return operation


def refused(error: WireError = ERROR, **fields: Any) -> tuple[Deal, Operation]:
    """A deal whose purchase its seller refused."""
    deal = make_deal(**fields)
    approve_deal(deal)
    drain()
    operation = refuse(Operation.objects.get(task_type="create_media_buy"), error)
    assert fresh(deal).status == "failed"
    return fresh(deal), operation


def corrected(operation: Operation, budget: float = 12000) -> dict[str, Any]:
    arguments: dict[str, Any] = json.loads(json.dumps(correction_arguments(operation)))
    arguments["packages"][0]["budget"] = budget
    return arguments


def correct(operation: Operation, user: User | None = None, **changed: Any) -> Operation:
    arguments = {**corrected(operation), **changed}
    user = user or make_user("Ad Ops")
    return operation_correct(operation_id=operation.pk, user=user, arguments=arguments, reason="As they say")
