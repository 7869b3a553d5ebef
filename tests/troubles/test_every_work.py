"""One row never stops the others: each kind of work of the product with one row that cannot be written, and
one that can. What handles rows and is not named here fails the last two tests."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Callable
from types import FunctionType

import pytest

from tasks_app import clock, ids
from tasks_app.approvals.intents import batch_intend
from tasks_app.approvals.models import Approval
from tasks_app.desk.explain import explained_entities
from tasks_app.desk.search import rows_of
from tasks_app.jobs.expiry import steps_wake_again
from tasks_app.jobs.models import Job, Step
from tasks_app.jobs.worker import drain
from tasks_app.operations.sweep import _chores
from tasks_app.people.models import User
from tasks_app.troubles.models import RowTrouble
from tasks_app.troubles.works import entity_worked_on
from tests.database import Database
from tests.factories import decided_later, make_user
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench, bench  # noqa: F401
from tests.orders.accounts import approved_deal
from tests.troubles.cases_of_people import OF_PEOPLE, allowed, questions
from tests.troubles.cases_of_sellers import OF_SELLERS
from tests.troubles.poisoning import PAST, Case, heal, poison
from tests.troubles.reached import trees

CASES = [*OF_PEOPLE, *OF_SELLERS]
# What workers are woken for, and the work that each of these passes over its rows is.
PASSES = {
    "tasks_app.jobs.worker.drain": "steps_claimed",
    "tasks_app.jobs.schedules.schedules_start_due": "schedules_started",
    "tasks_app.operations.seller_reads.sellers_read_due": "sellers_read",
    "tasks_app.reconciliation.runs.runs_work": "tasks_reconciled",
    "tasks_app.webhooks.early.received_drain": "received_applied",
    "orders.mirror.mirrors_refresh_due": "mirrors_read",
}
# Chores that handle no rows one by one: a statement for all of them, or a wake-up of a worker.
WHOLE = {
    "assistant_sessions_archived",
    "assistant_turns_cleared",
    "events_pruned",
    "outside_events_forgotten",
    "notifications_forgotten",
    "nonces_forgotten",
    "tallies_forgotten",
    "reports_pruned",
    "security_log_pruned",
    "sessions_pruned",
    "sign_ins_forgotten",
    "troubles_forgotten",
    "woken",
    "schedules_woken",
    "lanes_told",
    "received_woken",
    "reconciliation_woken",
    "mirrors_woken",
    "sellers_reading_woken",
}
# Chores whose work has another name.
NAMED = {
    "expired_approvals": "approval_expiry",
    "approvals_escalated": "approval_escalation",
    "approvals_told": "approval_told_at",
    "approvals_reminded": "approval_reminded_at",
    "expired_jobs": "jobs_expired",
}
# Kinds of rows that nobody asks an explanation of: whose decisions they were sees what became of them; a
# delivery has a page, and stays on it.
UNEXPLAINED = {"assistant_proposal", "decision_batch", "webhook_delivery"}
# They hand a row's trouble on to where it is put back, or tell it as that row's own refusal.
_BESIDE = {
    *("tasks_app.approvals.together", "tasks_app.reconciliation.findings"),
    *("tasks_app.apps", "tasks_app.jobs.hand", "tasks_app.operations.sweep"),
    *("tasks_app.troubles.admin", "tasks_app.troubles.rows"),
}


@pytest.mark.django_db
@pytest.mark.parametrize(("work", "module", "case"), CASES, ids=[case.__name__ for *_, case in CASES])
def test_one_row_never_stops_the_others(
    work: str,
    module: str,
    case: Callable[..., Case],
    bench: Bench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bad, well = case(bench=bench, monkeypatch=monkeypatch)

    assert well(), "the other row was not handled"
    trouble = RowTrouble.objects.get(row=bad)
    assert (trouble.work, trouble.times) == (work, 1)
    assert trouble.again_at > trouble.at, "put back for a while"
    entity = entity_worked_on(work)
    assert entity in {*explained_entities(), *UNEXPLAINED}
    if entity not in UNEXPLAINED:
        rows = rows_of(entity, User.objects.create_superuser("root"))
        assert rows.filter(pk=bad).exists(), "its rows are of another kind"


@pytest.mark.parametrize("lost", [False, True])
def test_a_step_that_cannot_be_claimed_stops_no_other(
    committed_db: Database,
    bench: Bench,  # noqa: F811
    lost: bool,
) -> None:
    """Neither what is ready nor what a dead worker left; and what is done before it is not failed for it."""
    bench.recipe({"id": "a"}, {"id": "b", "after": ["a"]})
    bad, well = bench.start(), bench.start()
    row = Step.objects.get(job=bad, key="a")
    if lost:
        taken = claim_step()
        assert taken is not None
        assert taken.pk == row.pk
        Step.objects.filter(pk=row.pk).update(lease_until=clock.now() - PAST)
    poison("tasks_app_step", row.pk)

    assert drain() == 2

    assert Job.objects.get(pk=well.pk).status == "COMPLETED"
    assert not Step.objects.filter(job=well, failures__gt=0).exists()
    trouble = RowTrouble.objects.get()
    assert (trouble.work, trouble.row) == ("steps_claimed", row.pk)


def test_a_job_that_cannot_be_begun_stops_no_other(
    committed_db: Database,
    bench: Bench,  # noqa: F811
) -> None:
    """Its step is claimed with it or not at all: no attempt is lost, and it begins once it can."""
    bench.recipe({"id": "a"}, {"id": "b", "after": ["a"]})
    bad, well = bench.start(), bench.start()
    poison("tasks_app_job", bad.pk)

    assert drain() == 2

    assert Job.objects.get(pk=well.pk).status == "COMPLETED"
    step = Step.objects.get(job=bad, key="a")
    assert (step.status, step.attempts) == ("queued", 0)
    trouble = RowTrouble.objects.get()
    assert (trouble.work, trouble.row) == ("steps_claimed", step.pk)

    heal("tasks_app_job")
    with clock.injected(lambda: trouble.again_at):
        assert drain() == 2
    assert Job.objects.get(pk=bad.pk).status == "COMPLETED"


@pytest.mark.django_db
def test_a_single_step_keeps_no_account_back_and_is_woken_once_it_can_be() -> None:
    approved_deal("pending_approval")
    step = Step.objects.get(status="awaiting_tool")
    poison("tasks_app_step", step.pk)
    allowed()
    again = RowTrouble.objects.get(row=step.pk).again_at
    with clock.injected(lambda: again):
        assert steps_wake_again() == 0
    assert RowTrouble.objects.get(row=step.pk).times == 2

    heal("tasks_app_step")
    again = RowTrouble.objects.get(row=step.pk).again_at
    with clock.injected(lambda: again):
        assert steps_wake_again() == 1
        assert steps_wake_again() == 0
    assert Step.objects.get(pk=step.pk).ready_at == again
    assert not RowTrouble.objects.filter(row=step.pk).exists()


@pytest.mark.django_db
def test_one_question_of_a_batch_stops_no_other() -> None:
    bad, well = questions()
    user = make_user("Approver")
    shown = {one.pk: one.evidence_digest for one in (bad, well)}
    batch = batch_intend(batch_id=ids.new_id(), shown=shown, user=user, verdict="approve")
    poison("tasks_app_approval", bad.pk)

    assert decided_later() == 2

    assert Approval.objects.get(pk=well.pk).status == "approved"
    said = {item.approval: bool(item.code) for item in batch.items.all()}
    assert said == {bad.pk: True, well.pk: False}
    batch.refresh_from_db()
    assert batch.done_at is not None


@pytest.mark.rule
def test_every_pass_that_workers_are_woken_for_is_tried() -> None:
    woken = {task for tree in trees().values() for task in _woken(tree)}
    assert woken - {"tasks_app.jobs.worker.sweep_turn"} == set(
        PASSES
    )  # the sweep's chores are looked at below
    assert set(PASSES.values()) - {"steps_claimed"} <= {work for work, *_ in CASES}


def _woken(tree: ast.Module) -> set[str]:
    """The dotted names of functions that a module keeps: what a worker is woken with."""
    values = (node.value for node in tree.body if isinstance(node, ast.Assign))
    texts = {value.value for value in values if isinstance(value, ast.Constant)}
    return {text for text in texts if isinstance(text, str) and _is_function(text)}


def _is_function(name: str) -> bool:
    if not re.fullmatch(r"(tasks_app|orders|campaigns)(\.[a-z_]+){2,}", name):
        return False
    try:
        return isinstance(pkgutil.resolve_name(name), FunctionType)
    except (ImportError, AttributeError):
        return False


def test_every_chore_is_tried_or_is_one_statement() -> None:
    tried = {work for work, *_ in CASES}
    ours = {name for name in _chores if not name.startswith("test")}
    assert {NAMED.get(name, name) for name in ours} - WHOLE - tried == set()
    assert ours >= WHOLE


@pytest.mark.rule
def test_every_module_that_handles_row_by_row_is_tried() -> None:
    users = {
        module
        for module, tree in trees().items()
        if any(
            isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tasks_app.troubles.rows")
            for node in ast.walk(tree)
        )
    }
    assert users - _BESIDE == {"tasks_app.jobs.claims", *(module for _, module, _ in CASES)}
