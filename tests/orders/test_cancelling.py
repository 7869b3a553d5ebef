"""What an approver of a cancellation is told: the fee as stated, what is freed, the requester's reason."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from orders.acts import deal_cancel_ask
from orders.choices import deal_choices
from orders.evidence import cancellation_words
from orders.models import Deal
from tasks_app import clock, days
from tasks_app.approvals.evidence import other_facts
from tasks_app.approvals.models import Approval
from tasks_app.approvals.presenters import effects_of
from tasks_app.approvals.spending import spent_after
from tasks_app.desk import text
from tasks_app.desk.text import SPACE
from tests.factories import make_line, make_user
from tests.orders.live import booked, standing

pytestmark = pytest.mark.django_db
FREED = f"USD{SPACE}35,200"
WEEK = {"interval": 7, "unit": "days"}
HALF = {"type": "percent_remaining", "rate": "0.5"}


def asked(policy: Any, reason: str = "The client moved the launch", budget: str = "35200") -> Approval:
    """A cancellation of a deal whose flight begins in ten days, put to an approver."""
    terms = {} if policy is None else {"cancellation_policy": policy}
    deal = booked(line=make_line(terms=terms, budget=Decimal(budget)))
    return deal_cancel_ask(deal_id=deal.pk, user=make_user("Buyer"), reason=reason)


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (None, "fee: not stated by the seller; frees {freed}."),
        ({"notice_period": WEEK}, "fee: not stated by the seller; frees {freed}."),
        ("read our site", "fee: not stated by the seller; frees {freed}."),
        ({"cancellation_fee": {"type": "none"}, "notice_period": WEEK}, "{fee}: none; frees {freed}."),
        (
            {"cancellation_fee": HALF, "notice_period": WEEK},
            "{fee}: none until {last}, then 50{s}% of what remains is due; frees {freed}.",
        ),
        (
            {"cancellation_fee": HALF, "notice_period": {"interval": 14, "unit": "days"}},
            "{fee}: 50{s}% of what remains is due; frees {freed}, less the fee.",
        ),
        (
            {"cancellation_fee": {"type": "fixed_fee", "amount": 500}},
            "{fee}: USD{s}500.00 is due; frees {freed}, less the fee.",
        ),
        (
            {"cancellation_fee": {"type": "full_commitment"}},
            "{fee}: all of it is due; frees {freed}, less the fee.",
        ),
    ],
)
def test_fee_and_money_are_told_as_stated(policy: Any, told: str) -> None:
    said = effects_of(asked(policy))["approve"]
    deal = Deal.objects.get()
    expected = told.format(
        fee=f"fee as stated on {text.day(deal.created_at, deal.zone)}",
        freed=FREED,
        last=text.moment_there(days.before(deal.start_at, timedelta(days=7), deal.zone), deal.zone),
        s=SPACE,
    )
    assert said == f"Cancels the whole buy; {expected} Reason: The client moved the launch."


def test_a_package_without_a_stated_fee_is_not_told_by_anothers() -> None:
    free = {"cancellation_policy": {"cancellation_fee": {"type": "none"}}}
    deal = booked(lines=(make_line(terms=free), make_line(product_id="prod-ctv", terms={})))
    choices = deal_choices(deal, list(deal.lines.all()), [])
    assert "not stated for 1 of 2 packages" in " ".join(one.note for one in choices)
    said = effects_of(deal_cancel_ask(deal_id=deal.pk, user=make_user("Buyer"), reason="So"))["approve"]
    assert ": none; not stated for 1 of 2 packages; frees" in said


@pytest.mark.parametrize(
    ("fee", "told"),
    [
        ("", "fee: not stated by the seller; frees {freed}."),
        ("none until Tue 3 Nov, then 50 %", "none until Tue 3 Nov, then 50 %; frees {freed}."),
    ],
)
def test_a_question_of_before_is_told_as_it_was_put(fee: str, told: str) -> None:
    """Its fees were kept as one text."""
    evidence = asked(None).evidence
    cancellation = {
        key: v for key, v in evidence["cancellation"].items() if key in ("stated_at", "frees", "runs")
    }
    before = {**evidence, "cancellation": {**cancellation, "reason": "So", "fee": fee}}
    assert told.format(freed=FREED) in cancellation_words(before)


def test_a_flight_that_has_begun_is_not_all_freed_though_its_seller_says_booked() -> None:
    deal = booked(line=make_line(budget=Decimal("35200.50")))
    with clock.injected(lambda: deal.start_at + timedelta(days=1)):
        approval = deal_cancel_ask(deal_id=deal.pk, user=make_user("Buyer"), reason="Enough!")
        assert "less what has run. Reason" in effects_of(approval)["approve"]


def test_nothing_is_spent_after_it_and_the_reason_is_among_the_facts() -> None:
    approval = asked(None)
    assert (approval.amount, spent_after(approval)) == (Decimal(35_200), Decimal(0))
    facts = dict(other_facts(approval))
    assert facts["Reason"] == "The client moved the launch"
    assert "Gross after" not in facts


def test_what_has_run_is_not_freed() -> None:
    deal = standing(booked(line=make_line(budget=Decimal("35200.50"))), "delivering")
    approval = deal_cancel_ask(deal_id=deal.pk, user=make_user("Buyer"), reason="Enough!")
    said = effects_of(approval)["approve"]
    assert said.endswith(f"frees USD{SPACE}35,200.50, less what has run. Reason: Enough!")


def test_the_fee_is_that_of_the_offer_whenever_it_is_asked() -> None:
    deal = booked(line=make_line(terms={"cancellation_policy": {"cancellation_fee": {"type": "none"}}}))
    later = clock.now() + timedelta(days=5)
    with clock.injected(lambda: later):
        approval = deal_cancel_ask(deal_id=deal.pk, user=make_user("Buyer"), reason="So")
        stated = text.day(deal.created_at, deal.zone)
        assert f"fee as stated on {stated}: none" in effects_of(approval)["approve"]
    assert Deal.objects.get(pk=deal.pk).status == "booked"
