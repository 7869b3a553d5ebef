"""What people let pass although its seller is off goes out as to any other: within its slots and breaker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from tasks_app import clock, ids
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide, approvals_expire_due
from tasks_app.commands.gates import SELLER
from tasks_app.commands.models import Command
from tasks_app.operations import claims
from tasks_app.operations.dispatch import claim_one, claim_sends, finish
from tasks_app.operations.lease import CallLease
from tasks_app.operations.models import Operation
from tasks_app.operations.ordering import order_run
from tasks_app.sellers.models import Seller, SellerBreaker
from tests.boundary.conftest import purchase, stopped
from tests.factories import make_seller, make_user
from tests.operations.making import answer, ask, fresh, not_sent, see
from tests.troubles.poisoning import poison

pytestmark = pytest.mark.django_db
Way = Callable[[Seller, int], list[Operation]]


def never_sent(seller: Seller, many: int) -> list[Operation]:
    """Held by the kill switch until it was let go, of steps that were tried before, and asked about anew."""
    stopped()
    orders = [order_run(order=purchase(seller=seller), actor="system") for _ in range(many)]
    Command.objects.update(repeated=True)
    stopped(on=False)
    Seller.objects.update(active=False)
    Approval.objects.update(due_at=clock.now())
    approvals_expire_due()
    return orders


def sent_once(seller: Seller, many: int, *, hours: int | None = None, taken: int = 0) -> list[Operation]:
    """Sent without reaching anybody, and asked about when they were due again; the seller failing by then,
    and so many of its slots taken."""
    orders = [order_run(order=purchase(seller=seller), actor="system") for _ in range(many)]
    Seller.objects.update(slots=many)
    for call in claim_sends(limit=many):
        see(Operation.objects.get(pk=call.operation_id), not_sent())
    Seller.objects.update(active=False)
    Operation.objects.update(send_at=clock.now())
    Seller.objects.update(slots=seller.slots)
    SellerBreaker.objects.all().delete()
    if hours is not None:
        failing(seller, hours=hours)
    for _ in range(taken):
        CallLease.objects.create(id=ids.new_id(), seller=seller, until=clock.now() + timedelta(hours=1))
    assert claim_sends(limit=many) == []
    return orders


WAYS = pytest.mark.parametrize("way", [never_sent, sent_once])


def let_pass(way: Way, *, slots: int = 5, many: int = 2) -> tuple[Seller, list[Operation]]:
    """Orders that people let pass, with a seller that is off."""
    seller = make_seller(slots=slots)
    orders = way(seller, many)
    for question in Approval.objects.filter(status="open"):
        for _ in range(question.quorum):
            approval_decide(approval_id=question.pk, user=make_user("Approver"), verdict="approve")
    assert wait(orders) == many
    return seller, [fresh(order) for order in orders]


def failing(seller: Seller, *, hours: int) -> None:
    probe_at = clock.now() + timedelta(hours=hours)
    SellerBreaker.objects.create(seller=seller, state="open", failures=5, probe_at=probe_at)


def wait(orders: list[Operation]) -> int:
    """How many of them are as they were: due, nobody asked, what people let pass not used up."""
    assert not Approval.objects.filter(status="open").exists()
    ready = Operation.objects.filter(pk__in=[one.pk for one in orders], send_at__lte=clock.now())
    unused = Command.objects.filter(key__in=ready.values("purpose"), overrides=[SELLER])
    return unused.count()


@WAYS
@pytest.mark.parametrize("batch", [None, 200])
def test_nothing_goes_out_while_the_seller_is_left_alone(way: Way, batch: int | None) -> None:
    seller, orders = let_pass(way)
    failing(seller, hours=1)
    for _ in range(2):
        assert claim_sends(limit=10, batch=batch) == []
    assert claim_one(operation_id=orders[0].pk) is None
    assert wait(orders) == 2
    assert not CallLease.objects.exists()


@WAYS
def test_one_goes_out_as_the_probe_and_its_success_lets_the_others_go(way: Way) -> None:
    seller, orders = let_pass(way, many=3)
    failing(seller, hours=-1)

    (probe,) = claim_sends(limit=10)
    assert claim_sends(limit=10) == []
    assert wait(orders) == 2
    assert SellerBreaker.objects.get().state == "half-open"

    finish([(probe, answer("completed", payload={"media_buy_id": "mb-1", "packages": []}))])
    assert SellerBreaker.objects.get().state == "closed"
    assert len(claim_sends(limit=10)) == 2


@WAYS
@pytest.mark.parametrize("batch", [None, 200])
def test_no_more_go_out_than_the_slots_of_all_processes_leave(way: Way, batch: int | None) -> None:
    seller, orders = let_pass(way, slots=3, many=4)
    CallLease.objects.create(id=ids.new_id(), seller=seller, until=clock.now() + timedelta(hours=1))
    assert len(claim_sends(limit=10, batch=batch)) == 2
    assert claim_sends(limit=10, batch=batch) == []
    assert wait(orders) == 2
    assert CallLease.objects.count() == 3


def test_what_nobody_let_pass_is_refused_beside_it() -> None:
    """It takes no place, and keeps none."""
    seller, orders = let_pass(never_sent)
    failing(seller, hours=1)
    reads = [ask("get_products", seller=seller) for _ in range(3)]
    for _ in range(3):
        assert claim_sends(limit=1, batch=200) == []
    assert [fresh(one).error["code"] for one in reads] == ["SELLER_OFF"] * 3
    assert wait(orders) == 2


def test_one_that_cannot_be_taken_gives_the_others_no_more_places() -> None:
    """All are handled by themselves then; what could not be is left out of the next claim."""
    _, orders = let_pass(never_sent, slots=2, many=4)
    poison("tasks_app_operation", orders[0].pk)
    taken = [call.operation_id for _ in range(3) for call in claim_sends(limit=10)]
    assert taken == [one.pk for one in orders[1:3]]
    assert wait(orders) == 2
    assert CallLease.objects.count() == 2


@pytest.mark.parametrize("hours", [None, 1, -1])
def test_what_nobody_let_pass_is_asked_about_at_once(hours: int | None) -> None:
    """It needs neither a slot nor a probe."""
    seller = make_seller(slots=1)
    orders = sent_once(seller, 3, hours=hours, taken=1)
    asked = Approval.objects.filter(status="open")
    assert asked.count() == len(orders)
    assert not SellerBreaker.objects.filter(state="half-open").exists()


@pytest.mark.parametrize("limit", [1, 4])
def test_what_waits_for_a_place_keeps_none_of_other_sellers(limit: int) -> None:
    seller, orders = let_pass(never_sent, many=12)
    failing(seller, hours=1)
    other = make_seller("Other", slots=50)
    for number in range(1, 4):
        for _ in range(limit):
            ask("get_products", seller=other)
        busy = Counter({other.pk: number * limit})
        assert len(claim_sends(limit=limit, batch=64, out=busy)) == limit
    assert wait(orders) == 12


def test_a_call_that_is_still_out_somewhere_keeps_its_lease() -> None:
    """Its lease ran out; while the order has no place, nobody takes it over."""
    seller, orders = let_pass(never_sent)
    failing(seller, hours=1)
    ago = clock.now() - timedelta(seconds=5)
    CallLease.objects.create(id=orders[0].pk, seller=seller, until=ago)
    assert claim_sends(limit=10) == []
    assert CallLease.objects.get().until == ago


def test_what_people_let_pass_at_this_moment_waits_for_the_next_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was not counted: it is neither sent nor refused."""
    _, orders = let_pass(never_sent)
    with monkeypatch.context() as patched:
        patched.setattr(claims, "_let_pass", lambda due, rooms: (frozenset(), []))
        assert claim_sends(limit=10) == []
    assert wait(orders) == 2
    assert len(claim_sends(limit=10)) == 2


def test_what_was_let_past_its_seller_is_asked_about_anew_with_the_gate_that_closed_since() -> None:
    """Each waiting has its own word of people's, about all that is closed: what they said before is spent."""
    _, (order,) = let_pass(never_sent, many=1)
    stopped()
    assert claim_sends(limit=10) == []
    question = Approval.objects.get(status="open")
    assert set(question.evidence["gates"]) == {"kill_switch", SELLER}
    assert Command.objects.get().overrides == []
    for _ in range(question.quorum):
        approval_decide(approval_id=question.pk, user=make_user("Approver"), verdict="approve")
    assert [call.operation_id for call in claim_sends(limit=10)] == [order.pk]
