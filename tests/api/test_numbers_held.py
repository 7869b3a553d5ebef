"""What a deal that is over may have left at its seller holds its purchase-order number until it is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from orders.models import Deal
from orders.questions import LATE
from orders.services import deal_cancel_at_seller
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.comparison import Finding, Reader, Reading, Verdict
from tasks_app.operations.models import Operation
from tasks_app.operations.services import Subject
from tasks_app.reconciliation.findings import reading_record
from tasks_app.reconciliation.models import ReconciliationFinding, ReconciliationRun
from tests.api.asks import purchase
from tests.api.numbered import ask, cancelled_later, decide, held_by, placed, questions
from tests.orders import late

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


def undecided(_deal: Deal) -> None:
    assert Approval.objects.get(kind=LATE).status == "open"


def refused_late(_deal: Deal) -> None:
    late.decide(LATE, "reject")
    assert late.cancellation().status == "requested"


def not_cancelled(deal: Deal) -> None:
    """Its seller says that it does not cancel it: people are asked again what becomes of it."""
    refused_late(deal)
    late.ended(late.cancellation(), "failed")
    assert Approval.objects.filter(kind=LATE).latest("id").status == "open"


@pytest.mark.parametrize("stands", [undecided, refused_late, not_cancelled])
def test_a_number_under_which_something_runs_that_nobody_keeps_is_asked_about(
    api: APIClient, stands: Any
) -> None:
    """It was bought after it had been given up: bought again, it would be at the seller twice."""
    body = purchase(po_number="PO-4711")
    deal, operation = placed(api, body)
    late.give_up(operation)
    late.say(operation, "completed", late.bought(deal))
    stands(deal)

    told = ask(api, body)

    assert told.status_code == 202, told.content
    assert told.json()["operation_id"] != str(operation.pk), "it came to nothing here: it is no answer"
    held_by(deal)


CANCELLED = {"media_buy_id": late.BUY, "media_buy_status": "canceled"}


def contradicted(deal: Deal, operation: Operation) -> None:
    """It came to nothing, and then its seller says that it was bought."""
    late.say(operation, "rejected")
    late.say(operation, "completed", late.bought(deal), channel="webhook")
    assert Approval.objects.get(kind="conflict", status="open")


def first_kept(deal: Deal, operation: Operation) -> None:
    """People say that it came to nothing: the seller is asked to cancel what it made."""
    contradicted(deal, operation)
    late.decide("conflict", "approve")
    assert late.cancellation().status == "requested"


def stray_not_cancelled(deal: Deal, operation: Operation) -> None:
    first_kept(deal, operation)
    late.ended(late.cancellation(), "failed")


def called_off_and_not_cancelled(deal: Deal, operation: Operation) -> None:
    """As before, of a purchase that the seller had called off."""
    late.say(operation, "canceled")
    late.say(operation, "completed", late.bought(deal), channel="webhook")
    late.decide("conflict", "approve")
    late.ended(late.cancellation(), "failed")


def read_back(deal: Deal, operation: Operation) -> None:
    """The seller calls the cancellation completed, which nothing shows yet."""
    first_kept(deal, operation)
    shown = {**CANCELLED, "media_buy_status": "pending_start"}
    late.ended(late.cancellation(), "completed", shown)
    assert Operation.objects.get(task_type="get_media_buys").settled_at is None


def cancellation_contradicted(deal: Deal, operation: Operation) -> None:
    late.say(operation, "completed", late.bought(deal))
    deal_cancel_at_seller(deal=late.fresh(deal), actor="system", reason="No longer wanted")
    late.ended(late.cancellation(), "completed", CANCELLED)
    late.say(late.cancellation(), "failed", channel="webhook")
    assert Approval.objects.get(kind="conflict", status="open")


def nameless(deal: Deal, operation: Operation, *, is_late: bool = False) -> None:
    """What was bought has no name to be cancelled by, and people refuse it."""
    if is_late:
        late.give_up(operation)
    late.say(operation, "completed", {"packages": late.bought(deal)["packages"]})
    late.decide(LATE if is_late else "booked_differently", "reject")


def nameless_late(deal: Deal, operation: Operation) -> None:
    nameless(deal, operation, is_late=True)


def reconciled(deal: Deal, verdict: Verdict) -> None:
    """What a run makes of the seller's record of its media buy."""
    run, _ = ReconciliationRun.objects.get_or_create(trigger="hand", asked_by="system")
    about = Subject(type="deal", id=deal.pk)
    found = Finding(verdict=verdict, theirs="nrl-7", here=deal.reference, subject=about)
    reader = Reader(kind="media_buy", read=lambda _sellers, _limit_s: [], settle=lambda _seller, _found: None)
    reading_record(run=run, reader=reader, reading=Reading(seller=deal.seller, findings=[found]))


