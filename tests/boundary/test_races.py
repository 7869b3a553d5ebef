"""Two processes on one key: one effect."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from asgiref.sync import async_to_sync
from django.db import connection

from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.commands.models import Command
from tasks_app.commands.questions import gates_ask_again
from tasks_app.operations.dispatch import claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.ordering import order_run
from tasks_app.operations.sweep import sweep_once
from tasks_app.sellers.models import Seller
from tests.adcp.raw_server import serve
from tests.boundary.conftest import asked, purchase, stopped
from tests.database import Database
from tests.ending import ending, line_of
from tests.factories import make_seller, make_team, make_user
from tests.operations.sweeping import answering, calls
from tests.rounds import rounds
from tests.support import PATIENCE_S, joined

ROOT = Path(__file__).resolve().parents[2]
DONE = {"status": "completed", "media_buy_id": "mb-1", "packages": []}


@contextmanager
def running(key: str, po_number: str, *how: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.boundary.runner", key, po_number, *how]
    pipe = subprocess.PIPE
    with ending(subprocess.Popen(command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe)) as process:
        yield process


def together(*runs: tuple[str, ...]) -> list[str]:
    """What each of several processes said, begun at once."""
    with ExitStack() as stack:
        processes = [stack.enter_context(running(*run)) for run in runs]
        outs = [process.stdout for process in processes]
        assert [line_of(out) for out in outs] == ["ready\n"] * len(runs)
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        return [line_of(out).strip() for out in outs]


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


def test_a_worker_killed_in_the_middle_of_a_command_leaves_none_of_it(committed_db: Database) -> None:
    make_seller()
    make_team()
    assert together(("race:3", "PO-1", "die")) == [""]
    assert not Command.objects.exists()
    assert not Operation.objects.exists()
    assert together(("race:3", "PO-1")) == [str(Operation.objects.get().pk)]


def test_a_person_and_the_opening_gate_let_a_command_go_once(committed_db: Database) -> None:
    approver, beside = make_user("Approver"), threading.Barrier(3)
    make_seller(slots=20)
    for _ in range(rounds(2, 5)):
        stopped()
        operation = order_run(order=purchase(seller=Seller.objects.first()), actor="system")
        question = asked()
        approval_decide(approval_id=question.pk, user=make_user("Approver"), verdict="approve")
        stopped(on=False)
        raised: list[BaseException] = []

        def decide(pk: uuid.UUID = question.pk) -> None:
            with suppress(DecisionRefusedError):
                approval_decide(approval_id=pk, user=approver, verdict="approve")

        def beside_each_other(act: Callable[[], object], raised: list[BaseException] = raised) -> None:
            beside.wait(PATIENCE_S)
            try:
                act()
            except BaseException as error:  # whatever it is, the test tells
                raised.append(error)
            connection.close()

        acts: list[Callable[[], object]] = [decide, gates_ask_again, lambda: claim_sends(limit=5)]
        threads = [threading.Thread(target=beside_each_other, args=(act,)) for act in acts]
        for thread in threads:
            thread.start()
        joined(*threads)
        gates_ask_again()
        command = Command.objects.get(key=operation.purpose)
        assert raised == []
        assert list(command.decisions.values_list("code", flat=True)).count("executed") == 1
        assert Approval.objects.get(pk=question.pk).status in ("approved", "voided")
        assert Operation.objects.filter(pk=operation.pk, send_at__isnull=False).exists()
        Operation.objects.filter(pk=operation.pk).update(send_at=None)
