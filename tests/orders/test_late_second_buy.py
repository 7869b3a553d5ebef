"""A purchase ended without its result: what the seller lists named its deal; the result names another."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from orders.models import Deal
from orders.seller_state import deal_follow
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.notifications.models import Notification
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish_due
from tests.operations.making import observed
from tests.orders.late import booking, bought, cancellation, decide, fresh

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
LISTED, CAME = "mb-first", "mb-second"


def ends(purchase: Operation, **told: Any) -> str:
    seen = Seen(
        kind="answer",
        status="completed",
        raw_status="completed",
        task_id=f"task-{purchase.reference}",
        **told,
    )
    outcome: str = observed(operation_id=purchase.pk, seen=seen, channel="webhook").outcome
    return outcome


def named_by_the_list() -> tuple[Deal, Operation, datetime]:
    """Booked without a name, and named by what its seller lists; nobody is asked anything."""
    deal, purchase = booking()
    since = clock.now()
    ends(purchase, partial=True)
    with clock.injected(lambda: since + timedelta(minutes=6)):
        assert publish_due(limit=10) == 1
    later = since + timedelta(minutes=8)
    with clock.injected(lambda: later):
        listed = {**bought(deal, LISTED), "status": "active", "context": {"deal_id": str(deal.pk)}}
        deal_follow(deal_id=deal.pk, buy=listed, asked_at=later)
    assert fresh(deal).media_buy_id == LISTED
    assert not Approval.objects.filter(status="open").exists()
    return deal, purchase, later + timedelta(minutes=2)


@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_people_say_which_of_the_two_is_kept(verdict: str) -> None:
    deal, purchase, later = named_by_the_list()
    with clock.injected(lambda: later):
        assert ends(purchase, payload=bought(deal, CAME)) == "applied"
        (conflict,) = Conflict.objects.all()
        assert conflict.first["value"]["media_buy_id"] == LISTED
        assert conflict.second["value"]["media_buy_id"] == CAME
        assert (conflict.first["channel"], conflict.second["channel"]) == ("reconcile", "webhook")
        assert LISTED in conflict.note
        assert CAME in conflict.note
        assert Notification.objects.filter(kind="conflict").count() == 1
        decide("conflict", verdict)

    kept, ended = (LISTED, CAME) if verdict == "approve" else (CAME, LISTED)
    assert cancellation().request["media_buy_id"] == ended
    holder = Deal.objects.get(media_buy_id=kept)
    assert (holder.pk == deal.pk) == (kept == LISTED)
    assert (holder.follows_id == deal.pk) == (kept == CAME)


def test_it_is_asked_about_once() -> None:
    deal, purchase, later = named_by_the_list()
    with clock.injected(lambda: later):
        ends(purchase, payload=bought(deal, CAME))
        assert ends(purchase, payload=bought(deal, CAME)) == "duplicate"
    assert Conflict.objects.count() == 1


def test_the_media_buy_that_was_listed_contradicts_nothing() -> None:
    deal, purchase, later = named_by_the_list()
    with clock.injected(lambda: later):
        assert ends(purchase, payload=bought(deal, LISTED)) == "applied"
    assert not Conflict.objects.exists()
    assert not Approval.objects.filter(status="open").exists()
