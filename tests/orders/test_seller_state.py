"""What the seller says of a media buy moves its deal, once; older news never overwrites newer."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orders.mirror import mirror_read_now
from orders.models import Deal, DealMirror
from orders.questions import DIFFERENT
from orders.seller_state import Freshness, deal_refresh, is_older, way
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.notifications.models import Notification
from tests.factories import make_user
from tests.orders.late import fresh as fresh_deal
from tests.orders.live import before, booked, first_line, packages, says, standing, withdraw_obsolete
from tests.rounds import rounds

pytestmark = pytest.mark.django_db
_T = datetime(2026, 3, 1, tzinfo=UTC)


def fresh(revision: int | None, stated: int | None, asked: int | None) -> Freshness:
    def at(minutes: int | None) -> datetime | None:
        return None if minutes is None else _T + timedelta(minutes=minutes)

    return Freshness(revision=revision, stated_at=at(stated), asked_at=at(asked))


@pytest.mark.parametrize(
    ("told", "known", "older"),
    [
        (fresh(1, 9, 9), fresh(2, 1, 1), True),  # the revision decides before any clock
        (fresh(3, 1, 1), fresh(2, 9, 9), False),
        (fresh(2, 1, 9), fresh(2, 5, 1), True),  # then the seller's own time
        (fresh(2, 6, 1), fresh(2, 5, 9), False),
        (fresh(2, None, 1), fresh(2, 5, 9), True),  # then when we asked
        (fresh(None, None, 8), fresh(7, None, 9), True),
        (fresh(None, None, 9), fresh(7, None, 9), False),
        (fresh(None, None, None), fresh(None, None, None), False),
    ],
)
def test_which_snapshot_is_older(told: Freshness, known: Freshness, older: bool) -> None:
    assert is_older(told, known) is older


@pytest.mark.parametrize(
    ("here", "there", "final", "steps"),
    [
        ("booked", "active", False, ["delivering"]),
        ("partially_canceled", "active", False, ["delivering"]),
        ("delivering", "active", False, []),
        ("makegood_pending", "active", False, []),
        ("booked", "completed", True, ["delivering", "completed"]),
        ("booked", "completed", False, ["delivering"]),
        ("delivering", "completed", False, []),
        ("delivering", "completed", True, ["completed"]),
        ("makegood_pending", "completed", True, ["completed"]),
        ("booking", "rejected", False, ["failed"]),
        ("booking", "canceled", False, ["cancelled"]),
        ("booked", "rejected", False, ["cancelled"]),
        ("delivering", "canceled", False, ["cancelled"]),
        ("partially_canceled", "canceled", False, ["cancelled"]),
        ("makegood_pending", "canceled", False, ["failed"]),
        ("makegood_pending", "rejected", False, ["failed"]),
        ("booked", "paused", False, []),
        ("booked", "pending_creatives", False, []),
        ("delivering", "pending_start", False, []),
        ("booked", "who knows", False, []),
        ("cancelled", "active", True, []),
    ],
)
def test_where_the_sellers_word_leads(here: str, there: str, final: bool, steps: list[str]) -> None:
    assert [str(step) for step in way(here, there, final=final)] == steps


def test_active_begins_delivery_once() -> None:
    deal = booked()

    for _ in range(3):
        says(deal, "active", revision=2, valid_actions=["pause", "cancel"])

    assert (deal.status, deal.media_buy_status, deal.revision) == ("delivering", "active", 2)
    assert deal.valid_actions == ["pause", "cancel"]
    moves = AuditEntry.objects.filter(entity_id=deal.pk, to_status="delivering")
    assert moves.get().actor == f"agent:{deal.seller.slug}"
    assert Notification.objects.filter(kind="deal_delivering").count() == 1
    assert verify_entity("deal", deal.pk).ok


def test_completed_waits_for_final_delivery() -> None:
    deal = booked()
    deal.seller.tools = [*deal.seller.tools, "get_media_buy_delivery"]
    deal.seller.save()

    with clock.injected(lambda: deal.end_at):
        says(deal, "completed", revision=2, final=False)
        assert deal.status == "delivering"
        says(deal, "completed", revision=2, final=True)
    assert deal.status == "completed"
    assert DealMirror.objects.get(pk=deal.pk).due_at is None


@pytest.mark.parametrize("here", ["booked", "delivering", "makegood_pending", "partially_canceled"])
def test_completed_before_the_flight_begins_moves_nothing(here: str) -> None:
    deal = standing(booked(), here)
    a_moment_before = deal.start_at - timedelta(seconds=1)
    with clock.injected(lambda: a_moment_before):
        says(deal, "completed", revision=2, final=True)
        says(deal, "completed", revision=2, final=True)

    assert (deal.status, deal.media_buy_status) == (here, "completed")
    assert DealMirror.objects.get(pk=deal.pk).due_at is not None
    assert not Notification.objects.filter(kind="deal_completed").exists()


def test_it_is_completed_once_its_flight_has_begun() -> None:
    deal = booked()
    says(deal, "completed", revision=2)
    assert fresh_deal(deal).status == "booked"

    with clock.injected(lambda: deal.start_at):
        says(deal, "completed", revision=2)

    assert (deal.status, deal.differs) == ("completed", False)


def test_a_seller_that_never_says_final_is_not_waited_for_for_ever() -> None:
    deal = booked()
    deal.seller.tools = [*deal.seller.tools, "get_media_buy_delivery"]
    deal.seller.save()
    long_after = deal.end_at + timedelta(days=31)

    with clock.injected(lambda: long_after):
        says(deal, "completed", revision=2, final=False)

    assert deal.status == "completed"


@pytest.mark.parametrize(
    ("here", "there", "ends"),
    [
        ("booked", "canceled", "cancelled"),
        ("booked", "rejected", "cancelled"),
        ("delivering", "canceled", "cancelled"),
        ("makegood_pending", "canceled", "failed"),
        ("partially_canceled", "canceled", "cancelled"),
    ],
)
def test_ended_by_the_seller_with_its_reason(here: str, there: str, ends: str) -> None:
    deal = standing(booked(), here)

    says(deal, there, revision=5, cancellation={"canceled_by": "seller", "reason": "Inventory withdrawn"})
    says(deal, there, revision=5, cancellation={"canceled_by": "seller", "reason": "Inventory withdrawn"})

    assert deal.status == ends
    entry = AuditEntry.objects.filter(entity_id=deal.pk).latest("seq")
    assert "Inventory withdrawn" in entry.reason
    note = Notification.objects.get(kind=f"deal_{ends}")
    assert (note.level, note.team) == ("alarm", deal.team)
    assert "Inventory withdrawn" in note.body


def test_an_older_snapshot_changes_nothing() -> None:
    deal = booked()
    says(deal, "active", revision=4, packages=packages(deal))

    says(deal, "canceled", revision=3, packages=packages(deal, budget=1))

    assert (deal.status, deal.revision, deal.media_buy_status) == ("delivering", 4, "active")
    assert first_line(deal).confirmed_budget == first_line(deal).budget
    assert "older than revision 4" in DealMirror.objects.get(pk=deal.pk).unread


def test_an_answer_asked_for_earlier_and_heard_later_changes_nothing() -> None:
    deal = booked()
    earlier = clock.now()
    says(deal, "active", revision=1)

    says(deal, "pending_start", revision=1, asked_at=earlier)

    assert deal.media_buy_status == "active"
    assert DealMirror.objects.get(pk=deal.pk).unread == ""


def test_a_seller_whose_clock_is_ahead_does_not_silence_itself() -> None:
    deal = booked()
    ahead = (clock.now() + timedelta(days=400)).isoformat()

    says(deal, "pending_start", revision=1, status_as_of=ahead)
    says(deal, "active", revision=1, status_as_of=clock.now().isoformat())

    assert deal.status == "delivering"


def test_the_reply_to_a_task_moves_nothing() -> None:
    deal = booked()

    deal_refresh(deal_id=deal.pk, buy={"media_buy_status": "completed", "revision": 2}, asked_at=clock.now())

    deal.refresh_from_db()
    assert (deal.status, deal.media_buy_status) == ("booked", "completed")


def test_the_record_of_another_media_buy_is_not_this_ones() -> None:
    deal = booked()
    says(deal, "canceled", media_buy_id="mb-other", revision=9)
    assert (deal.status, deal.media_buy_id, deal.revision) == ("booked", "mb-1", 1)


def test_a_departure_found_later_is_asked_about() -> None:
    deal = booked()
    assert not Approval.objects.filter(kind=DIFFERENT).exists()

    says(deal, "active", revision=2, packages=packages(deal, budget=5))
    says(deal, "active", revision=2, packages=packages(deal, budget=5))

    assert deal.differs
    assert deal.differences[0]["field"] == "budget"
    assert Approval.objects.get(kind=DIFFERENT).evidence["differences"] == deal.differences


def test_an_open_question_is_replaced_at_most_once_an_hour() -> None:
    deal = booked()
    says(deal, "active", revision=2, packages=packages(deal, budget=5))
    says(deal, "active", revision=3, packages=packages(deal, budget=7))
    assert [asked.status for asked in Approval.objects.filter(kind=DIFFERENT)] == ["open"]
    later = clock.now() + timedelta(minutes=61)
    with clock.injected(lambda: later):
        says(deal, "active", revision=4, packages=packages(deal, budget=8), asked_at=later)
    asked = Approval.objects.filter(kind=DIFFERENT).order_by("pk")
    assert [one.status for one in asked] == ["voided", "open"]
    assert asked[1].evidence["differences"] == deal.differences

    with clock.injected(lambda: later):
        says(deal, "active", revision=5, packages=packages(deal), asked_at=later)
    assert not Approval.objects.filter(kind=DIFFERENT, status="open").exists()
    assert not deal.differs


def test_nobody_accepts_what_they_were_not_shown() -> None:
    """A snapshot that came while the question's row was held by the person deciding."""
    deal = booked()
    says(deal, "active", revision=2, packages=packages(deal, budget=5))
    asked = Approval.objects.get(kind=DIFFERENT)
    Deal.objects.filter(pk=deal.pk).update(differences=[{**deal.differences[0], "confirmed": "7"}])

    with pytest.raises(DecisionRefusedError, match="changed"):
        approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve")

    deal.refresh_from_db()
    assert deal.differs
    assert Approval.objects.get(kind=DIFFERENT, status="open").evidence["differences"][0]["confirmed"] == "7"


