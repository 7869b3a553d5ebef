"""Due times far below the scheduler's half minute are met by the real worker."""

from __future__ import annotations

import statistics
import sys
from itertools import pairwise
from pathlib import Path

from config.processes import ProcessGroup
from tasks_app.operations.models import Channel, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tests.adcp.raw_server import serve
from tests.database import Database
from tests.factories import make_seller
from tests.operations.making import TASK, stand
from tests.operations.sweeping import answering
from tests.support import until

ROOT = Path(__file__).resolve().parents[2]
_EVERY_S, _LATEST_S, _LOOKS = 2.0, 2.0, 6
_WORKING = {"task_id": TASK, "task_type": "create_media_buy", "status": "working"}


def test_every_look_follows_within_two_seconds_of_its_time(
    committed_db: Database, processes: ProcessGroup
) -> None:
    with serve(answering(_WORKING)) as server:
        seller = make_seller(url=f"{server.url}/mcp", timing={"working_s": _EVERY_S, "jitter": 0})
        operation = stand(S.WORKING, seller=seller)
        Operation.objects.filter(pk=operation.pk).update(next_poll_at=operation.created_at)
        environment = {"FLIGHTDECK_LOG_LEVEL": "WARNING", "FLIGHTDECK_POLL_SCALE": "1"}
        processes.start("worker", [sys.executable, "manage.py", "worker"], env=environment, cwd=ROOT)

        looks = Observation.objects.filter(operation=operation, channel=Channel.POLL).order_by("id")
        until(lambda: looks.count() >= _LOOKS, "it is looked at again and again", every=0.2, patience=90)

    at = list(looks.values_list("at", flat=True))[:_LOOKS]
    late = [(after - before).total_seconds() - _EVERY_S for before, after in pairwise(at)]
    assert min(late) > -0.1, "never early"
    # In half of all looks: the machine may be busy with something else in the others.
    assert statistics.median(late) < _LATEST_S
