"""The real worker relays."""

from __future__ import annotations

from config.processes import ProcessGroup
from tasks_app.events.models import EventStream, EventSubscription
from tasks_app.lifecycle.models import OutboxEvent
from tests.database import Database
from tests.events.parts import move, quoted
from tests.jobs.cluster import Worker
from tests.support import until


def test_a_worker_cluster_relays_and_so_does_the_next_after_it_was_killed(
    committed_db: Database, processes: ProcessGroup
) -> None:
    deal = quoted()
    worker = Worker(processes)
    until(delivered, "the worker has delivered the event")
    worker.kill()
    move(deal, 3)
    assert not delivered()
    worker.restart()
    until(delivered, "the next one has delivered the rest")
    worker.main.terminate()
    assert worker.exit_code() == 0


def delivered() -> bool:
    if OutboxEvent.objects.filter(position__isnull=True).exists():
        return False
    return EventSubscription.objects.filter(pk="log", position=EventStream.objects.get().head).exists()
