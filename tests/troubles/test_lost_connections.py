"""Only a connection that is gone stops what follows: a lock that was waited for too long, or a deadlock, is
the trouble of its row."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from django.db import OperationalError

from tasks_app.operations.comparison import Finding, Reader, Reading, Settled, Verdict
from tasks_app.reconciliation import runs
from tasks_app.reconciliation.models import ReconciliationFinding, ReconciliationRun
from tasks_app.sellers.models import Seller
from tests.factories import make_seller
from tests.support import PATIENCE_S
from tests.troubles.reached import trees

# Who raises it all the same: what hands it on, and why that stops nothing.
_GOES_ON = "another run continues the turn when its lease has run out"
RAISES = {
    ("tasks_app.assistant.executor", "_take_step"): _GOES_ON,
    ("tasks_app.assistant.executor", "execute_task_safe"): _GOES_ON,
    ("tasks_app.jobs.schedules", "_start_or_tell"): "its row is put back, and started a little later",
}
_LOST = {"OperationalError", "InterfaceError"}


@pytest.mark.django_db
def test_one_finding_that_meets_a_lock_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    make_seller()
    missing = [Finding(verdict=Verdict.MISSING, theirs=name) for name in ("t-1", "t-2")]

    def settle(_seller: Seller, finding: Finding) -> Settled | None:
        if finding.theirs == "t-1":
            raise OperationalError("canceling statement due to lock timeout")
        return Settled(how="seen", note="It is known")

    reader = Reader(
        kind="task",
        read=lambda asked, _limit_s: [Reading(seller=one, findings=missing) for one in asked],
        settle=settle,
    )
    monkeypatch.setattr(runs, "_readers", [reader])
    runs.run_perform(run=runs.run_ask(trigger="schedule", actor="system"), limit_s=PATIENCE_S)

    assert not ReconciliationRun.objects.get().error
    found = ReconciliationFinding.objects.order_by("theirs")
    assert [(one.theirs, one.is_open) for one in found] == [("t-1", True), ("t-2", False)]


@pytest.mark.rule
def test_nothing_else_raises_whatever_the_database_says_of_a_row() -> None:
    """Whoever meets these errors asks whether the connection is gone (`connection_lost`)."""
    found = {(module, name) for module, tree in trees().items() for name in _raising(tree)}
    assert found == RAISES.keys()


def _raising(tree: ast.Module) -> Iterator[str]:
    """Functions that catch errors of the database and do nothing but raise them."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            handlers = (one for one in ast.walk(function) if isinstance(one, ast.ExceptHandler))
            if any(_names(one) & _LOST and isinstance(one.body[0], ast.Raise) for one in handlers):
                yield function.name


def _names(handler: ast.ExceptHandler) -> set[str]:
    return {one.id for one in ast.walk(handler.type or handler) if isinstance(one, ast.Name)}
