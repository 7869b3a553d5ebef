"""What everybody has had is forgotten after its time; what somebody still waits for is not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from tasks_app import clock
from tasks_app.events import bus, retention
from tasks_app.events.delivery import deliver_new
from tasks_app.events.held import delivery_retry
from tasks_app.events.models import EventDelivery, EventStream
from tasks_app.events.publishing import events_publish
from tasks_app.events.retention import events_prune
from tasks_app.lifecycle.models import AuditEntry, OutboxEvent
from tests.database import Database
from tests.events.parts import Recorder, move, quoted, relay
from tests.factories import make_user

LATER = timedelta(days=31)


def prune_in(span: timedelta) -> int:
    moment = clock.now() + span
    with clock.injected(lambda: moment):
        return events_prune()


def test_only_what_is_old_enough_and_the_trail_stays(committed_db: Database, recorder: Recorder) -> None:
    deal = quoted()
    relay()
    total = OutboxEvent.objects.count()
    entries = AuditEntry.objects.count()
    assert prune_in(timedelta(days=29)) == 0
    assert prune_in(LATER) == total
    assert not OutboxEvent.objects.exists()
    assert AuditEntry.objects.count() == entries
    move(deal)
    relay()
    assert recorder.seqs(deal.pk) == [1, 2]


def test_what_a_subscriber_has_not_passed_is_kept(committed_db: Database, nobody: None) -> None:
    Recorder("quick")
    slow = Recorder("slow")
    deal = quoted()
    events_publish()
    relay_to("quick")
    assert prune_in(LATER) == 0
    move(deal)  # and this one is not even published
    relay_to("slow")
    assert prune_in(2 * LATER) == 1
    relay()
    assert slow.seqs(deal.pk) == [1, 2]


def test_what_gave_up_is_kept_until_it_was_delivered(
    committed_db: Database, recorder: Recorder, settings: Any
) -> None:
    settings.EVENT_ATTEMPTS = 1
    deal, other = quoted(), quoted("Other")
    recorder.fails = lambda event: event.entity_id == deal.pk
    move(deal)
    relay()
    prune_in(LATER)
    assert {e.entity_id for e in OutboxEvent.objects.all()} == {deal.pk}
    assert other.pk not in {e.entity_id for e in OutboxEvent.objects.all()}
    recorder.fails = lambda _event: False
    delivery_retry(
        delivery_id=EventDelivery.objects.get(due_at=None, attempts=1).pk, user=make_user("Ad Ops")
    )
    relay()
    assert recorder.seqs(deal.pk) == [1, 2]
    prune_in(2 * LATER)
    assert not OutboxEvent.objects.exists()


def test_once_an_hour_and_at_once_where_more_is_left(
    committed_db: Database, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_AT_ONCE", 4)
    deal = quoted()
    move(deal, 8)
    relay()
    assert [prune_in(LATER) for _ in range(4)] == [4, 4, 1, 0]
    move(deal)
    relay()
    assert prune_in(LATER + timedelta(minutes=59)) == 0
    assert prune_in(LATER + timedelta(minutes=61)) == 1


def test_without_subscribers_what_is_published_goes(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "_subscribers", {})
    quoted()
    assert prune_in(LATER) == 0, "nothing is published yet"
    events_publish()
    EventStream.objects.update(pruned_at=None)
    assert prune_in(LATER) > 0


def test_nobody_is_believed_about_how_far_all_are(committed_db: Database, nobody: None) -> None:
    """As the application's role, whatever is said to the function: it asks the subscriptions."""
    Recorder("quick")
    Recorder("away")
    quoted()
    events_publish()
    relay_to("quick")
    with psycopg.connect(committed_db.urls.owner, autocommit=True) as owner:
        owner.execute("update tasks_app_outboxevent set at = at - interval '40 days'")
    with psycopg.connect(committed_db.urls.app, autocommit=True) as role:
        total = OutboxEvent.objects.count()
        with pytest.raises(psycopg.errors.UndefinedFunction):
            role.execute("select fd_events_forget(999999999, now(), 1000)")
        assert role.execute("select fd_events_forget(now(), 1000)").fetchone() == (0,)
        assert OutboxEvent.objects.count() == total > 0
        relay_to("away")
        assert role.execute("select fd_events_forget(now(), 1000)").fetchone() == (total,)


def test_what_a_subscriber_that_is_away_has_not_passed_is_kept(
    committed_db: Database, nobody: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older version may come back; whoever takes a subscriber away for good deletes its row."""
    Recorder("quick")
    Recorder("away")
    quoted()
    events_publish()
    relay_to("quick")
    monkeypatch.delitem(bus._subscribers, "away")
    with capture_logs() as logs:
        assert prune_in(LATER) == 0
    (told,) = [one for one in logs if one["event"] == "events_kept_for_subscribers_away"]
    assert told["subscribers"] == ["away"]
    with psycopg.connect(committed_db.urls.owner, autocommit=True) as owner:
        owner.execute("delete from tasks_app_eventsubscription where name = 'away'")
    assert prune_in(2 * LATER) > 0


def relay_to(name: str) -> None:
    one = next(one for one in bus.subscribers() if one.name == name)
    while deliver_new(one):
        pass
