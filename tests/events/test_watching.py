"""What operators see of events: log lines, metrics."""

from __future__ import annotations

import logging

import pytest
from django.db import DatabaseError
from prometheus_client import REGISTRY

from tasks_app.events import metrics
from tasks_app.events.bus import subscribers
from tasks_app.events.models import EventDelivery
from tasks_app.events.publishing import events_publish
from tasks_app.lifecycle.models import OutboxEvent
from tests.database import Database
from tests.events.parts import Recorder, move, quoted, relay
from tests.support import metrics_page


def test_the_log_subscribes_to_everything() -> None:
    log = next(one for one in subscribers() if one.name == "log")
    assert log.types == {"*"}


def test_one_line_per_event(committed_db: Database, caplog: pytest.LogCaptureFixture) -> None:
    deal = quoted()
    move(deal)
    with caplog.at_level(logging.INFO, logger="events"):
        relay()
    lines = [record.msg for record in caplog.records if record.name == "events"]
    assert len(lines) == OutboxEvent.objects.count()
    told = {key: lines[-1][key] for key in ("event", "entity", "id", "seq", "actor")}
    assert told == {
        "event": "deal.negotiating",
        "entity": "deal",
        "id": str(deal.pk),
        "seq": 2,
        "actor": "system",
    }


def test_metrics_count_each_transition_once_whatever_is_redelivered(
    committed_db: Database, recorder: Recorder
) -> None:
    deal, behind = quoted(), Recorder("behind", ["deal.*"])
    behind.fails = lambda _event: True
    move(deal, 4)
    relay()
    EventDelivery.objects.filter(due_at__isnull=False).update(due_at=None, gave_up_at=deal.created_at)
    move(deal)
    relay()
    page = metrics_page().content.decode()
    assert 'flightdeck_transitions_total{type="deal.negotiating"} 3.0' in page
    assert 'flightdeck_transitions_total{type="deal.quoted"} 3.0' in page
    assert 'flightdeck_events_behind{subscriber="recorder"} 0.0' in page
    assert 'flightdeck_event_deliveries_gave_up{subscriber="behind"} 1.0' in page
    assert 'flightdeck_event_deliveries_gave_up{subscriber="recorder"} 0.0' in page


def test_how_far_a_subscriber_is_behind(committed_db: Database, recorder: Recorder) -> None:
    move(quoted(), 4)
    events_publish()
    assert REGISTRY.get_sample_value("flightdeck_events_behind", {"subscriber": "recorder"}) == 5


def test_without_the_database_the_other_metrics_are_answered(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise DatabaseError("away")

    monkeypatch.setattr(metrics, "subscribers", away)
    answer = metrics_page()
    assert answer.status_code == 200
    assert b"python_info" in answer.content
    assert b"flightdeck_transitions" not in answer.content
