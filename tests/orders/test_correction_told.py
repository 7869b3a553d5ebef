"""What people read of a refusal is so: that it can be corrected where it can, and else why not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orders.models import Deal
from orders.services import deal_cancel_at_seller
from tasks_app.adcp.types import Seen, WireError
from tasks_app.jobs.worker import drain
from tasks_app.notifications.models import Notification
from tasks_app.operations.account_refusals import STATES
from tasks_app.operations.corrections import correction_refusal
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish, publish_due, publish_many
from tasks_app.operations.steered import SteeringRefusedError
from tests.factories import approve_deal, make_deal
from tests.operations.making import observed
from tests.orders.late import ended, fresh
from tests.orders.live import booked
from tests.orders.refusing import ERROR, answer_refused, change_asked, correct, refused_change

pytestmark = pytest.mark.django_db
PROMISE = "On its page it can be corrected and asked for anew."
PUBLISHING: dict[str, Callable[[Operation], object]] = {
    "alone": lambda operation: publish(operation_id=operation.pk),
    "with others": lambda operation: publish_many(operation_ids=[operation.pk]),
    "by the sweep": lambda operation: publish_due(limit=10),
}
OF_ACCOUNT = {code: WireError(code=code, message="No.", recovery="terminal") for code in STATES}


def told(operation: Operation) -> str:
    return Notification.objects.get(kind="correction_wanted", subject_id=operation.pk).body


def purchase_answered(error: WireError = ERROR) -> tuple[Deal, Operation]:
    """A purchase that its seller refused, while its deal is being bought."""
    deal = make_deal()
    approve_deal(deal)
    drain()
    operation = Operation.objects.get(task_type="create_media_buy")
    answer_refused(operation, error)
    assert fresh(deal).status == "booking"
    return deal, operation


@pytest.mark.parametrize("how", PUBLISHING)
def test_of_a_refused_purchase_people_read_that_it_can_be_corrected(how: str) -> None:
    """Its deal fails in the same commit, whoever hears of it first."""
    deal, operation = purchase_answered()
    PUBLISHING[how](operation)
    assert fresh(deal).status == "failed"
    assert told(operation).endswith(f"{operation.reference} has ended. {PROMISE}")
    operation.refresh_from_db()
    assert correct(operation).status == "requested"


def test_of_a_refused_change_people_read_that_it_can_be_corrected() -> None:
    _, operation = refused_change()
    assert told(operation).endswith(f"{operation.reference} has ended. {PROMISE}")
    assert correct(operation).status == "requested"


@pytest.mark.parametrize("code", STATES)
def test_of_what_was_refused_because_of_the_account_people_read_when_it_can_be_asked_for_anew(
    code: str,
) -> None:
    _, operation = purchase_answered(OF_ACCOUNT[code])
    publish(operation_id=operation.pk)
    assert "it can be asked for anew once the account is active" in told(operation)


def test_of_a_change_whose_deal_ends_in_the_same_commit_nothing_is_promised() -> None:
    """Several ends are published together: people are told after all of them."""
    deal = booked()
    operation = change_asked(deal)
    answer_refused(operation)
    ending = deal_cancel_at_seller(deal=fresh(deal), actor="system", reason="No longer wanted")
    claim_one(operation_id=ending.pk)
    payload = {"media_buy_id": deal.media_buy_id, "media_buy_status": "canceled"}
    seen = Seen(kind="answer", status="completed", raw_status="completed", payload=payload)
    observed(operation_id=ending.pk, seen=seen, channel="reply")
    assert fresh(deal).status == "booked"
    assert operation.pk < ending.pk, "it is published first"
    publish_many(operation_ids=[operation.pk, ending.pk])
    assert fresh(deal).status == "cancelled"
    assert told(operation).endswith("there is nothing to change.")


@pytest.mark.parametrize("holds", ["mb-other", ""])
def test_of_a_change_of_a_media_buy_that_its_deal_does_not_hold_people_read_that(holds: str) -> None:
    """As of the cancellation of a second one, or of what was bought too late."""
    deal = booked()
    operation = change_asked(deal)
    answer_refused(operation)
    Deal.objects.filter(pk=deal.pk).update(media_buy_id=holds)
    publish(operation_id=operation.pk)
    assert told(operation).endswith(f"It is about mb-1, which {deal.reference} does not hold.")


@pytest.mark.parametrize("error", [ERROR, *OF_ACCOUNT.values()], ids=lambda error: error.code)
def test_of_a_change_whose_deal_is_over_by_then_nothing_is_promised(error: WireError) -> None:
    deal = booked()
    operation = change_asked(deal)
    answer_refused(operation, error)
    ending = deal_cancel_at_seller(deal=fresh(deal), actor="system", reason="No longer wanted")
    ended(ending, "completed", {"media_buy_id": deal.media_buy_id, "media_buy_status": "canceled"})
    assert fresh(deal).status == "cancelled"
    publish(operation_id=operation.pk)
    operation.refresh_from_db()

    why = f"{deal.reference} is cancelled: there is nothing to change."
    assert told(operation).endswith(f"{operation.reference} has ended. {why}")
    assert correction_refusal(operation) == why
    with pytest.raises(SteeringRefusedError, match="nothing to change"):
        correct(operation)
