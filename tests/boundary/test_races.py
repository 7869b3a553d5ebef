"""Two processes on one key: one effect."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from asgiref.sync import async_to_sync

from tasks_app.commands.models import Command
from tasks_app.operations.models import Operation
from tasks_app.operations.sweep import sweep_once
from tests.adcp.raw_server import serve
from tests.database import Database
from tests.factories import make_seller, make_team
from tests.operations.sweeping import answering, calls

ROOT = Path(__file__).resolve().parents[2]
DONE = {"status": "completed", "media_buy_id": "mb-1", "packages": []}


@contextmanager
def running(key: str, po_number: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.boundary.runner", key, po_number]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def together(*runs: tuple[str, str]) -> list[str]:
    """What each of several processes said, begun at once."""
    with ExitStack() as stack:
        processes = [stack.enter_context(running(*run)) for run in runs]
        outs = [process.stdout for process in processes]
        assert [out.readline() for out in outs if out] == ["ready\n"] * len(runs)
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        return [out.readline().strip() for out in outs if out]


def test_a_race_of_processes_on_one_key_has_one_effect_at_the_seller(committed_db: Database) -> None:
    with serve(answering(DONE)) as server:
        make_seller(url=f"{server.url}/mcp", slots=10)
        make_team()
        said = together(*[("race:1", "PO-1")] * 4)
        async_to_sync(sweep_once)()
    command = Command.objects.get()
    assert set(said) == {str(Operation.objects.get().pk)}
    assert len(calls(server)) == 1
    assert command.replays == 3
    assert list(command.decisions.values_list("code", flat=True)) == ["executed"]


def test_a_race_with_two_payloads_has_one_effect_and_one_conflict(committed_db: Database) -> None:
    make_seller()
    make_team()
    said = together(("race:2", "PO-1"), ("race:2", "PO-2"))
    assert sorted(said) == sorted([str(Operation.objects.get().pk), "IDEMPOTENCY_KEY_CONFLICT"])
    assert Command.objects.count() == 1
