"""An answer to a seller's question sends the whole purchase, or change, once more: it is asked about like the
first one, with its amount, policies, room and dates, and who asked for the deal does not decide on it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from orders.ask import Ask
from orders.changes.send import change_ask
from orders.models import Deal
from orders.selectors import deals_with_rows, questions_of
from orders.services import deal_book
from orders.waits import waits_of
from tasks_app.approvals.models import Approval
from tasks_app.approvals.policy_models import ApprovalPolicy
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.commands.models import Command
from tasks_app.commands.questions import gates_ask_again
from tasks_app.desk.explain import explain
from tasks_app.lifecycle.names import link_to
from tasks_app.notifications.models import Notification
from tasks_app.operations.answers import _renewed
from tasks_app.operations.dispatch import claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.steered import SteeringRefusedError
from tasks_app.people.actors import actor_key
from tasks_app.sellers.models import Account
from tests.boundary.conftest import stopped
from tests.factories import approve_deal, make_deal, make_line, make_seller, make_user
from tests.orders.late import answered, decide, fresh, paused
from tests.orders.live import booked
from tests.orders.test_amounts import campaign_of

pytestmark = pytest.mark.django_db


def waits(status: str = "input-required", **fields: Any) -> Operation:
    """A purchase of 10,000 that its seller has paused."""
    deal = make_deal(make_line(budget=Decimal(10_000)), **fields)
    approve_deal(deal)
    return paused(deal_book(deal=fresh(deal)), status)


def changed(status: str = "input-required") -> Operation:
    """A change of a booked media buy to 12,000 that its seller has paused."""
    deal = booked(line=make_line(budget=Decimal(10_000)))
    wanted = {"media_buy_id": deal.media_buy_id, "packages": [{"package_id": "pkg-1", "budget": 12_000}]}
    ask = Ask(user=make_user("Integration"), task="update_media_buy", seller=deal.seller, arguments=wanted)
    operation = change_ask(ask)
    decide("deal_change", "approve")
    return paused(operation, status)


def with_budget(operation: Operation, budget: Any) -> list[dict[str, Any]]:
    return [{**operation.request["packages"][0], "budget": budget}]


def asked() -> Approval:
    return Approval.objects.get(kind="answer", status="open")


def leaves() -> list[dict[str, Any]]:
    """Purchases and changes that leave at this moment."""
    calls = claim_sends(limit=9)
    return [call.arguments for call in calls if call.tool in ("create_media_buy", "update_media_buy")]


ORDERS: dict[str, Callable[..., Operation]] = {"a purchase": waits, "a change": changed}


@pytest.mark.parametrize("what", ORDERS)
def test_what_it_comes_to_is_asked_and_policies_judge_it(what: str) -> None:
    operation = ORDERS[what]()
    kinds = {"a purchase": ["deal"], "a change": ["deal_change"]}[what]
    said = {"limit": Decimal(400_000), "currency": "USD", "kinds": kinds, "quorum": 3}
    ApprovalPolicy.objects.create(
        key="huge", name="Huge", rule="amount", actor="system", reason="A test", **said
    )
    answered(operation, packages=with_budget(operation, 500_000))
    question = asked()
    assert (question.amount, question.currency, question.quorum) == (Decimal(500_000), "USD", 3)
    assert "huge" in {one["key"] for one in question.policies}
    assert question.evidence["sent"]["packages"][0]["budget"] == 500_000
    assert question.evidence["gross_after"] == "500000.00"
    assert question.advertiser_id == Deal.objects.get().advertiser_id


@pytest.mark.parametrize("what", ORDERS)
def test_words_alone_are_asked_with_what_the_deal_comes_to(what: str) -> None:
    answered(ORDERS[what]())
    assert asked().amount == {"a purchase": 10_000, "a change": 12_000}[what]
    decide("answer", "approve")
    (sent,) = leaves()
    assert sent["packages"][0]["budget"] == asked_for(what)


def asked_for(what: str) -> int:
    return {"a purchase": 10_000, "a change": 12_000}[what]


def test_who_asked_for_the_deal_does_not_decide() -> None:
    asker = make_user("Administrator")
    operation = waits(requested_by=actor_key(asker))
    answered(operation, packages=with_budget(operation, 20_000))
    with pytest.raises(DecisionRefusedError) as refused:
        decide("answer", "approve", user=asker)
    assert refused.value.code == "own_request"
    decide("answer", "approve")
    assert len(leaves()) == 1


def test_what_the_campaign_has_no_room_for_is_refused_in_words() -> None:
    campaign = campaign_of(20_000)
    operation = waits(campaign_id=campaign.pk)
    with pytest.raises(SteeringRefusedError, match=campaign.reference):
        answered(operation, packages=with_budget(operation, 20_001))
    answered(operation, packages=with_budget(operation, 20_000))
    line = make_line(budget=Decimal(5_000))
    beside = make_deal(line, seller=make_seller("Another"), campaign_id=campaign.pk)
    approve_deal(beside)
    with pytest.raises(DecisionRefusedError, match=campaign.reference):
        decide("answer", "approve")
    assert leaves() == []


@pytest.mark.parametrize(
    "said",
    [
        {"packages": "all of it"},
        {"packages": [{"product_id": "p", "pricing_option_id": "o"}]},
        {"packages": [{"product_id": "p", "pricing_option_id": "o", "budget": "a lot"}]},
        {"packages": [{"product_id": "p", "pricing_option_id": "o", "budget": 0}]},
        {"packages": [{"product_id": "p", "pricing_option_id": "o", "budget": 10.001}]},
        {"total_budget": {"amount": 90_000, "currency": "USD"}},
        {"total_budget": {"amount": 10_000, "currency": "EUR"}},
        {"account": {"account_id": "another"}},
        {"brand": {"domain": "another.example"}},
        {"proposal_id": "another"},
        {"po_number": "PO-4711"},
        {"unheard_of": 1},
    ],
    ids=lambda said: "-".join(said) if isinstance(said, dict) else None,
)
def test_what_nobody_could_approve_is_refused_in_words(said: dict[str, Any]) -> None:
    operation = waits()
    with pytest.raises(SteeringRefusedError) as refused:
        answered(operation, **said)
    assert (refused.value.code, bool(str(refused.value))) == ("answer", True)
    assert not Approval.objects.filter(kind="answer").exists()


def test_a_purchase_order_number_that_was_used_is_not_used_again_by_an_answer() -> None:
    """People are asked about that before a purchase leaves; later ones are compared with what left."""
    seller = make_seller(slots=9)
    first = booked(seller)
    deal = make_deal(make_line(budget=Decimal(10_000)), seller=seller, account=first.account)
    approve_deal(deal)
    operation = paused(deal_book(deal=fresh(deal)))
    with pytest.raises(SteeringRefusedError, match="po_number cannot be answered"):
        answered(operation, po_number=first.reference)
    answered(operation, po_number=deal.reference)
    assert Approval.objects.filter(kind="answer").exists(), "its own may be said again"


def test_a_package_beside_those_of_the_deal_is_refused() -> None:
    """It would be no line of the deal's: nobody would see it left out of what the seller books."""
    operation = waits()
    packages = with_budget(operation, 6_000)
    another = {**packages[0], "product_id": "another", "budget": 4_000}
    with pytest.raises(SteeringRefusedError, match="more than the deal's"):
        answered(operation, packages=[*packages, another])
    answered(operation, packages=[another])
    assert Approval.objects.filter(kind="answer").exists()


