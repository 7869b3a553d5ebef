"""Media buys that no live deal holds: people keep each as a deal, or have it cancelled."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from campaigns.commitments import money_of
from orders.committed import committed_beside
from orders.models import Deal, UnclaimedBuy
from orders.questions import ask_deal
from orders.successors import duplicate_reason
from orders.unclaimed.question import UNCLAIMED, keep_refusal
from tasks_app.approvals.models import Approval
from tasks_app.approvals.presenters import effects_of
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.lifecycle.transitions import transition
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.notifications.models import Notification
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tests.factories import make_advertiser, make_deal, make_seller, make_team
from tests.orders import live
from tests.orders.late import (
    BUY,
    booking,
    bought,
    cancellation,
    decide,
    ended,
    fresh,
    give_up,
    overdue,
    say,
    unclaimed,
)
from tests.orders.test_amounts import campaign_of
from tests.support import undone

pytestmark = pytest.mark.django_db


def lost(**fields: Any) -> tuple[Deal, Operation]:
    """A deal whose purchase was given up."""
    deal, operation = booking(make_seller(slots=9))
    Deal.objects.filter(pk=deal.pk).update(**fields)
    give_up(operation)
    return fresh(deal), operation


def asked() -> Approval:
    return Approval.objects.get(kind=UNCLAIMED, status="open")


def open_kinds() -> list[str]:
    return sorted(Approval.objects.filter(status="open").values_list("kind", flat=True))


def row(media_buy_id: str = BUY) -> UnclaimedBuy:
    return UnclaimedBuy.objects.get(media_buy_id=media_buy_id)


def test_it_is_kept_on_the_seller_s_terms_by_one_decision() -> None:
    deal, operation = lost()
    say(operation, "completed", bought(deal, budget=9_000.0))
    assert (asked().amount, asked().evidence["differences"][0]["field"]) == (9_000, "budget")
    decide(UNCLAIMED, "approve")
    new = Deal.objects.get(follows=deal)
    assert (new.status, new.media_buy_id, new.lines.get().budget) == ("booked", BUY, 9_000)
    assert (row().outcome, fresh(deal).status, open_kinds()) == ("kept", "failed", [])
    assert new.mirror.due_at is not None
    for one in (deal, new):
        assert verify_entity("deal", one.pk).ok


def test_a_second_media_buy_is_asked_about_and_the_contradiction_is_not() -> None:
    deal, operation = booking()
    say(operation, "completed", bought(deal))
    assert say(operation, "completed", bought(deal, "mb-2"), channel="webhook").outcome == "conflict"
    conflict = Conflict.objects.get()
    assert (conflict.resolution, conflict.resolved_by, "mb-2" in conflict.reason) == ("kept", "system", True)
    assert open_kinds() == [UNCLAIMED]
    assert effects_of(asked())["approve"].startswith(f"Not possible: {deal.reference} is booked with {BUY}")
    with pytest.raises(DecisionRefusedError, match="only be cancelled"):
        decide(UNCLAIMED, "approve")
    decide(UNCLAIMED, "reject")
    assert cancellation().request["media_buy_id"] == "mb-2"
    ended(cancellation(), "completed", {"media_buy_id": "mb-2", "media_buy_status": "canceled"})
    assert (row("mb-2").outcome, fresh(deal).status, fresh(deal).media_buy_id) == ("cancelled", "booked", BUY)


def test_a_purchase_told_of_after_a_refusal_is_unclaimed() -> None:
    deal, operation = booking()
    say(operation, "rejected")
    say(operation, "completed", bought(deal), channel="webhook")
    decide(UNCLAIMED, "approve")
    assert Deal.objects.get(follows=deal).media_buy_id == BUY
    assert duplicate_reason(fresh(deal)), "nothing else is bought in its place"


def test_nothing_else_is_bought_while_it_is_undecided() -> None:
    deal, operation = lost()
    copy = make_deal(seller=deal.seller, account=False, follows=deal)
    ask_deal(copy)
    say(operation, "completed", bought(deal))
    assert BUY in duplicate_reason(copy)
    with pytest.raises(DecisionRefusedError, match="decide about it first"):
        decide("deal", "approve")


def test_what_has_delivered_is_not_cancelled() -> None:
    deal, operation = lost()
    say(operation, "completed", {**bought(deal), "media_buy_status": "completed"})
    assert effects_of(asked())["reject"].startswith("Sends nothing. It has delivered")
    decide(UNCLAIMED, "reject")
    assert (row().outcome, open_kinds()) == ("dropped", [])


# What the seller answers to the cancellation, and whether that ends it.
ANSWERS: dict[str, tuple[str, dict[str, Any] | None, bool]] = {
    "shown": ("completed", {"media_buy_id": BUY, "media_buy_status": "canceled"}, True),
    "not stated": ("completed", {"media_buy_id": BUY}, True),
    "runs on": ("completed", {"media_buy_id": BUY, "media_buy_status": "active"}, False),
    "refused": ("rejected", None, False),
    "failed": ("failed", None, False),
}


@pytest.mark.parametrize("is_given_up", [True, False])
def test_a_cancellation_ends_it_or_it_is_asked_again(is_given_up: bool) -> None:
    deal, operation = booking()
    (give_up if is_given_up else overdue)(operation)
    say(operation, "completed", bought(deal))
    decide(UNCLAIMED, "reject")
    assert open_kinds() == []
    for name, (status, result, is_over) in ANSWERS.items():
        with undone():
            ended(cancellation(), status, result)
            assert (row().outcome == "cancelled", open_kinds() == []) == (is_over, is_over), name
            assert Notification.objects.filter(kind="buy_not_cancelled").exists() != is_over, name
            assert ("not_cancelled" in asked().evidence) if not is_over else True
            ended_as = "cancelled" if is_over else "booking"
            assert fresh(deal).status == ("failed" if is_given_up else ended_as), name


def test_of_two_that_nobody_holds_one_is_kept_at_most() -> None:
    deal, operation = lost()
    say(operation, "completed", bought(deal))
    unclaimed(deal, "mb-2")
    assert (asked().evidence["media_buy_id"], open_kinds()) == (BUY, [UNCLAIMED])
    with pytest.raises(DecisionRefusedError, match="asked anew"):
        decide(UNCLAIMED, "approve")  # it did not show the second one
    assert asked().evidence["also_unclaimed"][0].startswith("mb-2, USD")
    decide(UNCLAIMED, "approve")
    assert asked().evidence["media_buy_id"] == "mb-2"
    with pytest.raises(DecisionRefusedError, match="for the same order"):
        decide(UNCLAIMED, "approve")
    decide(UNCLAIMED, "reject")
    assert cancellation().request["media_buy_id"] == "mb-2"


def test_it_commits_its_amount_and_is_kept_only_within_the_budget() -> None:
    campaign = campaign_of(20_000)
    deal, operation = lost(campaign_id=campaign.pk)
    live.booked(make_seller("Another"), media_buy_id="mb-2", campaign_id=campaign.pk)
    say(operation, "completed", bought(deal, budget=12_000.0))
    beside = make_deal(seller=deal.seller, account=False, campaign_id=campaign.pk)
    assert committed_beside(beside) == 22_250
    assert money_of([campaign.pk])[campaign.pk].approved == 12_000
    with pytest.raises(DecisionRefusedError, match="beyond the budget"):
        decide(UNCLAIMED, "approve")
    decide(UNCLAIMED, "reject")
    assert money_of([campaign.pk])[campaign.pk].approved == 12_000, "until the seller has cancelled it"
    ended(cancellation(), "completed", {"media_buy_id": BUY, "media_buy_status": "canceled"})
    assert money_of([campaign.pk])[campaign.pk].approved == 0


def test_two_of_one_deal_commit_both() -> None:
    campaign = campaign_of(25_000)
    deal, operation = booking(make_seller(slots=9))
    Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign.pk)
    overdue(operation)
    say(operation, "completed", bought(fresh(deal)))
    unclaimed(fresh(deal), "mb-2", budget=15_000.0)
    assert money_of([campaign.pk])[campaign.pk].approved == 25_250
    assert "beyond the budget" in keep_refusal(fresh(deal), row())


def test_an_unreadable_amount_counts_as_ordered_and_is_asked_about_again() -> None:
    campaign = campaign_of(20_000)
    deal, operation = lost(campaign_id=campaign.pk)
    say(operation, "completed", bought(deal, budget="a lot"))
    assert (asked().amount, asked().quorum) == (None, 2)
    assert money_of([campaign.pk])[campaign.pk].approved == Decimal(10_250)
    for _ in range(2):
        decide(UNCLAIMED, "approve")
    assert (Deal.objects.get(follows=deal).status, open_kinds()) == ("booked", ["booked_differently"])


def test_it_closes_when_a_deal_holds_it_or_its_seller_has_cancelled_it() -> None:
    deal, operation = lost()
    say(operation, "completed", bought(deal))
    with undone():
        live.booked(deal.seller, media_buy_id=BUY)
        live.withdraw_obsolete()
        assert (row().outcome, open_kinds()) == ("held", [])
    say(operation, "completed", {**bought(deal), "media_buy_status": "canceled"}, channel="webhook")
    live.withdraw_obsolete()
    assert fresh(deal).status == "failed"


def test_a_purchase_answered_with_another_deal_s_media_buy_fails_and_names_no_other_team() -> None:
    first, operation = booking(make_seller(slots=9))
    say(operation, "completed", bought(first))
    Deal.objects.filter(pk=first.pk).update(
        team=make_team("Elsewhere"), advertiser=make_advertiser("Another client")
    )
    second, operation = booking(first.seller)
    say(operation, "completed", bought(second))
    assert (fresh(second).status, open_kinds()) == ("failed", [])
    reason = live.last_reason(second)
    assert "nother team" in reason
    assert first.reference not in reason


def test_without_a_name_it_is_dropped_or_kept_and_a_later_name_is_asked_about() -> None:
    deal, operation = booking()
    overdue(operation)
    say(operation, "completed", {"packages": []})
    assert effects_of(asked())["reject"].startswith("Sends nothing")
    with undone():
        decide(UNCLAIMED, "approve")
        assert (fresh(deal).status, fresh(deal).differs) == ("booked", True)
    decide(UNCLAIMED, "reject")
    assert (fresh(deal).status, row("").outcome) == ("cancelled", "dropped")
    assert not Operation.objects.filter(task_type="update_media_buy").exists()
    unclaimed(deal)
    assert asked().evidence["media_buy_id"] == BUY


def test_what_runs_on_after_its_deal_can_only_be_cancelled() -> None:
    deal = live.booked()
    transition(deal, "cancelled", actor="system", reason="Its seller said so")
    unclaimed(fresh(deal), deal.media_buy_id)
    with pytest.raises(DecisionRefusedError, match="which has ended"):
        decide(UNCLAIMED, "approve")
    decide(UNCLAIMED, "reject")
    assert cancellation().request["media_buy_id"] == deal.media_buy_id


def test_a_seller_that_names_another_at_every_look_is_bounded() -> None:
    deal, operation = booking()
    say(operation, "completed", bought(deal))
    for look in range(25):
        say(operation, "completed", bought(deal, f"mb-{look}"), channel="poll")
        say(operation, "completed", bought(deal, "mb-0", note=look), channel="poll")
    assert UnclaimedBuy.objects.count() == 20
    assert open_kinds() == ["conflict", UNCLAIMED]
    assert Conflict.objects.count() == 21


EVENTS = st.lists(
    st.sampled_from(["late", "second", "listed", "approve", "reject", "cancelled", "refused", "held"]),
    max_size=7,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(events=EVENTS)
def test_each_is_asked_about_being_cancelled_or_closed(events: list[str]) -> None:
    """Whatever happens in whichever order; and no media buy is held by two deals."""
    with undone():
        deal, operation = lost()
        for event in events:
            _happen(event, deal, operation)
            live.withdraw_obsolete()
        still = UnclaimedBuy.objects.filter(closed_at=None)
        undecided = still.filter(cancellation=None)
        assert Approval.objects.filter(kind=UNCLAIMED, status="open").exists() == undecided.exists()
        live_ones = Deal.objects.filter(follows=deal, status="booked")
        assert live_ones.count() <= 1
        assert not still.filter(media_buy_id__in=live_ones.values("media_buy_id")).exists()


def _happen(event: str, deal: Deal, operation: Operation) -> None:
    if event in ("late", "second"):
        say(operation, "completed", bought(deal, BUY if event == "late" else "mb-2"), channel="webhook")
    elif event == "listed" and not Deal.objects.filter(media_buy_id="mb-3").exists():
        unclaimed(deal, "mb-3")
    elif event in ("approve", "reject"):
        _decide(event)
    elif event == "held" and not Deal.objects.filter(media_buy_id=BUY).exists():
        live.booked(deal.seller, media_buy_id=BUY)
    elif event in ("cancelled", "refused"):
        _answer(event)


def _decide(verdict: str) -> None:
    """An outdated question is replaced first."""
    for _ in range(2):
        if Approval.objects.filter(kind=UNCLAIMED, status="open").exists():
            with suppress(DecisionRefusedError):
                decide(UNCLAIMED, verdict)
                return


def _answer(event: str) -> None:
    sent = Operation.objects.filter(task_type="update_media_buy", settled_at=None)
    if sent.exists():
        is_done = event == "cancelled"
        result = {"media_buy_status": "canceled"} if is_done else None
        ended(sent.latest("id"), "completed" if is_done else "rejected", result)
