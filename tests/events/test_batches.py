"""Much that few want: numbered and passed in batches, none lost, none out of order, whoever is killed."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tasks_app.events import delivery
from tasks_app.events.bus import Event, event_of
from tasks_app.events.delivery import BATCH, REACH, deliver_new
from tasks_app.events.models import EventDelivery, EventStream, EventSubscription
from tasks_app.events.publishing import AT_ONCE, CHANNEL, events_publish
from tasks_app.events.relay import Relay
from tasks_app.lifecycle.models import OutboxEvent
from tests.database import Database
from tests.events.parts import Recorder, committed, move, quoted, relay
from tests.events.test_relay import all_delivered, filed, in_order, relaying
from tests.support import PATIENCE_S, until

_NOISE = """
insert into tasks_app_outboxevent (type, entity_type, entity_id, seq, payload, at)
select 'step.queued', 'step', gen_random_uuid(), 1, '{"from": "received", "to": "queued"}', now()
  from generate_series(1, %s)
"""


class KilledError(BaseException):
    """Nothing of the relay catches it."""


def noise(database: Database, events: int) -> None:
    """That many events of steps, in one commit."""
    with psycopg.connect(database.urls.owner, autocommit=True) as owner:
        owner.execute(_NOISE, [events])


def publish_all() -> int:
    """Answers the head."""
    while events_publish():
        pass
    return EventStream.objects.get().head


def test_who_wants_little_moves_past_much_in_few_queries(committed_db: Database, nobody: None) -> None:
    few = Recorder("few", ["deal.*"])
    noise(committed_db, 2 * REACH)
    deal = quoted()
    noise(committed_db, REACH)
    head = publish_all()

    with CaptureQueriesContext(connection) as asked:
        while deliver_new(few.subscriber):
            pass

    assert few.took == [("deal", deal.pk, 1)]
    assert EventSubscription.objects.get(pk="few").position == head
    assert len(asked) <= 4 * (head // REACH + 1) + 1, "bounded by the reaches, whatever is in them"


def test_a_batch_of_wanted_ones_costs_four_queries(
    committed_db: Database, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "TURN_S", PATIENCE_S)  # no turn ends in the middle of it
    deal = quoted()
    move(deal, BATCH - 1)
    publish_all()
    with CaptureQueriesContext(connection) as asked:
        deliver_new(recorder.subscriber)
    assert len(recorder.took) >= BATCH
    assert len(asked) == 4, "where it stands, the events, in hand, moved"
    while deliver_new(recorder.subscriber):
        pass
    with CaptureQueriesContext(connection) as asked:
        assert deliver_new(recorder.subscriber) == 0
    assert len(asked) == 1


@pytest.mark.parametrize(
    "types", [["*"], ["deal.*"], ["deal.quoted"], ["deal.negotiating", "step.*"], ["deal.booked"], ["job.*"]]
)
def test_the_server_and_the_subscriber_want_the_same(
    committed_db: Database, nobody: None, types: list[str]
) -> None:
    one = Recorder("one", types)
    move(quoted(), 3)
    noise(committed_db, 2)
    relay()
    rows = OutboxEvent.objects.order_by("position")
    assert one.took == [event_of(row).dedup_id for row in rows if one.subscriber.wants(row.type)]


def test_a_handler_is_handed_the_row_as_it_is(committed_db: Database, recorder: Recorder) -> None:
    handed: list[Event] = []

    def look(event: Event) -> bool:
        handed.append(event)
        return False

    recorder.fails = look
    move(quoted(), 2)
    relay()
    assert handed == [event_of(row) for row in OutboxEvent.objects.order_by("position")]
    assert all(event.at.utcoffset() is not None for event in handed)


def test_killed_amid_what_it_does_not_want_it_loses_and_reorders_nothing(
    committed_db: Database, nobody: None
) -> None:
    few = Recorder("few", ["deal.*"])
    deal, _ = quoted("One"), quoted("Two")
    noise(committed_db, 3)
    move(deal, 2)
    noise(committed_db, 3)
    head = publish_all()

    def die(event: Event) -> bool:
        if event.dedup_id == ("deal", deal.pk, 3):
            raise KilledError
        return False

    few.fails = die
    with pytest.raises(KilledError):
        deliver_new(few.subscriber)
    left = EventSubscription.objects.get(pk="few")
    assert left.position == 0
    assert left.in_hand_to == head - 3, "to the last that it wants"

    few.fails = lambda _event: False
    before = len(few.took)
    move(deal)
    relay()
    assert in_order(few.took[before:])
    assert set(few.took[before:]) == {one for one in committed() if one[0] == "deal"}
    assert not EventDelivery.objects.exists()


def test_a_killed_process_amid_much_is_followed_by_one_that_has_all(
    committed_db: Database, nobody: None, tmp_path: Path
) -> None:
    file = tmp_path / "filed"
    deal, other = quoted("One"), quoted("Two")
    noise(committed_db, REACH)
    move(deal, 4)
    noise(committed_db, REACH)
    move(other, 2)
    with relaying(file, "die", 4) as process:
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    before = filed(file)
    with relaying(file):
        until(lambda: all_delivered("filed", "log", "mail", "people", "messages"))
    after = filed(file)[len(before) :]
    assert set(filed(file)) == {one for one in committed() if one[0] == "deal"}
    assert in_order(after)


def test_a_stream_of_commits_is_numbered_by_the_tick(
    committed_db: Database, nobody: None, settings: Any
) -> None:
    settings.EVENT_TICK_S = 0.5
    every, few = Recorder("every"), Recorder("few", ["job.*"])
    deal = quoted()
    with psycopg.connect(committed_db.urls.app, autocommit=True) as listening:
        listening.execute(f"listen {CHANNEL}")
        began = time.monotonic()
        with Relay():
            move(deal, 60)
            until(lambda: all_delivered("every", "few"), "also who wants none of them has passed")
            took = time.monotonic() - began
        numberings = list(listening.notifies(timeout=1))
    assert every.seqs(deal.pk) == list(range(1, 62))
    assert few.took == []
    assert len(numberings) <= took / settings.EVENT_TICK_S + 1


def test_a_backlog_is_numbered_without_pauses(
    committed_db: Database, recorder: Recorder, settings: Any
) -> None:
    settings.EVENT_TICK_S = 3600
    noise(committed_db, 2 * AT_ONCE + 1)
    with Relay():
        until(lambda: all_delivered("recorder"), "everything is delivered before the next tick")
    assert len(recorder.took) == 2 * AT_ONCE + 1
    assert in_order(recorder.took)
