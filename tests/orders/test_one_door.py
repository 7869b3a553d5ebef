"""A deal's mirror has one door: older news changes nothing; a person's word and late results apply."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest

from orders.mirror import _claim
from orders.models import Deal, DealMirror
from orders.questions import DIFFERENT
from orders.seller_state import columns_if_newest, deal_follow, deal_refresh, deal_take
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish_due
from tasks_app.sellers.models import Seller
from tests.factories import make_seller
from tests.operations.making import observed
from tests.orders.doors import TOLD, is_newer, record, wanted
from tests.orders.late import BUY, booking, bought, decide, fresh, say
from tests.orders.live import booked, first_line, packages, says
from tests.support import undone

pytestmark = pytest.mark.django_db


# --- older and newer ----------------------------------------------------------------------------------


def learnt(deal: Deal, by: str, buy: dict[str, Any], at: datetime) -> None:
    """The same news through each of the ways in."""
    if by == "mirror":
        deal_follow(deal_id=deal.pk, buy=buy, asked_at=at)
    elif by == "answer":
        deal_refresh(deal_id=deal.pk, buy=buy, asked_at=at)
    elif by == "person":
        deal_take(deal_id=deal.pk, buy=buy, told_at=at)
    else:
        locked = Deal.objects.select_for_update().get(pk=deal.pk)
        Deal.objects.filter(pk=deal.pk).update(**columns_if_newest(locked, buy, asked_at=at))


@pytest.mark.parametrize("first_by", ["mirror", "answer"])
def test_the_newest_stands_whatever_brings_it(first_by: str) -> None:
    """First × later × way in × what is told of the time × asked before or after."""
    deal, since = booked(), clock.now()
    Deal.objects.filter(pk=deal.pk).update(revision=None)
    ways = ("mirror", "answer", "person", "change")
    statuses = (("pending_creatives", "paused"), ("paused", "pending_creatives"))
    for (first, later), by, told, asked in product(statuses, ways, TOLD, ("before", "after")):
        asked_at = {"before": since + timedelta(minutes=8), "after": since + timedelta(minutes=12)}[asked]
        with undone(), clock.injected(lambda: since + timedelta(minutes=20)):
            learnt(deal, first_by, record(deal, first, TOLD[told][0], since), since + timedelta(minutes=10))
            learnt(deal, by, record(deal, later, TOLD[told][1], since), asked_at)
            stands = Deal.objects.get(pk=deal.pk)
            newest = is_newer(told, asked)
            case = (first, by, told, asked)
            assert stands.media_buy_status == (later if newest else first), case
            revisions = [told_of[0] for told_of in TOLD[told]]
            known = revisions[0] if not newest or revisions[1] is None else revisions[1]
            assert stands.revision == known, case


@pytest.mark.parametrize("channel", ["reply", "poll", "webhook"])
def test_the_answer_to_a_change_is_as_new_as_its_arrival(channel: str) -> None:
    """Beside readings asked for before and after, first × later × what is told of the time; a webhook that
    tells none as well: what it says of the media buy is read again soon, and moves the deal nowhere."""
    deal, since = booked(), clock.now()
    change = wanted(deal, paused=True)
    Deal.objects.filter(pk=deal.pk).update(revision=None)

    def read(status: str, told: tuple[int | None, int | None], minutes: int) -> None:
        asked_at = since + timedelta(minutes=minutes)
        deal_follow(deal_id=deal.pk, buy=record(deal, status, told, since), asked_at=asked_at)

    def ended(status: str, told: tuple[int | None, int | None]) -> None:
        say(change, "completed", record(deal, status, told, since), channel=channel, task_id="t-1")

    for told, asked in product(TOLD, ("first", "before", "after")):
        first, later = TOLD[told]
        with undone(), clock.injected(lambda: since + timedelta(minutes=12)):
            if asked == "first":
                read("pending_creatives", first, 10)
                ended("paused", later)
            else:
                ended("paused", first)
                read("pending_creatives", later, {"before": 10, "after": 14}[asked])
            stands = Deal.objects.get(pk=deal.pk)
            newest = is_newer(told, "after" if asked == "first" else asked)
            says_later = "paused" if asked == "first" else "pending_creatives"
            says_first = "pending_creatives" if asked == "first" else "paused"
            case = (told, asked)
            assert stands.media_buy_status == (says_later if newest else says_first), case
            assert stands.status == "booked", case
            assert DealMirror.objects.get(pk=deal.pk).due_at is not None, case


def test_a_late_answer_to_a_change_moves_the_mirror_nowhere() -> None:
    deal = booked()
    change = wanted(deal, paused=True)
    says(deal, "active", revision=7, packages=packages(deal))
    answer = {"media_buy_id": "mb-1", "media_buy_status": "paused", "revision": 2}
    say(change, "completed", answer, task_id="t-1")

    deal.refresh_from_db()
    assert (deal.revision, deal.media_buy_status) == (7, "active")


def test_a_cancellation_older_than_what_is_known_is_read_back_first() -> None:
    deal = booked()
    change = wanted(deal, canceled=True)
    says(deal, "active", revision=7, packages=packages(deal))
    answer = {"media_buy_id": "mb-1", "media_buy_status": "canceled", "revision": 2}
    say(change, "completed", answer, task_id="t-1")
    deal.refresh_from_db()
    assert (deal.status, deal.revision, deal.media_buy_status) == ("delivering", 7, "active")

    says(deal, "canceled", revision=8)
    deal.refresh_from_db()
    assert (deal.status, deal.revision, deal.media_buy_status) == ("cancelled", 8, "canceled")


# --- a person's word ----------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [{}, {"revision": 9}, {"status_as_of": True}, {"packages": True}], ids=str)
def test_what_a_person_takes_is_taken_although_the_mirror_has_read_since(read: dict[str, Any]) -> None:
    deal, operation = booking()
    say(operation, "completed", bought(deal))
    deal = fresh(deal)
    second = say(operation, "completed", bought(deal, budget=50_000.0), channel="webhook")
    assert second.outcome == "conflict"
    later = clock.now() + timedelta(minutes=10)
    with clock.injected(lambda: later):
        told = {
            **read,
            **({"status_as_of": later.isoformat()} if "status_as_of" in read else {}),
            **({"packages": packages(deal)} if "packages" in read else {}),
        }
        says(deal, "pending_start", **told)
        decide("conflict", "reject")

    deal.refresh_from_db()
    assert (deal.differs, first_line(deal).confirmed_budget) == (True, 50_000)
    assert deal.revision == read.get("revision")
    assert Conflict.objects.get().resolution == "taken"
    assert Approval.objects.get(kind=DIFFERENT, status="open").amount == 50_000


# --- a result that comes after the end was published --------------------------------------------------


def ended_without_a_result(seller: Seller | None = None) -> tuple[Deal, Operation, Any]:
    """A purchase that completed, nobody knows as what: booked without a name, six minutes ago."""
    deal, operation = booking(seller)
    task = f"task-{operation.reference}"
    told = Seen(kind="answer", status="completed", raw_status="completed", task_id=task, partial=True)
    observed(operation_id=operation.pk, seen=told, channel="poll")
    later = clock.now() + timedelta(minutes=6)
    with clock.injected(lambda: later):
        assert publish_due(limit=10) == 1
    deal = fresh(deal)
    assert (deal.status, deal.media_buy_id, deal.differs) == ("booked", "", True)
    return deal, operation, later


def comes(operation: Operation, payload: dict[str, Any], channel: str = "webhook") -> str:
    task = f"task-{operation.reference}"
    whole = Seen(kind="answer", status="completed", raw_status="completed", task_id=task, payload=payload)
    return observed(operation_id=operation.pk, seen=whole, channel=channel).outcome


@pytest.mark.parametrize("channel", ["webhook", "poll"])
@pytest.mark.parametrize("budget", [None, 99_000.0])
def test_a_result_that_comes_late_is_news_of_its_own(channel: str, budget: float | None) -> None:
    deal, operation, later = ended_without_a_result()

    changed = {} if budget is None else {"budget": budget}
    with clock.injected(lambda: later + timedelta(minutes=1)):
        assert comes(operation, bought(deal, **changed), channel) == "applied"

    deal = fresh(deal)
    assert (deal.status, deal.media_buy_id, deal.media_buy_status) == ("booked", BUY, "pending_start")
    assert deal.differs == (budget is not None)
    assert first_line(deal).package_id == "pkg-1"
    asked = Approval.objects.filter(kind=DIFFERENT, status="open")
    assert asked.exists() == (budget is not None)
    assert DealMirror.objects.get(pk=deal.pk).due_at is not None


def test_what_came_late_can_be_cancelled() -> None:
    deal, operation, later = ended_without_a_result()
    with clock.injected(lambda: later + timedelta(minutes=1)):
        comes(operation, bought(deal, budget=99_000.0))
        with pytest.raises(DecisionRefusedError, match="asked anew"):
            decide(DIFFERENT, "reject")  # it showed that the media buy had no id
        decide(DIFFERENT, "reject")

    cancelled = Operation.objects.get(task_type="update_media_buy")
    assert cancelled.request["media_buy_id"] == BUY


def test_it_comes_once() -> None:
    deal, operation, later = ended_without_a_result()
    with clock.injected(lambda: later + timedelta(minutes=1)):
        comes(operation, bought(deal))
        version = fresh(deal).version
        assert comes(operation, bought(deal), "poll") == "duplicate"

    assert fresh(deal).version == version
    assert not Approval.objects.filter(kind="unclaimed").exists()


def test_a_name_that_another_deal_holds_is_not_taken_over() -> None:
    seller = make_seller()
    other = booked(seller, media_buy_id=BUY)
    deal, operation, later = ended_without_a_result(seller)
    with clock.injected(lambda: later + timedelta(minutes=1)):
        comes(operation, bought(deal))

    assert (fresh(deal).media_buy_id, fresh(other).media_buy_id) == ("", BUY)


# What is asked of the media buy, what the late answer says of it, and what becomes of the deal where that
# shows it.
LATE_ANSWERS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "a budget": (
        {"packages": [{"package_id": "pkg-1", "budget": 9000}]},
        {"affected_packages": [{"package_id": "pkg-1", "budget": 9000.0}]},
        {"status": "booked"},
    ),
    "a pause": ({"paused": True}, {"media_buy_status": "paused"}, {"media_buy_status": "paused"}),
    "a cancellation": ({"canceled": True}, {"media_buy_status": "canceled"}, {"status": "cancelled"}),
}


# --- one without a name among others ------------------------------------------------------------------


def test_what_has_no_name_never_blinds_the_mirror_of_others() -> None:
    seller = make_seller()
    good = booked(seller, media_buy_id="mb-good")
    nameless, operation = booking(seller)
    say(operation, "completed", {"packages": []})
    assert (fresh(nameless).status, fresh(nameless).media_buy_id) == ("booked", "")
    later = clock.now() + timedelta(hours=1)
    with clock.injected(lambda: later):
        errands = _claim()

    due = [one for errand in errands for batch in errand.batches for one in batch.due]
    assert [(one.deal_id, one.media_buy_id) for one in due] == [(good.pk, "mb-good")]
