"""What people last let go in an answer to a seller's question about a purchase, or a change, is what is sent
on, shown, proved and booked from then on; the first request never is."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from campaigns.commitments import money_of
from orders.amounts import deal_amounts
from orders.ask import Ask
from orders.changes.send import change_ask
from orders.models import Deal
from orders.questions import DIFFERENT
from orders.services import deal_book
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.operations.answers import _renewed
from tasks_app.operations.models import Operation
from tasks_app.operations.pauses import request_let_go
from tasks_app.operations.tokens import HIDDEN
from tasks_app.sellers.models import Seller
from tests.factories import approve_deal, make_deal, make_line, make_seller, make_user
from tests.operations.making import observed
from tests.orders import live
from tests.orders.late import answered, bought, decide, fresh, give_up, paused, say
from tests.orders.live import says
from tests.orders.test_amounts import campaign_of
from tests.orders.test_answering import changed, leaves, waits, with_budget

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


def the_deal() -> Deal:
    return fresh(Deal.objects.order_by("pk")[0])


def let_go(operation: Operation, **changes: Any) -> dict[str, Any]:
    """An answer that people let go, and that left, as it left."""
    answered(operation, **changes)
    while Approval.objects.filter(kind="answer", status="open").exists():
        decide("answer", "approve")
    (sent,) = leaves()
    return sent


def pauses_again(operation: Operation, status: str = "auth-required") -> None:
    identity = {"task_id": "native-task", "context_id": "another"}
    seen = Seen(kind="answer", status=status, raw_status=status, continuation=identity)
    observed(operation_id=operation.pk, seen=seen, channel="reply")


@pytest.mark.parametrize("what", ["a purchase", "a change"])
def test_words_alone_send_what_people_last_let_go(what: str) -> None:
    operation = waits() if what == "a purchase" else changed()
    let_go(operation, packages=with_budget(operation, 11_000))
    pauses_again(operation, "input-required")
    answered(operation, "Storgatan 1.")
    asked = Approval.objects.get(kind="answer", status="open")
    assert (asked.amount, asked.evidence["sent"]["packages"][0]["budget"]) == (11_000, 11_000)
    decide("answer", "approve")
    (sent,) = leaves()
    assert sent["packages"][0]["budget"] == 11_000


@pytest.mark.parametrize("what", ["a purchase", "a change"])
def test_new_credentials_never_send_the_first_amount(what: str) -> None:
    operation = waits() if what == "a purchase" else changed()
    first = let_go(operation, packages=with_budget(operation, 10_500))
    pauses_again(operation)
    _renewed(operation.seller, "system")
    if Approval.objects.filter(kind="answer", status="open").exists():
        decide("answer", "approve")
    (sent,) = leaves()
    assert sent["packages"][0]["budget"] == 10_500
    assert sent["idempotency_key"] != first["idempotency_key"]


def test_new_credentials_never_send_the_first_dates() -> None:
    operation = waits()
    start = (the_deal().start_at + timedelta(days=3)).isoformat()
    let_go(operation, start_time=start)
    pauses_again(operation)
    _renewed(operation.seller, "system")
    (sent,) = leaves()
    assert sent["start_time"] == start


def test_the_first_request_is_not_sent_again_once_another_has_left() -> None:
    operation = waits("auth-required")
    let_go(operation, packages=with_budget(operation, 20_000))
    seen = Seen(kind="answer", status="auth-required", raw_status="auth-required")
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    _renewed(operation.seller, "system")
    assert leaves() == []
    assert not Approval.objects.filter(status="open").exists()


def test_an_answer_that_a_gate_stops_is_asked_about_as_it_leaves() -> None:
    operation = waits()
    answered(operation, packages=with_budget(operation, 90_000))
    decide("answer", "approve")
    kill_switch_set(on=True, reason="A test", actor="system")
    assert leaves() == []
    asked = Approval.objects.get(kind="kill_switch", status="open")
    assert (asked.amount, asked.evidence["gross_after"]) == (90_000, "90000.00")
    assert asked.evidence["sent"]["packages"][0]["budget"] == 90_000


def test_our_webhook_credentials_are_shown_to_nobody() -> None:
    seller = make_seller(webhook_mode="hmac", webhook_secret="our-webhook-secret-1234567890-abcdef")
    operation = waits(seller=seller)
    sent = let_go(operation, packages=with_budget(operation, 13_000))["push_notification_config"]
    shown = request_let_go(operation, left=True)["push_notification_config"]
    assert (shown["url"], shown["token"]) == (sent["url"], HIDDEN)
    assert shown["authentication"]["credentials"] == HIDDEN != sent["authentication"]["credentials"]


def test_a_change_made_as_it_was_answered_asks_nobody() -> None:
    deal = live.booked(line=make_line(budget=Decimal(10_000)))
    end = (deal.end_at + timedelta(days=5)).isoformat()
    packages = [{"package_id": "pkg-1", "budget": 12_000}]
    wanted = {"media_buy_id": deal.media_buy_id, "end_time": end, "packages": packages}
    user = make_user("Integration")
    operation = change_ask(Ask(user=user, task="update_media_buy", seller=deal.seller, arguments=wanted))
    decide("deal_change", "approve")
    operation = paused(operation, asked="No more than 10,000: shall I move the end alone?")
    as_before = [{"package_id": "pkg-1", "budget": 10_000}]
    let_go(operation, packages=as_before)
    Seller.objects.update(tools=["create_media_buy", "update_media_buy"])
    told = {"media_buy_id": deal.media_buy_id, "end_time": end, "affected_packages": as_before}
    say(operation, "completed", told, channel="reply")
    assert not Approval.objects.filter(status="open").exists()
    assert the_deal().end_at.isoformat() == end


def booked_as(operation: Operation, **told: Any) -> Deal:
    """The deal, once its seller says that it is bought."""
    say(operation, "completed", {**bought(the_deal()), **told}, channel="reply")
    return the_deal()


def without(packages: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in one.items() if key != name} for one in packages]


@pytest.mark.parametrize("brief", ["no packages", "no amounts"])
def test_a_brief_result_books_what_was_let_go(brief: str) -> None:
    campaign = campaign_of(100_000)
    operation = waits(campaign_id=campaign.pk)
    let_go(operation, packages=with_budget(operation, 20_000))
    packages = bought(the_deal())["packages"]
    deal = booked_as(operation, packages=None if brief == "no packages" else without(packages, "budget"))
    assert (deal_amounts(deal).approved, deal_amounts(deal).committed) == (20_000, 20_000)
    assert money_of([campaign.pk])[campaign.pk].confirmed == 20_000
    says(deal, "pending_start", revision=2, packages=bought(deal, budget=20_000)["packages"])
    assert not the_deal().differs
    assert not Approval.objects.filter(status="open").exists()


def test_dates_that_the_seller_ignored_are_asked_about() -> None:
    operation = waits()
    before = the_deal()
    start = before.start_at + timedelta(days=3)
    let_go(operation, start_time=start.isoformat())
    told = {"start_time": before.start_at.isoformat(), "end_time": before.end_at.isoformat()}
    deal = booked_as(operation, packages=bought(before, **told)["packages"], **told)
    assert (deal.start_at, deal.lines.get().start_at) == (start, start)
    (found,) = deal.differences
    assert (found["field"], found["approved"]) == ("start", start.isoformat())
    assert Approval.objects.filter(kind=DIFFERENT, status="open").exists()


def test_targeting_that_the_seller_ignored_is_asked_about() -> None:
    operation = waits()
    wanted = {"geo_countries": ["SE"]}
    let_go(operation, packages=[{**operation.request["packages"][0], "targeting_overlay": wanted}])
    deal = booked_as(operation, packages=bought(the_deal(), targeting_overlay={})["packages"])
    assert deal.lines.get().targeting == wanted
    assert [one["field"] for one in deal.differences] == ["targeting"]


def test_a_package_that_was_left_out_comes_to_nothing() -> None:
    deal = make_deal(make_line(budget=Decimal(10_000)), make_line(product_id="other", budget=Decimal(5_000)))
    approve_deal(deal)
    operation = paused(deal_book(deal=fresh(deal)))
    let_go(operation, packages=operation.request["packages"][:1])
    deal = booked_as(operation, packages=None)
    assert (deal_amounts(deal).committed, deal.differs) == (10_000, False)
    assert [line.budget for line in deal.lines.all()] == [10_000, 0]


def test_what_was_given_up_after_an_answer_is_asked_about_for_what_was_let_go() -> None:
    operation = waits()
    let_go(operation, packages=with_budget(operation, 20_000))
    say(operation, "submitted", channel="reply")
    give_up(operation)
    say(operation, "completed", bought(the_deal(), budget=20_000))
    asked = Approval.objects.get(kind="unclaimed", status="open")
    assert (asked.amount, Decimal(asked.evidence["gross"])) == (20_000, 20_000)
    decide("unclaimed", "approve")
    kept = Deal.objects.latest("pk")
    assert (kept.differs, deal_amounts(kept).approved, kept.lines.get().budget) == (False, 20_000, 20_000)


def test_an_answer_of_a_host_whose_clock_is_ahead_counts() -> None:
    operation = waits()
    with clock.injected(lambda: timezone.now() + timedelta(seconds=20)):
        answered(operation, packages=with_budget(operation, 20_000))
    assert deal_amounts(the_deal()).committed == 10_000
    decide("answer", "approve")
    assert len(leaves()) == 1
    assert deal_amounts(the_deal()).committed == 20_000