@pytest.mark.parametrize("said", [{"canceled": True}, {"packages": [{"package_id": "another", "budget": 5}]}])
def test_a_change_is_answered_as_it_could_be_asked_for(said: dict[str, Any]) -> None:
    operation = changed()
    with pytest.raises(SteeringRefusedError):
        answered(operation, **said)


@pytest.mark.parametrize("when", ["before people decide", "before it leaves"])
def test_what_changes_meanwhile_is_not_sent(when: str) -> None:
    operation = waits()
    answered(operation)
    if when == "before it leaves":
        decide("answer", "approve")
    Account.objects.update(payment_terms="prepay")
    if when == "before people decide":
        with pytest.raises(DecisionRefusedError) as refused:
            decide("answer", "approve")
        assert refused.value.code == "changed"
    assert leaves() == []
    answered(operation, "Sweden, prepaid.")
    decide("answer", "approve")
    assert len(leaves()) == 1
    assert Notification.objects.filter(kind="answer_held_back").exists() == (when == "before it leaves")


@pytest.mark.parametrize("what", ORDERS)
def test_new_credentials_send_what_people_approved(what: str) -> None:
    operation = ORDERS[what]("auth-required")
    _renewed(operation.seller, "system")
    assert not Approval.objects.filter(kind="answer").exists()
    assert len(leaves()) == 1


@pytest.mark.parametrize("what", ORDERS)
def test_new_credentials_ask_people_where_it_is_not_that_any_more(what: str) -> None:
    operation = ORDERS[what]("auth-required")
    Account.objects.update(payment_terms="prepay")
    _renewed(operation.seller, "system")
    assert leaves() == []
    assert asked().evidence["payment_terms"] == "prepay"
    decide("answer", "approve")
    assert len(leaves()) == 1


def shown(deal: Deal, *besides: Approval) -> list[str]:
    """What its page says is waited for, by the pages of that."""
    rows = deals_with_rows(Deal.objects.filter(pk=deal.pk))
    told = waits_of(
        approvals=[*rows.open_questions(deal), *besides],
        operations=rows.operations[deal.pk],
        who=make_user("Ad Ops"),
        estimates={},
    )
    return [one.link for one in told]


def test_an_answer_is_told_of_by_its_question_while_that_is_open() -> None:
    """That of its release, then that at the kill switch; then by itself, whatever else people are asked."""
    operation = waits()
    deal = Deal.objects.get(pk=operation.subject_id)
    answered(operation)
    assert shown(deal) == [link_to(Approval, asked().pk)]
    stopped()
    decide("answer", "approve")
    passing = Approval.objects.get(kind="kill_switch", status="open")
    assert shown(deal) == [link_to(Approval, passing.pk)]
    stopped(on=False)
    gates_ask_again()
    assert shown(deal) == [link_to(Operation, operation.pk)]
    assert link_to(Operation, operation.pk) in shown(deal, passing)


@pytest.mark.parametrize("what", ORDERS)
def test_the_question_at_the_gate_of_an_answer_is_one_about_its_deal(what: str) -> None:
    operation, viewer = ORDERS[what](), make_user("Administrator")
    answered(operation, text="So be it.")
    stopped()
    decide("answer", "approve")
    question = Approval.objects.get(kind="kill_switch", status="open")
    assert Command.objects.get(pk=question.subject_id).subject_id == operation.pk
    deal = Deal.objects.get()
    assert questions_of([deal.pk]) == {deal.pk: [question]}
    assert any(question.reference in one.does for one in explain(deal.reference, viewer).who)