def given_up_and_found(deal: Deal, operation: Operation) -> None:
    late.give_up(operation)
    reconciled(deal, Verdict.BOUGHT_UNKNOWN)


def cancelled_and_found(deal: Deal, operation: Operation) -> None:
    cancelled_later(deal, operation)
    reconciled(deal, Verdict.AHEAD)


def cancel(_deal: Deal) -> None:
    late.ended(late.cancellation(), "completed", CANCELLED)


def keep_first_and_cancel(deal: Deal) -> None:
    late.decide("conflict", "approve")
    cancel(deal)


def show(_deal: Deal) -> None:
    late.ended(Operation.objects.get(task_type="get_media_buys"), "completed", {"media_buys": [CANCELLED]})


def keep_first(_deal: Deal) -> None:
    late.decide("conflict", "approve")


def adopt_and_cancel(deal: Deal) -> None:
    """Reconciliation finds it, it is made a deal, and that is cancelled."""
    kept = late.adopted(late.fresh(deal))
    transition(kept, "cancelled", actor="system", reason="The seller cancelled it.")


def not_find(deal: Deal) -> None:
    reconciled(deal, Verdict.IN_STEP)


def let_it_stay(_deal: Deal) -> None:
    """A person says so of what reconciliation found: nothing would ever tell that it is gone."""
    ReconciliationFinding.objects.update(resolution="seen", resolved_at=clock.now())


# What a deal that is over may have left at its seller, and what makes that gone.
LEFT: dict[str, tuple[Callable[[Deal, Operation], None], Callable[[Deal], None]]] = {
    "it says that it was bought after all": (contradicted, keep_first_and_cancel),
    "that is being cancelled": (first_kept, cancel),
    "that was not cancelled": (stray_not_cancelled, keep_first_and_cancel),
    "that was not cancelled after it was called off": (called_off_and_not_cancelled, keep_first_and_cancel),
    "that it calls cancelled, and nothing shows it": (read_back, show),
    "it says that it did not cancel it": (cancellation_contradicted, keep_first),
    "refused without a name": (nameless, adopt_and_cancel),
    "refused without a name when it came late": (nameless_late, adopt_and_cancel),
    "given up, and found": (given_up_and_found, not_find),
    "given up, and found, and it may stay": (given_up_and_found, let_it_stay),
    "cancelled here, and found to run": (cancelled_and_found, not_find),
}


@pytest.mark.parametrize("what", LEFT)
def test_what_may_still_be_at_the_seller_holds_the_number_until_it_is_gone(api: APIClient, what: str) -> None:
    leave, gone = LEFT[what]
    body = purchase(po_number="PO-4711")
    deal, operation = placed(api, body)
    leave(deal, operation)
    assert late.fresh(deal).status in ("failed", "cancelled")

    told = ask(api, body)
    assert told.status_code == 202, told.content
    assert told.json()["operation_id"] != str(operation.pk), "it came to nothing here: it is no answer"
    decide(held_by(deal), "reject")
    gone(deal)
    assert ask(api, body).status_code == 202
    assert [kind for kind, status in questions() if status == "open"] == ["deal"]


def test_a_contradiction_holds_the_number_for_what_it_says_was_bought_alone(api: APIClient) -> None:
    body = purchase(po_number="PO-4711")
    deal, operation = placed(api, body)
    cancelled_later(deal, operation)
    late.say(operation, "rejected", channel="webhook")
    ask(api, body)
    assert {kind for kind, status in questions() if status == "open"} == {"conflict", "deal"}

    decide(Approval.objects.get(kind="deal", status="open"), "reject")
    late.say(operation, "completed", late.bought(deal, "nrl-2"), channel="webhook")  # asked about after that
    ask(api, body)
    assert {kind for kind, status in questions() if status == "open"} == {"conflict", "po_number"}


def test_a_number_is_free_once_what_came_late_is_cancelled(api: APIClient) -> None:
    body = purchase(po_number="PO-4711")
    deal, operation = placed(api, body)
    late.give_up(operation)
    late.say(operation, "completed", late.bought(deal))
    refused_late(deal)
    gone = {"media_buy_id": late.BUY, "media_buy_status": "canceled"}
    late.ended(late.cancellation(), "completed", gone)

    assert ask(api, body).status_code == 202

    assert [kind for kind, status in questions() if status == "open"] == ["deal"]
