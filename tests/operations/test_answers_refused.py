"""An answer to a seller that people refused on its way: it never leaves, and another may be given."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.commands.questions import gates_ask_again
from tasks_app.operations.answers import operation_answer
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tests.adcp.raw_server import RawServer, serve
from tests.boundary.conftest import stopped
from tests.factories import make_user
from tests.operations.making import fresh
from tests.operations.pausing import answering, done, messages, paused, paused_purchase, release
from tests.operations.sweeping import sweep

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


def left(server: RawServer) -> list[object]:
    """The answers that left."""
    return [message["parts"] for message in messages(server) if message.get("taskId")]


def answered(operation: Operation, text: str, *, generation: int = 1) -> None:
    ops = make_user("Ad Ops")
    operation_answer(operation_id=operation.pk, generation=generation, user=ops, text=text)


def refused_on_its_way(operation: Operation) -> None:
    """Released by a second person, stopped by the kill switch before it left, and refused there."""
    answered(operation, "Buy all of it.")
    release()
    stopped()
    sweep()
    gate = Approval.objects.get(kind="kill_switch", status="open")
    approver = make_user("Approver")
    approval_decide(approval_id=gate.pk, user=approver, verdict="reject", comment="Do not send it.")
    stopped(on=False)
    gates_ask_again()


def test_it_never_leaves() -> None:
    with serve(answering(paused(), done())) as server:
        operation = paused_purchase(server)
        refused_on_its_way(operation)
        sweep()
        assert left(server) == []
        # Overdue, and somebody lets the seller have more time.
        Operation.objects.filter(pk=operation.pk).update(deadline_at=clock.now() - timedelta(seconds=1))
        time_out_due(limit=10)
        assert fresh(operation).status == S.TIMED_OUT
        asked = Approval.objects.get(kind="overdue", status="open")
        approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve", comment="Wait.")
        sweep()
        assert left(server) == []


def test_another_may_be_given() -> None:
    with serve(answering(paused(), done())) as server:
        operation = paused_purchase(server)
        refused_on_its_way(operation)
        answered(operation, "Half of it.", generation=2)
        release()
        sweep()
        (parts,) = left(server)
        assert "Half of it." in str(parts)
        assert fresh(operation).status == S.COMPLETED
