"""Delivery: at least once, in order per entity; who fails holds up one entity of its own, nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.events.delivery import BATCH, OvertakenError, backoff, deliver_new
from tasks_app.events.held import NotGivenUpError, deliver_held, delivery_retry
from tasks_app.events.models import EventDelivery, EventStream, EventSubscription
from tasks_app.events.publishing import events_publish
from tests.database import Database
from tests.events.parts import Recorder, another, committed, move, quoted, relay
from tests.factories import make_user

START = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


class Hands:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = START

    def forward(self, **span: float) -> None:
        self.now += timedelta(**span)


@pytest.fixture
def hands() -> Iterator[Hands]:
    made = Hands()
    with clock.injected(lambda: made.now):
        yield made


def position(name: str) -> int:
    return EventSubscription.objects.get(pk=name).position


def test_each_subscriber_has_every_event_of_its_types_once(committed_db: Database, nobody: None) -> None:
    every, deals, exact = Recorder("every"), Recorder("deals", ["deal.*"]), Recorder("exact", ["deal.quoted"])
    deal, operation = quoted(), another()
    move(deal, 3)
    relay()
    relay()
    assert sorted(every.took) == sorted(committed())
    assert len(every.took) == len(committed())
    assert deals.by_entity() == {deal.pk: [1, 2, 3, 4]}
    assert exact.by_entity() == {deal.pk: [1, 3]}
    assert every.seqs(operation.pk) == [1]
    assert position("exact") == position("every") == EventStream.objects.get().head


def test_more_than_a_batch(committed_db: Database, recorder: Recorder) -> None:
    deal = quoted()
    move(deal, BATCH + 20)
    relay()
    assert recorder.seqs(deal.pk) == list(range(1, BATCH + 22))


def test_a_failing_one_stops_no_other_subscriber_and_no_other_entity(
    committed_db: Database, nobody: None
) -> None:
    good, bad = Recorder("good"), Recorder("bad")
    ill, well = quoted("Ill"), quoted("Well")
    bad.fails = lambda event: event.entity_id == ill.pk and event.seq == 2
    move(ill, 3)
    move(well, 3)
    relay()
    assert good.seqs(ill.pk) == good.seqs(well.pk) == bad.seqs(well.pk) == [1, 2, 3, 4]
    assert bad.seqs(ill.pk) == [1], "what comes after the failed one waits behind it"
    held = EventDelivery.objects.filter(subscriber="bad").order_by("position")
    assert [(one.event.seq, one.attempts, one.due_at is None) for one in held] == [
        (2, 1, False),
        (3, 0, True),
        (4, 0, True),
    ]
    assert held[0].error == "ConnectionError: the other side is away"
    assert not EventDelivery.objects.filter(subscriber="good").exists()


def test_once_it_takes_the_event_the_later_ones_follow_in_order(
    committed_db: Database, recorder: Recorder, hands: Hands
) -> None:
    deal = quoted()
    recorder.fails = lambda event: event.seq == 2
    move(deal, 3)
    relay()
    hands.forward(seconds=0.9)
    relay()
    assert recorder.tried.count(("deal", deal.pk, 2)) == 1, "not before its time"
    move(deal)
    recorder.fails = lambda event: event.seq == 4
    hands.forward(seconds=0.2)
    relay()
    assert recorder.seqs(deal.pk) == [1, 2, 3]
    recorder.fails = lambda _event: False
    hands.forward(seconds=1)
    relay()
    assert recorder.seqs(deal.pk) == [1, 2, 3, 4, 5]
    assert not EventDelivery.objects.exists()


def test_the_wait_doubles_up_to_its_bound(settings: Any) -> None:
    waits = [backoff(n).total_seconds() for n in range(1, 13)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert backoff(10_000) == timedelta(seconds=300)
    settings.EVENT_RETRY_FIRST_S, settings.EVENT_RETRY_CAP_S = 0.5, 3
    assert [backoff(n).total_seconds() for n in (1, 2, 3, 4)] == [0.5, 1, 2, 3]


def test_retries_come_with_the_back_off_and_end_with_the_budget(
    committed_db: Database, recorder: Recorder, hands: Hands
) -> None:
    deal = quoted()
    recorder.fails = lambda _event: True
    move(deal)
    relay()
    for attempts in range(2, 13):
        due = EventDelivery.objects.get(attempts=attempts - 1).due_at
        assert due == hands.now + backoff(attempts - 1)
        hands.now = due - timedelta(milliseconds=1)
        relay()
        assert len(recorder.tried) == attempts - 1
        hands.now = due
        relay()
        assert len(recorder.tried) == attempts
    gave_up = EventDelivery.objects.get(gave_up_at__isnull=False)
    assert (gave_up.attempts, gave_up.due_at, gave_up.gave_up_at) == (12, None, hands.now)
    hands.forward(days=3)
    tried = len(recorder.tried)
    move(deal)
    relay()
    assert len(recorder.tried) == tried, "nothing of that entity is tried any more"
    assert EventDelivery.objects.filter(due_at=None, gave_up_at=None).count() == 2


def test_given_up_is_tried_again_by_a_person_and_the_rest_follows(
    committed_db: Database, recorder: Recorder, hands: Hands, settings: Any
) -> None:
    settings.EVENT_ATTEMPTS = 2
    user = make_user("Ad Ops")
    deal = quoted()
    recorder.fails = lambda event: event.entity_id == deal.pk
    move(deal, 2)
    relay()
    hands.forward(minutes=1)
    relay()
    gave_up = EventDelivery.objects.get(gave_up_at__isnull=False)
    relay()
    delivery_retry(delivery_id=gave_up.pk, user=user)
    relay()
    again = EventDelivery.objects.get(pk=gave_up.pk)
    assert (again.attempts, again.gave_up_at, again.retried_by) == (1, None, f"human:{user.pk}")
    with pytest.raises(NotGivenUpError):
        delivery_retry(delivery_id=gave_up.pk, user=user)
    recorder.fails = lambda _event: False
    hands.forward(minutes=1)
    relay()
    assert recorder.seqs(deal.pk) == [1, 2, 3]
    assert not EventDelivery.objects.exists()


def test_a_budget_of_one_gives_up_at_once(committed_db: Database, recorder: Recorder, settings: Any) -> None:
    settings.EVENT_ATTEMPTS = 1
    recorder.fails = lambda _event: True
    deal = quoted()
    relay()
    gave_up = EventDelivery.objects.get(entity_id=deal.pk)
    assert gave_up.gave_up_at is not None
    assert gave_up.attempts == 1


def test_text_that_no_column_holds_does_not_stop_the_relay(
    committed_db: Database, nobody: None, recorder: Recorder
) -> None:
    def fail(_event: object) -> bool:
        raise ValueError("nul \0 and half \ud800" + "x" * 5000)

    recorder.fails = fail
    quoted()
    relay()
    assert EventDelivery.objects.get().error.startswith("ValueError: nul � and half �xxx")


def test_asked_to_stop_it_keeps_its_place_between_two_events(
    committed_db: Database, recorder: Recorder
) -> None:
    deal = quoted()
    move(deal, 9)
    events_publish()
    assert deliver_new(recorder.subscriber, stopped=lambda: len(recorder.took) == 4) == 4
    subscription = EventSubscription.objects.get(pk="recorder")
    assert (subscription.position, subscription.in_hand_to) == (4, None)
    relay()
    assert recorder.seqs(deal.pk) == list(range(1, 11)), "nothing twice, nothing lost"


def test_overtaken_by_another_relay_it_changes_nothing(committed_db: Database, recorder: Recorder) -> None:
    quoted()
    events_publish()

    def overtake(_event: object) -> bool:
        EventSubscription.objects.update(position=50, in_hand_to=None)
        return False

    recorder.fails = overtake
    with pytest.raises(OvertakenError):
        deliver_new(recorder.subscriber)
    assert position("recorder") == 50


def test_what_was_in_hand_of_a_killed_relay_is_delivered_again_in_order(
    committed_db: Database, recorder: Recorder
) -> None:
    deal, other = quoted(), quoted("Other")
    move(deal, 2)
    events_publish()
    EventSubscription.objects.update(in_hand_to=EventStream.objects.get().head)
    move(deal)
    events_publish()
    relay()
    assert recorder.seqs(deal.pk) == [1, 2, 3, 4]
    assert recorder.seqs(other.pk) == [1]
    assert not EventDelivery.objects.exists()


def test_an_event_that_kills_every_relay_gives_up_too(
    committed_db: Database, recorder: Recorder, hands: Hands, settings: Any
) -> None:
    """Each death is told by what it leaves: the attempt counted, and no result."""
    settings.EVENT_ATTEMPTS = 3
    deal = quoted()
    events_publish()
    EventSubscription.objects.update(in_hand_to=EventStream.objects.get().head)
    deliver_new(recorder.subscriber)

    class Killed(BaseException):
        pass

    def die(_event: object) -> bool:
        raise Killed

    recorder.fails = die
    for _ in range(3):
        with pytest.raises(Killed):
            deliver_held(recorder.subscriber)
        assert deliver_held(recorder.subscriber) == 0, "its back-off was set before it died"
        hands.forward(minutes=1)
    deliver_held(recorder.subscriber)
    gave_up = EventDelivery.objects.get(entity_id=deal.pk)
    assert (gave_up.attempts, gave_up.gave_up_at) == (3, hands.now)
    assert gave_up.error == "The relay ended during the attempt"
