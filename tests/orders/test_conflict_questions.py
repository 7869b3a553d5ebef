"""What people who decide about a contradiction are shown: the money, its budget, what each answer sends."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from orders.models import Deal
from orders.questions import LATE
from tasks_app.approvals.kinds import now_about
from tasks_app.approvals.models import Approval
from tasks_app.approvals.policy_models import ApprovalPolicy
from tasks_app.approvals.presenters import effects_of
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.operations.models import Operation
from tests.factories import make_seller, make_user
from tests.orders.late import BUY, booking, bought, decide, fresh, say
from tests.orders.live import booked as another_booked
from tests.orders.test_amounts import campaign_of
from tests.orders.test_conflicts import booked, contradicted

pytestmark = pytest.mark.django_db
Situation = Callable[[], Deal]


def another_buy() -> Deal:
    deal, operation = booked()
    contradicted(operation, "completed", bought(deal, "mb-2", budget=50_000.0))
    return deal


def bought_after_a_refusal() -> Deal:
    deal, operation = booking()
    say(operation, "rejected")
    contradicted(Operation.objects.get(pk=operation.pk), "completed", bought(deal, budget=50_000.0))
    return deal


def refused_after_all() -> Deal:
    deal, operation = booked()
    contradicted(operation, "rejected")
    return deal


def other_terms() -> Deal:
    deal, operation = booked()
    contradicted(operation, "completed", bought(deal, budget=50_000.0))
    return deal


def another_task() -> Deal:
    deal, operation = booking()
    contradicted(operation, "completed", bought(deal), task_id="task-other")
    return deal


def refused_otherwise() -> Deal:
    deal, operation = booking()
    say(operation, "rejected")
    contradicted(Operation.objects.get(pk=operation.pk), "failed")
    return deal


def a_stated_amount_that_cannot_be_counted() -> Deal:
    deal, operation = booked()
    contradicted(operation, "completed", bought(deal, "mb-2", budget="a lot"))
    return deal


# What the question is about, in the deal's currency.
SITUATIONS: dict[str, tuple[Situation, int | None]] = {
    "another buy": (another_buy, 50_000),
    "bought after a refusal": (bought_after_a_refusal, 50_000),
    "refused after all": (refused_after_all, 10_250),
    "other terms": (other_terms, 50_000),
    "another task": (another_task, 10_250),
    "refused otherwise": (refused_otherwise, 10_250),
    "uncounted": (a_stated_amount_that_cannot_be_counted, None),
}
VERDICTS = {"approve": "approve", "reject": "reject"}


def asked() -> Approval:
    return Approval.objects.get(kind="conflict", status="open")


@pytest.mark.parametrize("what", SITUATIONS)
def test_the_question_says_what_it_is_about(what: str) -> None:
    make, amount = SITUATIONS[what]
    deal = make()
    question = asked()
    assert question.amount == amount
    assert question.currency == deal.currency
    assert (question.evidence["deal"], question.evidence["advertiser"]) == (
        deal.reference,
        deal.advertiser.name,
    )


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("what", SITUATIONS)
def test_an_answer_sends_what_it_says_and_nothing_else(what: str, verdict: str) -> None:
    SITUATIONS[what][0]()
    question = asked()
    effect = now_about([question]).effects[question.pk][verdict]
    assert effect.words == effects_of(question)[verdict]
    try:
        for _ in range(question.quorum if verdict == "approve" else 1):
            decide("conflict", verdict)
    except DecisionRefusedError:
        assert effect.words.startswith("Not possible: ")
    else:
        assert not effect.words.startswith("Not possible")
    sent = [one.request["media_buy_id"] for one in Operation.objects.filter(task_type="update_media_buy")]
    assert effect.sends is bool(sent)
    assert all(media_buy_id in effect.words for media_buy_id in sent)


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("what", ["another buy", "refused after all"])
def test_under_the_kill_switch_it_says_that_nothing_leaves_where_something_would(
    what: str, verdict: str, client: Client
) -> None:
    SITUATIONS[what][0]()
    kill_switch_set(on=True, reason="A drill", actor="system")
    said = effects_of(asked())[verdict]
    assert said.startswith("Nothing leaves now.") is (what == "another buy")

    client.force_login(make_user("Approver", is_staff=True))
    address = reverse("admin:tasks_app_conflict_change", args=[asked().subject_id])
    assert client.get(address).context[{"approve": "keep_words", "reject": "take_words"}[verdict]] == said


@pytest.mark.parametrize("what", SITUATIONS)
def test_policies_of_late_purchases_judge_what_would_be_kept_as_one(what: str) -> None:
    said: dict[str, Any] = {"limit": Decimal(20_000), "currency": "USD", "kinds": [LATE], "quorum": 2}
    ApprovalPolicy.objects.create(
        key="late", name="Late and large", rule="amount", actor="system", reason="A test", **said
    )
    SITUATIONS[what][0]()
    is_kept = what in ("another buy", "bought after a refusal", "uncounted")
    assert asked().quorum == (2 if is_kept else 1)


def test_what_is_beyond_the_budget_is_said() -> None:
    """Another deal was bought with the money of the one that was refused."""
    campaign = campaign_of(30_000)
    deal, operation = booking(make_seller(slots=9))
    Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign.pk)
    say(operation, "rejected")
    another_booked(make_seller("Another"), media_buy_id="mb-2", campaign_id=campaign.pk)
    contradicted(Operation.objects.get(pk=operation.pk), "completed", bought(fresh(deal), budget=25_000.0))
    beyond = f"5250.00 USD beyond the budget of {campaign.reference}"
    assert asked().evidence["beyond_budget"] == beyond
    assert beyond in effects_of(asked())["reject"]
    assert beyond not in effects_of(asked())["approve"]
    assert BUY in effects_of(asked())["reject"]


def test_a_question_that_shows_another_sum_than_holds_now_is_asked_anew() -> None:
    """While it waits, its campaign's money is spent on something else."""
    campaign = campaign_of(30_000)
    deal, operation = booking(make_seller(slots=9))
    Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign.pk)
    say(operation, "rejected")
    contradicted(Operation.objects.get(pk=operation.pk), "completed", bought(fresh(deal), budget=25_000.0))
    assert "beyond_budget" not in asked().evidence
    another_booked(make_seller("Another"), media_buy_id="mb-2", campaign_id=campaign.pk)
    with pytest.raises(DecisionRefusedError) as refused:
        decide("conflict", "reject")
    assert refused.value.code == "changed"
    assert "beyond_budget" in asked().evidence
