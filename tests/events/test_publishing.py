"""Positions: every committed event has one, in an order in which nobody misses any."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.db import DatabaseError, connection, transaction

from orders.models import Deal
from tasks_app.events.models import EventCount, EventStream, EventSubscription
from tasks_app.events.publishing import CHANNEL, events_publish
from tasks_app.lifecycle.models import OutboxEvent
from tests.database import Database
from tests.events.parts import Recorder, committed, move, quoted, relay
from tests.lifecycle.threads import at_once
from tests.owning import as_the_product
from tests.support import PATIENCE_S, joined


@contextmanager
def uncommitted_move(deal: Deal) -> Iterator[threading.Event]:
    """Another connection has moved the deal, and commits when the event is set, or at the end."""
    moved, commit = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with transaction.atomic():
                move(deal)
                moved.set()
                assert commit.wait(PATIENCE_S)
        except BaseException as error:  # told to the test's thread
            failed.append(error)
        finally:
            moved.set()
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    assert moved.wait(PATIENCE_S)
    try:
        yield commit
    finally:
        commit.set()
        joined(thread)
        assert not failed, failed


def test_a_lower_id_that_commits_later_is_not_skipped(committed_db: Database, recorder: Recorder) -> None:
    slow, fast = quoted("Slow"), quoted("Fast")
    relay()
    with uncommitted_move(slow) as commit:
        move(fast)
        relay()
        assert (recorder.seqs(fast.pk), recorder.seqs(slow.pk)) == ([1, 2], [1])
        commit.set()
    ids = dict(OutboxEvent.objects.filter(seq=2).values_list("entity_id", "id"))
    assert ids[slow.pk] < ids[fast.pk], "the later commit has the lower id"

    relay()

    assert recorder.seqs(slow.pk) == [1, 2]
    positions = dict(OutboxEvent.objects.filter(seq=2).values_list("entity_id", "position"))
    assert positions[fast.pk] < positions[slow.pk]


def test_what_is_rolled_back_never_happened_and_leaves_no_hole(
    committed_db: Database, recorder: Recorder
) -> None:
    deal = quoted()
    with transaction.atomic():
        move(deal, 3)
        transaction.set_rollback(True)
    move(Deal.objects.get(pk=deal.pk))
    relay()
    assert recorder.seqs(deal.pk) == [1, 2]
    assert set(recorder.took) == committed()


def test_two_publishers_at_once_give_each_event_one_position(
    committed_db: Database, recorder: Recorder
) -> None:
    for number in range(4):
        move(quoted(f"Seller {number}"), 5)
    total = OutboxEvent.objects.count()

    counted = at_once(*[lambda: sum(iter(lambda: events_publish(limit=3), 0)) for _ in range(3)])

    assert sum(counted) == total
    positions = sorted(OutboxEvent.objects.values_list("position", flat=True))
    assert positions == list(range(1, total + 1))
    assert EventStream.objects.get().head == total
    assert sum(EventCount.objects.values_list("total", flat=True)) == total


def test_positions_go_on_where_everything_was_deleted(committed_db: Database, recorder: Recorder) -> None:
    deal = quoted()
    relay()
    head = EventStream.objects.get().head
    OutboxEvent.objects.all().delete()
    move(deal)
    relay()
    assert OutboxEvent.objects.get().position == head + 1
    assert recorder.seqs(deal.pk) == [1, 2]


def test_a_new_subscriber_begins_with_what_is_not_numbered_yet(
    committed_db: Database, recorder: Recorder
) -> None:
    deal = quoted()
    relay()
    move(deal)
    later = Recorder("later")
    move(deal)
    relay()
    assert (recorder.seqs(deal.pk), later.seqs(deal.pk)) == ([1, 2, 3], [2, 3])
    assert EventSubscription.objects.get(pk="later").position == EventStream.objects.get().head


def test_only_the_relay_notifies_and_once_for_many(committed_db: Database, recorder: Recorder) -> None:
    with psycopg.connect(committed_db.urls.app, autocommit=True) as listening:
        listening.execute(f"listen {CHANNEL}")
        move(quoted(), 10)
        assert list(listening.notifies(timeout=0.3)) == [], "the transition's own commit notifies nobody"
        events_publish()
        (heard,) = listening.notifies(timeout=PATIENCE_S, stop_after=1)
        assert heard.payload == str(EventStream.objects.get().head)
        assert list(listening.notifies(timeout=0.3)) == []
        assert events_publish() == 0
        assert list(listening.notifies(timeout=0.3)) == [], "nothing new, nobody woken"


@pytest.mark.parametrize(
    "rewrite", [{"type": "deal.booked"}, {"payload": {}}, {"seq": 9}, {"entity_type": "job"}]
)
def test_the_application_cannot_rewrite_an_event(db: None, rewrite: dict[str, object]) -> None:
    deal = quoted()
    before = OutboxEvent.objects.filter(entity_id=deal.pk).values().get()
    denied = pytest.raises(DatabaseError, match="permission denied")
    with as_the_product(), denied, transaction.atomic():
        OutboxEvent.objects.filter(entity_id=deal.pk).update(**rewrite)
    assert OutboxEvent.objects.filter(entity_id=deal.pk).values().get() == before
