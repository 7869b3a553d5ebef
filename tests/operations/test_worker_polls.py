"""The real worker looks when it is due, and not by the scheduler's half minutes."""

from __future__ import annotations

import sys
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

from config.processes import ProcessGroup
from tasks_app import clock
from tasks_app.operations.models import Channel, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tests.adcp.raw_server import serve
from tests.database import Database
from tests.factories import make_seller
from tests.operations.making import TASK, stand
from tests.operations.sweeping import answering
from tests.support import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[2]
_EVERY_S, _LOOKS = 2.0, 5
_SCHEDULER_EVERY = timedelta(seconds=30)
_WORKING = {"task_id": TASK, "task_type": "create_media_buy", "status": "working"}


def test_looks_follow_far_closer_than_half_minutes_and_none_too_early(
    committed_db: Database, processes: ProcessGroup
) -> None:
    with serve(answering(_WORKING)) as server:
        seller = make_seller(url=f"{server.url}/mcp", timing={"working_s": _EVERY_S, "jitter": 0})
        operation = stand(S.WORKING, seller=seller)
        Operation.objects.filter(pk=operation.pk).update(next_poll_at=operation.created_at)
        environment = {"FLIGHTDECK_LOG_LEVEL": "WARNING", "FLIGHTDECK_POLL_SCALE": "1"}
        processes.start("worker", [sys.executable, "manage.py", "worker"], env=environment, cwd=ROOT)

        looks = Observation.objects.filter(operation=operation, channel=Channel.POLL).order_by("id")
        until(looks.exists, "the worker has started", patience=3 * PATIENCE_S)
        first = looks.values_list("at", flat=True)[0]

        def beyond_the_schedulers() -> bool:
            """The scheduler alone makes one look in each of its half minutes."""
            half_minutes = (clock.now() - first) // _SCHEDULER_EVERY
            return looks.count() >= _LOOKS + half_minutes

        until(beyond_the_schedulers, "it is looked at again and again", every=0.2)

    at = list(looks.values_list("at", flat=True))[:_LOOKS]
    assert min((after - before).total_seconds() for before, after in pairwise(at)) > _EVERY_S / 2
