"""A media buy that its seller did not cancel: what led to it is asked about again, or people are told."""

from __future__ import annotations

import pytest

from orders.acts import deal_cancel_ask
from orders.models import Deal
from tasks_app.approvals.models import Approval
from tasks_app.notifications.models import Notification
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.publish import publish_due
from tasks_app.sellers.models import Seller
from tests.factories import make_user
from tests.orders.asking import booked
from tests.orders.late import cancellation, decide, fresh, say
from tests.orders.live import booked as as_approved
from tests.orders.live import packages, says

pytestmark = pytest.mark.django_db
DIFFERENT = "booked_differently"


def departing(verdict: str | None) -> Deal:
    deal, _ = booked(make_user("Buyer"), budget=12_000.0)
    if verdict is not None:
        decide(DIFFERENT, verdict)
    return fresh(deal)


def refused_there() -> None:
    """The seller does not cancel it."""
    claim_one(operation_id=cancellation().pk)
    say(cancellation(), "rejected", channel="reply")


def alarms() -> int:
    return Notification.objects.filter(kind="buy_not_cancelled").values("key").distinct().count()


def asked() -> list[str]:
    return list(Approval.objects.filter(status="open").values_list("kind", flat=True))


@pytest.mark.parametrize(("verdict", "differs"), [("approve", False), (None, True)])
def test_what_a_person_wanted_cancelled_raises_an_alarm(verdict: str | None, differs: bool) -> None:
    """What was accepted stays accepted, what is undecided stays asked about."""
    deal = departing(verdict)
    before = asked()
    deal_cancel_ask(deal_id=deal.pk, user=make_user("Buyer"), reason="Enough")
    decide("deal_change", "approve")
    refused_there()
    assert (fresh(deal).status, fresh(deal).differs) == ("booked", differs)
    assert (asked(), alarms()) == (before, 1)


def test_what_was_not_accepted_is_asked_about_again() -> None:
    deal = departing("reject")
    refused_there()
    assert (fresh(deal).differs, asked(), alarms()) == (True, [DIFFERENT], 0)


def test_a_cancellation_that_the_seller_has_left_behind_asks_one_question() -> None:
    """Whether what was booked will do; not also whether it is cancelled."""
    deal = as_approved()
    Seller.objects.update(slots=4)
    deal = says(deal, "pending_start", revision=2, packages=packages(deal, budget=12_000))
    decide(DIFFERENT, "reject")
    stop = cancellation()
    says(deal, "pending_start", revision=3, packages=packages(deal, budget=12_000))
    claim_sends(limit=5)
    publish_due(limit=5)
    assert (asked(), alarms()) == ([DIFFERENT], 0)
    decide(DIFFERENT, "reject")
    assert cancellation().pk != stop.pk
    assert cancellation().request["revision"] == 3
