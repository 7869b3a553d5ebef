"""Which deal holds a media buy: none that is over, but for the one that was kept in a deal's place and whose
seller has cancelled it since. Asked by late purchases, by those on time and by contradictions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orders.following import OVER, holder_of
from orders.models import Deal, DealStatus
from orders.questions import DIFFERENT, LATE
from tasks_app.approvals.models import Approval
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.conflicts import choice_words
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Account, Seller
from tests.factories import make_deal
from tests.orders.late import BUY, adopted, booking, bought, cancellation, decide, fresh, give_up, say
from tests.orders.live import led, says
from tests.support import undone

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


def holder(seller: Seller, status: str) -> Deal:
    """Another deal that its seller's name for a media buy stands with."""
    deal = make_deal(seller=seller, account=Account.objects.get(seller=seller))
    Deal.objects.filter(pk=deal.pk).update(media_buy_id=BUY)
    deal = led(fresh(deal), status)
    assert (deal.status, deal.media_buy_id) == (status, BUY)
    return deal


def open_kinds(deal: Deal) -> list[str]:
    asked = Approval.objects.filter(subject_type="deal", subject_id=deal.pk, status="open")
    return list(asked.values_list("kind", flat=True))


def cancellations() -> Iterator[str]:
    for operation in Operation.objects.filter(task_type="update_media_buy", request__canceled=True):
        yield operation.request["media_buy_id"]


# ---- a late purchase


@pytest.mark.parametrize("status", DealStatus.values)
def test_a_late_purchase_is_nobodys_only_where_a_deal_that_is_not_over_holds_it(status: str) -> None:
    deal, operation = booking()
    other = holder(fresh(deal).seller, status)
    for lost in (True, False):
        with undone():
            if lost:
                give_up(operation)
            else:
                Operation.objects.filter(pk=operation.pk).update(overdue_at=operation.created_at)
            say(operation, "completed", bought(deal))
            assert open_kinds(deal) == ([LATE] if status in OVER else [])
            assert fresh(deal).status == ("booking" if status in OVER and not lost else "failed")
            assert holder_of(deal, BUY) == (None if status in OVER else other)


@pytest.mark.parametrize("status", OVER)
def test_one_that_a_deal_that_is_over_had_is_cancelled_where_people_refuse_it(status: str) -> None:
    deal, operation = booking()
    holder(fresh(deal).seller, status)
    give_up(operation)
    say(operation, "completed", bought(deal))
    decide(LATE, "reject")
    assert cancellation().request["media_buy_id"] == BUY


def test_one_that_a_deal_had_whose_seller_cancelled_it_before_is_somebodys() -> None:
    deal, operation = booking()
    other = says(holder(fresh(deal).seller, "booked"), "canceled", revision=2)
    assert (other.status, other.media_buy_status) == ("cancelled", "canceled")
    give_up(operation)
    say(operation, "completed", bought(deal))
    assert open_kinds(deal) == [LATE]


@pytest.mark.parametrize("lost", [True, False])
def test_one_that_was_kept_in_its_place_and_that_the_seller_cancelled_since_is_nobodys(lost: bool) -> None:
    deal, operation = booking()
    kept = says(adopted(deal), "canceled", revision=2)
    assert kept.status == "cancelled"
    if lost:
        give_up(operation)
    say(operation, "completed", bought(deal))
    assert not Approval.objects.filter(kind__in=(LATE, DIFFERENT), subject_id=deal.pk).exists()
    assert (fresh(deal).status, fresh(deal).media_buy_id) == ("failed", "")


def test_one_that_was_kept_in_its_place_and_that_people_call_cancelled_is_somebodys() -> None:
    deal, operation = booking()
    transition(adopted(deal), "cancelled", actor="system")
    give_up(operation)
    say(operation, "completed", bought(deal))
    assert open_kinds(deal) == [LATE]


# ---- a purchase on time


@pytest.mark.parametrize("status", DealStatus.values)
def test_a_purchase_on_time_comes_to_nothing_only_where_a_deal_that_is_not_over_holds_it(status: str) -> None:
    deal, operation = booking()
    holder(fresh(deal).seller, status)
    say(operation, "completed", bought(deal))
    assert fresh(deal).status == ("booked" if status in OVER else "failed")
    assert open_kinds(deal) == ([DIFFERENT] if status in OVER else [])


# ---- a contradiction


def contradicted(deal: Deal, operation: Operation, *, counted: bool = False) -> Conflict:
    """Refused, and then completed all the same; `counted`: after another contradiction."""
    say(operation, "rejected")
    if counted:
        say(operation, "failed", channel="webhook")
    assert say(operation, "completed", bought(deal), channel="webhook").outcome == "conflict"
    return Conflict.objects.get(operation=operation, resolved_at__isnull=True)


@pytest.mark.parametrize("status", DealStatus.values)
def test_keeping_the_first_cancels_the_second_unless_a_deal_that_is_not_over_holds_it(status: str) -> None:
    deal, operation = booking()
    other = holder(fresh(deal).seller, status)
    kept = choice_words(contradicted(deal, operation))[0]
    decide("conflict", "approve")
    assert list(cancellations()) == ([BUY] if status in OVER else [])
    assert (f"asked to cancel {BUY}" in kept) == (status in OVER)
    assert (other.reference in kept) == (status not in OVER)


@pytest.mark.parametrize("status", DealStatus.values)
def test_a_claimed_one_is_asked_about_next_unless_a_deal_that_is_not_over_holds_it(status: str) -> None:
    deal, operation = booking()
    holder(fresh(deal).seller, status)
    contradicted(deal, operation, counted=True)
    decide("conflict", "approve")
    following = Conflict.objects.filter(resolved_at__isnull=True)
    assert [one.second["value"]["media_buy_id"] for one in following] == ([BUY] if status in OVER else [])


def test_keeping_the_first_cancels_nothing_that_the_seller_cancelled_since() -> None:
    deal, operation = booking()
    contradicted(deal, operation)
    assert says(adopted(deal), "canceled", revision=2).status == "cancelled"
    decide("conflict", "approve")
    assert list(cancellations()) == []