def test_the_question_goes_with_the_media_buy() -> None:
    deal = booked()
    says(deal, "active", revision=2, packages=packages(deal, budget=5))

    says(deal, "canceled", revision=3)
    withdraw_obsolete()

    assert Approval.objects.get(kind=DIFFERENT).status == "voided"
    assert (deal.status, deal.differs) == ("cancelled", False)


def test_a_cancelled_package_is_a_departure() -> None:
    deal = booked()
    says(deal, "active", revision=2, packages=packages(deal, canceled=True))
    assert [(found["field"], found["confirmed"]) for found in deal.differences] == [("canceled", "yes")]


@pytest.mark.parametrize(
    "odd",
    [
        {"packages": "none"},
        {"packages": [None, 7, {"package_id": None, "budget": "NaN"}]},
        {"revision": 2**40},
        {"revision": -1},
        {"status_as_of": "yesterday"},
        {"valid_actions": {"pause": True}},
        {"cancellation": ["seller"]},
        {"targeting": {"x": 1.5}},
        {"status": None},
        {"status": ["active"]},
    ],
)
def test_whatever_a_seller_tells_the_deal_stays_whole(odd: dict[str, Any]) -> None:
    deal = booked()
    says(deal, odd.pop("status", "pending_start"), **odd)
    assert deal.status == "booked"
    assert verify_entity("deal", deal.pk).ok


