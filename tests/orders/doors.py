"""The ways by which a seller's record comes into a deal, and what makes one newer than another."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from orders.ask import Ask
from orders.changes.send import change_ask
from orders.models import Deal
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tests.factories import make_user
from tests.orders.late import decide, say

# What the first and what comes later tell: revision and the seller's time (minutes), by kind of telling.
TOLD: dict[str, tuple[tuple[int | None, int | None], tuple[int | None, int | None]]] = {
    "nothing": ((None, None), (None, None)),
    "older revision": ((7, None), (2, None)),
    "newer revision": ((7, None), (8, None)),
    "older revision, newer time": ((7, 1), (2, 5)),
    "same revision": ((7, None), (7, None)),
    "same revision, older time": ((7, 5), (7, 1)),
    "same revision, newer time": ((7, 1), (7, 5)),
    "older time": ((None, 5), (None, 1)),
    "newer time": ((None, 1), (None, 5)),
    "only the first": ((7, 5), (None, None)),
    "only the later": ((None, None), (7, 5)),
}


def is_newer(told: str, asked: str) -> bool:
    """By revision, then the seller's time, then when we asked; what only one tells decides nothing."""
    for one, other in zip(*TOLD[told], strict=True):
        if one is not None and other is not None and one != other:
            return other > one
    return asked == "after"


def record(deal: Deal, status: str, told: tuple[int | None, int | None], since: datetime) -> dict[str, Any]:
    revision, minutes = told
    return {
        "media_buy_id": deal.media_buy_id,
        "media_buy_status": status,
        **({} if revision is None else {"revision": revision}),
        **({} if minutes is None else {"status_as_of": (since + timedelta(minutes=minutes)).isoformat()}),
    }


def wanted(deal: Deal, *, task: str = "t-1", **change: Any) -> Operation:
    """A change that people approved, with the seller as `task`."""
    arguments = {"media_buy_id": deal.media_buy_id, **change}
    user = make_user("Integration", team=deal.team)
    made = change_ask(Ask(user=user, task="update_media_buy", seller=deal.seller, arguments=arguments))
    decide("deal_change", "approve")
    claim_one(operation_id=made.pk)
    say(made, "submitted", channel="reply", task_id=task)
    return made
