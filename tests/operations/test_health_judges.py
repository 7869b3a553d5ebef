"""However many sweeps judge at the same moment, a seller is switched once and people are told once."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta

from tasks_app import clock
from tasks_app.notifications.models import Notification
from tasks_app.sellers.models import Seller
from tests.database import Database
from tests.operations.judging import judge, ready
from tests.operations.test_health_webhooks import hooked, many
from tests.rounds import rounds

_JUDGES, _SELLERS, _ROUNDS = 4, 3, rounds(2, 5)


def test_four_processes_switch_each_seller_once(committed_db: Database) -> None:
    before = clock.now() - timedelta(minutes=20)
    with clock.injected(lambda: before):
        for number in range(_SELLERS):
            many(hooked(f"Seller {number}"), came=0, lost=10)
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(_JUDGES)
    with ProcessPoolExecutor(_JUDGES, mp_context=spawn, initializer=ready, initargs=(barrier,)) as pool:
        switched = list(pool.map(judge, [_ROUNDS] * _JUDGES))
    assert sum(switched) == _SELLERS
    assert Notification.objects.filter(kind="webhooks_paused").count() == _SELLERS
    assert Seller.objects.filter(webhook_paused_until__isnull=False).count() == _SELLERS