def test_targeting_with_fractions_can_be_asked_about() -> None:
    deal = booked()
    says(deal, "active", revision=2, packages=packages(deal, targeting_overlay={"geo_countries": [1.5]}))
    assert Approval.objects.get(kind=DIFFERENT).evidence["differences"][0]["confirmed"] == {
        "geo_countries": ["1.5"]
    }


@pytest.mark.parametrize("seed", range(rounds(3, 12)))
def test_in_whatever_order_snapshots_come_the_newest_stands(seed: int) -> None:
    deal = booked()
    told = [
        ("pending_start", 1, 50.0),
        ("active", 2, 40.0),
        ("active", 3, 30.0),
        ("paused", 4, 20.0),
        ("active", 4, 10.0),
    ]
    shuffled = told * 2
    random.Random(seed).shuffle(shuffled)  # noqa: S311 (which order, seeded)
    asked = {pair: before(pair[2]) for pair in told}

    for one in shuffled:
        says(deal, one[0], revision=one[1], asked_at=asked[one])

    assert (deal.media_buy_status, deal.revision) == ("active", 4)
    assert deal.status == "delivering"
    assert Notification.objects.filter(kind="deal_delivering").count() == 1


@pytest.mark.usefixtures("still")
def test_a_reading_by_a_slower_clock_is_not_due_at_once_again() -> None:
    """The host that read before is two minutes ahead: until its moment comes all other readings are older."""
    deal = booked()
    says(deal, "pending_start", asked_at=before(-120), revision=1, packages=packages(deal))
    mirror_read_now(deal=fresh_deal(deal))
    kept = DealMirror.objects.get(deal=deal)
    assert kept.due_at is not None
    assert kept.due_at <= clock.now()
    says(deal, "pending_start", revision=1, packages=packages(deal))
    kept.refresh_from_db()
    assert kept.due_at is not None
    assert kept.due_at > clock.now()
    assert kept.unread == "", "its seller contradicts nothing"
