"""The queue on PostgreSQL: order, taken once, woken at once, and what a lost connection costs."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator

import pytest
from django.db import connection, transaction
from django_q.brokers import get_broker
from django_q.models import OrmQ

from tasks_app.jobs import broker as module
from tasks_app.jobs.broker import PostgresBroker
from tests.database import Database
from tests.support import PATIENCE_S, joined, until

pytestmark = pytest.mark.deep


@pytest.fixture
def queue(committed_db: Database) -> Iterator[PostgresBroker]:
    broker = get_broker()
    assert isinstance(broker, PostgresBroker)
    yield broker
    broker._hang_up()


class Pusher(threading.Thread):
    """Takes tasks until it has so many, as a cluster's pusher does."""

    def __init__(self, wanted: int) -> None:
        super().__init__(daemon=True)
        self.broker, self.wanted, self.taken = PostgresBroker(), wanted, list[str]()
        self.start()

    def run(self) -> None:
        try:
            while len(self.taken) < self.wanted:
                self.taken += [payload for _, payload in self.broker.dequeue() or []]
        finally:
            self.broker._hang_up()
            connection.close()

    def result(self) -> list[str]:
        joined(self)
        return self.taken


def test_first_come_first_served(queue: PostgresBroker) -> None:
    for n in range(5):
        queue.enqueue(f"task {n}")
    taken = [queue.dequeue() for _ in range(5)]
    assert [task[0][1] for task in taken if task] == [f"task {n}" for n in range(5)]
    assert (queue.queue_size(), queue.lock_size()) == (0, 5)
    for task in taken:
        assert task is not None
        queue.acknowledge(task[0][0])
    assert OrmQ.objects.count() == 0


def test_many_pushers_take_each_task_once(queue: PostgresBroker) -> None:
    pushers = [Pusher(1) for _ in range(4)]
    for n in range(4):
        queue.enqueue(f"task {n}")
    taken = [payload for pusher in pushers for payload in pusher.result()]
    assert sorted(taken) == [f"task {n}" for n in range(4)]


def test_a_waiting_pusher_is_woken(queue: PostgresBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_AGAIN_S", 10 * PATIENCE_S)
    pusher = Pusher(1)
    until(_waits, "it has found nothing and listens")
    queue.enqueue("at once")
    assert pusher.result() == ["at once"]


def _waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "select 1 from pg_stat_activity where application_name = 'flightdeck queue'"
            " and datname = current_database() and state = 'idle' and query like '%skip locked%'"
        )
        return cursor.fetchone() is not None


def test_what_is_rolled_back_was_never_there(queue: PostgresBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_AGAIN_S", 0.01)
    with transaction.atomic():
        queue.enqueue("gone")
        transaction.set_rollback(True)
    assert queue.dequeue() is None


def test_a_callers_commit_stays_durable(queue: PostgresBroker) -> None:
    with connection.cursor() as cursor:
        cursor.execute("set synchronous_commit = on")  # the tests' own server does without
    queue.enqueue("alone")
    assert _synchronous_commit() == "on", "what waits for no disk is the wake-up's own commit"
    with transaction.atomic():
        queue.enqueue("with the caller's commit")
        assert _synchronous_commit() == "on"


def _synchronous_commit() -> str:
    with connection.cursor() as cursor:
        cursor.execute("show synchronous_commit")
        return str(cursor.fetchone()[0])


def test_no_more_wake_ups_wait_than_are_enough(queue: PostgresBroker) -> None:
    PostgresBroker(list_key="another").enqueue("not ours")
    assert queue.enqueue_up_to("some", 3, enough=4) == 3
    assert queue.enqueue_up_to("what there is room for", 3, enough=4) == 1
    assert queue.enqueue_up_to("too many", 3, enough=4) == 0
    assert queue.dequeue() is not None
    assert queue.enqueue_up_to("one was taken", 3, enough=4) == 1
    assert (queue.queue_size(), queue.lock_size()) == (4, 1)


def test_other_queues_are_left_alone(queue: PostgresBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_AGAIN_S", 0.01)
    PostgresBroker(list_key="another").enqueue("not ours")
    assert queue.dequeue() is None
    queue.enqueue("ours")
    assert [payload for _, payload in queue.dequeue() or []] == ["ours"]


def test_a_lost_connection_is_opened_anew(queue: PostgresBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_AGAIN_S", 0.01)
    monkeypatch.setattr(module, "_DATABASE_AWAY_S", 0.01)
    assert queue.dequeue() is None
    with connection.cursor() as cursor:
        cursor.execute(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            " where application_name = 'flightdeck queue' and datname = current_database()"
        )
        assert cursor.fetchone() == (1,)
    queue.enqueue("after")
    assert queue.dequeue() is None, "the loss is noticed, not raised"
    assert [payload for _, payload in queue.dequeue() or []] == ["after"]


def test_it_goes_to_another_process_without_its_connection(queue: PostgresBroker) -> None:
    queue.enqueue("task")
    queue.dequeue()
    copy = pickle.loads(pickle.dumps(queue))  # noqa: S301
    assert (copy.list_key, copy._listening) == (queue.list_key, None)
