"""What people let go as an answer to a seller's question is what was approved from then on: it counts
wherever money is counted, as long as it is on its way or with the seller, and it must fit where it leaves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from campaigns.commitments import money_of
from campaigns.gates import why_closed
from campaigns.models import Campaign
from campaigns.rooms import room_for
from orders.amounts import deal_amounts
from orders.api.selectors import deals_of
from orders.api.serializers import DealSerializer
from orders.changes.send import change_ask
from orders.committed import committed_beside
from orders.evidence import deal_evidence
from orders.models import Deal
from orders.questions import DIFFERENT
from orders.selectors import deal_gross, deal_sums, deals_with_rows, sums_read
from orders.services import deal_book
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.commands.models import Command
from tasks_app.commands.questions import gates_ask_again
from tasks_app.notifications.models import Notification
from tasks_app.operations.models import Operation
from tasks_app.operations.pauses import answer_refuse
from tests.factories import approve_deal, make_deal, make_line, make_user
from tests.operations.making import observed
from tests.orders import live
from tests.orders.late import answered, bought, decide, fresh, paused, say
from tests.orders.test_amounts import campaign_of, wanted
from tests.orders.test_answering import changed, leaves, with_budget

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
D = Decimal


def waits(budget: int = 100_000) -> Operation:
    """A purchase of 10,000 that its seller has paused, of a campaign with so much."""
    deal = make_deal(make_line(budget=D(10_000)), campaign_id=campaign_of(budget).pk)
    approve_deal(deal)
    return paused(deal_book(deal=fresh(deal)))


def raised(operation: Operation, budget: int = 20_000) -> None:
    answered(operation, packages=with_budget(operation, budget))


def deal() -> Deal:
    return fresh(Deal.objects.order_by("pk")[0])


def listed() -> Deal:
    return deals_of(make_user("Approver")).order_by("pk")[0]


def another(mine: Deal) -> Deal:
    """A deal of the same campaign that is not put forward yet."""
    return Deal(campaign_id=mine.campaign_id, currency=mine.currency)


def in_the_room(mine: Deal) -> Decimal:
    room = room_for(another(mine))
    assert room is not None
    return D(100_000) - room.left


def in_the_sums(mine: Deal) -> Decimal:
    (one,) = deal_sums(Deal.objects.filter(pk=mine.pk))
    return one.approved


def in_the_rows(mine: Deal) -> Decimal:
    (one,) = sums_read(deals_with_rows(Deal.objects.filter(pk=mine.pk)))
    return one.approved


def in_the_campaign(mine: Deal) -> Decimal:
    assert mine.campaign_id is not None
    return money_of([mine.campaign_id])[mine.campaign_id].approved


COUNTED: dict[str, Callable[[Deal], Any]] = {
    "what counts as approved": lambda mine: deal_amounts(mine).approved,
    "what is committed": lambda mine: deal_amounts(mine).committed,
    "evidence": lambda mine: D(deal_evidence(mine)["gross"]),
    "the API": lambda mine: D(DealSerializer(mine).data["gross"]),
    "a list of the API": lambda mine: D(DealSerializer(listed()).data["gross"]),
    "a query of deals": lambda mine: deal_gross([mine.pk])[mine.pk],
    "sums of a query": in_the_sums,
    "sums of what was read": in_the_rows,
    "the campaign's money": in_the_campaign,
    "the room of another deal": in_the_room,
    "beside another deal": lambda mine: committed_beside(another(mine)),
}


@pytest.mark.parametrize("where", COUNTED)
def test_what_was_let_go_counts_from_then_on(where: str) -> None:
    operation = waits()
    raised(operation)
    assert COUNTED[where](deal()) == 10_000
    decide("answer", "approve")
    assert COUNTED[where](deal()) == 20_000


def test_the_ceiling_of_a_repeated_purchase_knows_it() -> None:
    operation = waits(20_000)
    raised(operation)
    decide("answer", "approve")
    purchase = Command.objects.get(kind="order_place")
    assert why_closed(purchase) == ""
    Campaign.objects.update(budget=D(19_999))
    assert "20000" in why_closed(purchase)


def answer_command() -> Command:
    return Command.objects.get(kind="answer_send")


@pytest.mark.parametrize("what", ["a purchase", "a change"])
def test_the_ceiling_asks_about_an_answer_as_about_what_it_answers(what: str) -> None:
    operation = waits(20_000) if what == "a purchase" else change_of_campaign(20_000)
    raised(operation)
    decide("answer", "approve")
    assert why_closed(answer_command()) == ""
    Campaign.objects.update(budget=D(19_999))
    assert "20000" in why_closed(answer_command())


def test_a_repeated_answer_waits_at_the_ceiling_and_says_what_it_spends() -> None:
    raised(waits(20_000))
    kill_switch_set(on=True, reason="A test", actor="system")
    decide("answer", "approve")
    asked = Approval.objects.get(kind="kill_switch", status="open")
    assert (asked.amount, asked.currency) == (20_000, "USD")
    assert asked.evidence["sent"]["packages"][0]["budget"] == 20_000
    Command.objects.filter(pk=answer_command().pk).update(repeated=True)
    Campaign.objects.update(budget=D(19_999))
    kill_switch_set(on=False, reason="A test", actor="system")
    gates_ask_again()
    assert answer_command().executed_at is None, "the ceiling holds it"
    Campaign.objects.update(budget=D(20_000))
    gates_ask_again()
    assert answer_command().executed_at is not None
    assert len(leaves()) == 1


def change_of_campaign(budget: int) -> Operation:
    """A change to 12,000, of a campaign with so much."""
    operation = changed()
    Deal.objects.update(campaign_id=campaign_of(budget).pk)
    return operation


def test_it_counts_while_it_waits_at_a_gate() -> None:
    operation = waits()
    raised(operation)
    kill_switch_set(on=True, reason="A test", actor="system")
    decide("answer", "approve")
    assert (leaves(), deal_amounts(deal()).committed) == ([], 20_000)
    decide("kill_switch", "reject")
    assert deal_amounts(deal()).committed == 10_000


def test_it_counts_when_it_has_left_and_the_seller_goes_on() -> None:
    operation = waits()
    raised(operation)
    decide("answer", "approve")
    assert len(leaves()) == 1
    assert deal_amounts(deal()).committed == 20_000
    say(operation, "submitted", channel="reply")
    assert deal_amounts(deal()).committed == 20_000


def refused_on_its_way(operation: Operation) -> None:
    assert answer_refuse(operation)


def overtaken(operation: Operation) -> None:
    say(operation, "working")


NOT_SENT: dict[str, Callable[[Operation], None]] = {
    "refused on its way": refused_on_its_way,
    "the seller went on by itself": overtaken,
}


@pytest.mark.parametrize("how", NOT_SENT)
def test_what_was_never_sent_counts_no_more(how: str) -> None:
    operation = waits()
    raised(operation)
    decide("answer", "approve")
    NOT_SENT[how](operation)
    assert deal_amounts(deal()).committed == 10_000


def test_what_was_taken_back_counts_no_more_when_the_pause_is_answered_anew() -> None:
    operation = waits()
    raised(operation)
    kill_switch_set(on=True, reason="A test", actor="system")
    decide("answer", "approve")
    decide("kill_switch", "reject")
    raised(operation, 15_000)
    assert deal_amounts(deal()).committed == 10_000


def test_the_newest_of_several_answers_counts() -> None:
    operation = waits()
    raised(operation)
    decide("answer", "approve")
    assert len(leaves()) == 1
    identity = {"task_id": "native-task", "context_id": "another"}
    again = Seen(kind="answer", status="input-required", raw_status="input-required", continuation=identity)
    observed(operation_id=operation.pk, seen=again, channel="reply")
    raised(operation, 15_000)
    assert deal_amounts(deal()).committed == 20_000
    assert D(Approval.objects.get(kind="answer", status="open").evidence["gross"]) == 20_000
    decide("answer", "approve")
    assert deal_amounts(deal()).committed == 15_000
    assert len(leaves()) == 1


def test_what_no_longer_fits_where_it_leaves_is_held_and_people_are_told() -> None:
    operation = waits(20_000)
    raised(operation)
    decide("answer", "approve")
    Campaign.objects.update(budget=D(19_999))
    assert leaves() == []
    assert deal_amounts(deal()).committed == 10_000
    told = Notification.objects.get(kind="answer_held_back", subject_id=operation.pk)
    assert Campaign.objects.get().reference in told.title
    raised(operation, 19_999)
    decide("answer", "approve")
    (sent,) = leaves()
    assert sent["packages"][0]["budget"] == 19_999


def test_less_leaves_whatever_the_campaign_has_left() -> None:
    operation = waits(20_000)
    raised(operation, 9_000)
    decide("answer", "approve")
    Campaign.objects.update(budget=D(1))
    assert len(leaves()) == 1


def sent(budget: int) -> Operation:
    """A purchase of 10,000, bought for so much by an answer that people let go."""
    operation = waits()
    raised(operation, budget)
    decide("answer", "approve")
    assert len(leaves()) == 1
    return operation


@pytest.mark.parametrize(
    ("answer", "booked", "asked"),
    [
        (20_000, 20_000, None),
        (5_000, 5_000, None),
        (20_000, 15_000, (20_000, 15_000)),
        (20_000, 25_000, (20_000, 25_000)),
        (5_000, 10_000, (5_000, 10_000)),
    ],
)
def test_what_is_booked_is_compared_with_what_was_answered(
    answer: int, booked: int, asked: tuple[int, int] | None
) -> None:
    operation = sent(answer)
    say(operation, "completed", bought(deal(), budget=booked), channel="reply")
    mine, questions = deal(), Approval.objects.filter(kind=DIFFERENT, status="open")
    assert (mine.status, deal_amounts(mine).approved) == ("booked", answer)
    assert deal_amounts(mine).committed == booked
    told = [(D(one["approved"]), D(one["confirmed"])) for one in mine.differences]
    assert (told, questions.exists()) == ([asked] if asked else [], asked is not None)


def test_an_answer_that_never_left_is_not_what_was_booked() -> None:
    operation = waits()
    raised(operation)
    decide("answer", "approve")
    say(operation, "completed", bought(deal()))
    assert (deal().differences, deal_amounts(deal()).approved) == ([], 10_000)


def test_other_dates_that_were_answered_are_no_departure() -> None:
    operation = waits()
    later = (deal().end_at + timedelta(days=3)).isoformat()
    answered(operation, packages=with_budget(operation, 20_000), end_time=later)
    decide("answer", "approve")
    assert len(leaves()) == 1
    told = bought(deal(), budget=20_000)
    say(operation, "completed", {**told, "end_time": later}, channel="reply")
    assert (deal().differences, deal_amounts(deal()).approved) == ([], 20_000)


def change_answered() -> Operation:
    """A change to 12,000 of which people let 13,000 go when its seller had asked."""
    operation = changed()
    answered(operation, packages=with_budget(operation, 13_000))
    decide("answer", "approve")
    return operation


@pytest.mark.parametrize(("made", "asked"), [(13_000, []), (12_000, [(13_000, 12_000)])])
def test_a_change_that_was_made_is_compared_with_what_was_answered(
    made: int, asked: list[tuple[int, int]]
) -> None:
    operation = change_answered()
    assert len(leaves()) == 1
    told = {"media_buy_id": deal().media_buy_id, "packages": [{"package_id": "pkg-1", "budget": made}]}
    say(operation, "completed", {**told, "media_buy_status": "pending_start"}, channel="reply")
    assert deal_amounts(deal()).approved == 13_000
    differences = [(D(one["approved"]), D(one["confirmed"])) for one in deal().differences]
    assert differences == asked


def test_less_than_the_seller_booked_is_answered_where_that_is_more_than_there_is() -> None:
    booked = live.booked(line=make_line(budget=D(10_000)), campaign_id=campaign_of(10_500).pk)
    live.says(booked, "pending_start", revision=2, packages=live.packages(booked, budget=12_000))
    change = change_ask(wanted(booked, {"package_id": "pkg-1", "budget": 11_000}))
    decide("deal_change", "approve")
    operation = paused(change)
    answered(operation, "Yes, less please.")
    decide("answer", "approve")
    assert [one["packages"][0]["budget"] for one in leaves()] == [11_000]
