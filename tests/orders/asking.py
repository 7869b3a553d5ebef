"""Every kind of question, brought about by one person who may decide on others' requests too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from orders.ask import Ask
from orders.changes.send import change_ask
from orders.models import Deal
from orders.questions import ask_deal
from orders.services import deal_book, deal_cancel_at_seller
from orders.unclaimed.adopt import media_buy_adopt
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.policy_models import OnExpiry, PolicyRule
from tasks_app.approvals.policy_services import PolicyDraft, policy_create
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.operations.answers import operation_answer
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.steering import operation_settle, operation_stop
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tasks_app.sellers.models import Account, Seller
from tasks_app.sellers.trust import row_change
from tests.factories import approve_deal, make_account, make_advertiser, make_deal, make_seller, make_user
from tests.operations.making import not_sent, observed, stand
from tests.operations.pausing import pause
from tests.orders.late import BUY, bought, decide, give_up, say


def wanted(asker: User) -> Deal:
    """A deal that the person asked for."""
    return make_deal(requested_by=actor_key(asker))


def purchased(asker: User) -> tuple[Deal, Operation]:
    """Their deal in booking, its purchase with the seller."""
    deal = wanted(asker)
    approve_deal(deal)
    operation = deal_book(deal=deal)
    claim_one(operation_id=operation.pk)
    say(operation, "submitted", channel="reply")
    deal.refresh_from_db()
    return deal, operation


def booked(asker: User, **departing: object) -> tuple[Deal, Operation]:
    """Their deal, booked; `departing`: what the seller confirmed of its package otherwise."""
    deal, operation = purchased(asker)
    say(operation, "completed", bought(deal, **departing))
    deal.refresh_from_db()
    return deal, operation


def _recommendation(asker: User) -> None:
    ask_deal(wanted(asker))


def _recommendation_again(asker: User) -> None:
    """Approved, it is to be sent when the seller wants to be paid otherwise."""
    deal = wanted(asker)
    approve_deal(deal)
    operation = deal_book(deal=deal)
    Account.objects.filter(pk=deal.account_id).update(payment_terms="prepay")
    assert claim_one(operation_id=operation.pk) is None


def _booked_differently(asker: User) -> None:
    booked(asker, budget=12_000.0)


def adopt(asker: User) -> Deal:
    """A media buy that only the seller knew, adopted by the person."""
    seller = make_seller()
    start = clock.now() + timedelta(days=3)
    told = {
        "media_buy_id": "mb-theirs",
        "status": "active",
        "media_buy_status": "active",
        "currency": "USD",
        "packages": [{"package_id": "pkg-1", "product_id": "prod-olv", "budget": 5000}],
        "start_time": start.isoformat(),
        "end_time": (start + timedelta(days=9)).isoformat(),
    }
    account = make_account(make_advertiser(), seller)
    return media_buy_adopt(account=account, told=told, user=asker, reason="Their letter names it.")


def _late_completion(asker: User) -> None:
    deal, operation = purchased(asker)
    give_up(operation)
    say(operation, "completed", bought(deal))


def _change(asker: User) -> Operation:
    deal, _ = booked(asker)
    arguments = {"media_buy_id": BUY, "packages": [{"package_id": "pkg-1", "budget": 9000}]}
    return change_ask(Ask(user=asker, task="update_media_buy", seller=deal.seller, arguments=arguments))


def _change_again(asker: User) -> None:
    operation = _change(asker)
    decide("deal_change", "approve")
    Account.objects.filter(pk=operation.account_id).update(payment_terms="prepay")
    assert claim_one(operation_id=operation.pk) is None


def _stop_waiting(asker: User) -> None:
    operation_stop(operation_id=stand(S.SUBMITTED).pk, user=asker, reason="They closed the desk.")


def _settle(asker: User) -> None:
    operation_settle(
        operation_id=stand(S.SUBMITTED).pk,
        user=asker,
        end="failed",
        reason="Their letter says so.",
        evidence="Letter of 12 November, page 2",
    )


def _answer(asker: User) -> None:
    operation = stand(S.INPUT_REQUIRED)
    pause(operation)
    operation_answer(operation_id=operation.pk, generation=1, user=asker, text="Sweden.")


def _conflict(asker: User) -> None:
    _, operation = booked(asker)
    say(operation, "rejected", channel="webhook")


def _seller_change(asker: User) -> None:
    operation = stand(S.SUBMITTED)
    row_change(row=operation.seller, values={"jwks_url": "https://elsewhere.example/jwks.json"}, actor=asker)


def _gate(asker: User) -> None:
    deal = wanted(asker)
    approve_deal(deal)
    kill_switch_set(on=True, reason="A drill", actor="system")
    deal_book(deal=deal)


def _gate_of_its_seller(asker: User) -> None:
    """Sent once and not had, it is to be sent again to a seller that was switched off meanwhile."""
    deal = wanted(asker)
    approve_deal(deal)
    operation = deal_book(deal=deal)
    assert claim_one(operation_id=operation.pk) is not None
    observed(operation_id=operation.pk, seen=not_sent(), channel="reply")
    Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
    Seller.objects.filter(pk=deal.seller_id).update(active=False)
    claim_sends(limit=5)


def _gate_of_a_cancellation(asker: User) -> None:
    deal, _ = booked(asker)
    kill_switch_set(on=True, reason="A drill", actor="system")
    deal_cancel_at_seller(deal=deal, actor=asker, reason="No longer wanted")


# What asks: its kind, and how the person brings it about.
ASKED: dict[str, tuple[str, Callable[[User], object]]] = {
    "a deal": ("deal", _recommendation),
    "a deal that is not what was approved": ("deal", _recommendation_again),
    "a deal booked differently": ("booked_differently", _booked_differently),
    "an adopted media buy": ("booked_differently", adopt),
    "a late purchase": ("unclaimed", _late_completion),
    "a change": ("deal_change", _change),
    "a change that is not what was approved": ("deal_change", _change_again),
    "giving up a wait": ("overdue", _stop_waiting),
    "an end by hand": ("settle_by_hand", _settle),
    "an answer": ("answer", _answer),
    "a contradiction": ("conflict", _conflict),
    "a change of a seller": ("seller_trust", _seller_change),
    "a purchase at a gate": ("risk_gate", _gate_of_its_seller),
    "a purchase that is stopped": ("kill_switch", _gate),
    "a cancellation that is stopped": ("kill_switch", _gate_of_a_cancellation),
}


def asked(what: str, asker: User) -> Approval:
    """The one open question that came of it."""
    kind, bring_about = ASKED[what]
    bring_about(asker)
    return Approval.objects.get(kind=kind, status="open")


def deals_lapse(on_expiry: OnExpiry) -> None:
    """A policy of deals: two hours to decide, after one an administrator may, and then `on_expiry`."""
    policy_create(
        draft=PolicyDraft(
            name="Looked at again",
            rule=PolicyRule.ALWAYS,
            kinds=("deal",),
            on_expiry=on_expiry,
            deadline=timedelta(hours=2),
            escalate_after=timedelta(hours=1),
            escalate_to="Administrator",
        ),
        actor=make_user("Administrator"),
        reason="They answer late",
    )
