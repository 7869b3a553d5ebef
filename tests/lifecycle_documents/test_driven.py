"""Every declared edge is driven by some way through the product, or stands in the table of those that nothing
drives (docs/documents.md); and none that stands there is driven."""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest

from campaigns.explain_words import Progress, campaign_ways
from campaigns.models import CampaignStatus
from orders.changes.send import CHANGE
from orders.models import Deal, DealStatus
from orders.questions import DEAL, DIFFERENT
from orders.services import end_status
from orders.unclaimed.question import UNCLAIMED
from orders.ways import Ground, Question, ways
from tasks_app.adcp.types import TASK_STATUSES
from tasks_app.commands.questions import KIND as GATE
from tasks_app.jobs.calls import EDGES as OF_THE_CALLS
from tasks_app.lifecycle.declarations import ENTITIES, lifecycle
from tasks_app.operations.conflicts import KIND as CONFLICT
from tasks_app.operations.judging import judge
from tasks_app.operations.models import OperationStatus as O
from tests.operations.making import answer, stand

ROOT = Path(__file__).resolve().parents[2]
Edges = set[tuple[str, str]]
_KINDS = (None, DEAL, GATE, UNCLAIMED, DIFFERENT, CHANGE, CONFLICT)
_OPEN_STEPS = ("received", "queued", "executing", "awaiting_tool", "awaiting_user_confirmation")
_RUNNING = ("QUEUED", "PROCESSING", "PREVIEW")  # where a job can stand once its commit is over
_RUNNING_TURNS = ("init", "planning", "llm_call", "tool_execution", "synthesis")
_PENDING = ("submitted", "working", "input_required", "auth_required")

# Who moves a job, a step, an operation or an approval: {function: {(from, …): (to, …)}}. A new call of
# transition() in these rooms has to be entered here, or test_no_driver_is_forgotten fails.
DRIVERS: dict[str, dict[str, dict[tuple[str, ...], tuple[str, ...]]]] = {
    "assistant_turn": {
        "assistant/journal.py:_move": {
            ("init",): ("planning",),
            ("init", "planning", "tool_execution"): ("llm_call",),
            ("llm_call",): ("tool_execution", "synthesis"),
            ("synthesis",): ("completed",),
            _RUNNING_TURNS: ("failed",),
        },
        "assistant/turns.py:clear_stale_turns": {_RUNNING_TURNS: ("failed",)},
        "assistant/turns.py:fail_turn": {_RUNNING_TURNS: ("failed",)},
        "assistant/services.py:stop": {_RUNNING_TURNS: ("cancelled",)},
    },
    "approval": {
        "approvals/services.py:approval_void": {("open",): ("voided",)},
        "approvals/services.py:_amended": {("open",): ("voided",)},
        "approvals/services.py:_end_by": {("open",): ("approved", "rejected")},
        "approvals/services.py:approval_ask_again": {("open",): ("voided",)},
        "approvals/services.py:_expire": {("open",): ("expired",)},
    },
    "job": {
        "jobs/planning.py:plan_steps": {("PENDING",): ("QUEUED",)},
        "jobs/engine.py:mark_running": {("QUEUED",): ("DISPATCHING",), ("DISPATCHING",): ("PROCESSING",)},
        "jobs/engine.py:_complete": {("PROCESSING",): ("PREVIEW",)},
        "jobs/over.py:end_if_over": {
            ("QUEUED",): ("DISPATCHING",),
            ("DISPATCHING", "PROCESSING", "PREVIEW"): ("COMPLETED",),
            _RUNNING: ("FAILED",),
        },
        "jobs/over.py:end_job": {},  # for those beside it
        "jobs/endings.py:_cut_short": {_RUNNING: ("CANCELLED", "EXPIRED")},
        "jobs/endings.py:job_hide": {("COMPLETED", "FAILED", "CANCELLED", "EXPIRED"): ("DELETED",)},
    },
    "step": {
        "jobs/abandoning.py:abandon_successors": {("received",): ("cancelled",)},
        "jobs/adoption.py:adopt": {
            ("received",): ("queued",),
            ("queued",): ("executing",),
            ("executing",): ("completed",),
        },
        "jobs/claims.py:_take": {("queued", "awaiting_tool", "awaiting_user_confirmation"): ("executing",)},
        "jobs/endings.py:_cut_short": {_OPEN_STEPS: ("cancelled",)},
        "jobs/engine.py:mark_waiting": {("executing",): ("awaiting_tool", "awaiting_user_confirmation")},
        "jobs/engine.py:expand": {("executing",): ("awaiting_tool",)},
        "jobs/engine.py:_complete": {("executing",): ("completed",)},
        "jobs/engine.py:_fail": {("executing",): ("failed",)},
        "jobs/engine.py:_queue": {("received",): ("queued",)},
        "jobs/engine.py:skip": {("queued", "awaiting_tool", "awaiting_user_confirmation"): ("executing",)},
        "jobs/engine.py:_end_fan_out": {("awaiting_tool",): ("executing",)},
        "jobs/steering.py:_skipped": {_OPEN_STEPS: ("cancelled",)},
    },
    "operation": {
        "operations/converge.py:_apply": {},  # tried: test_where_an_observation_leads
        "operations/deadlines.py:_move": {
            ("calling_adcp", *_PENDING): ("timed_out",),
            ("requested",): ("failed",),
        },
        "operations/dispatch.py:_take_send": {("requested",): ("calling_adcp",)},
        "operations/dispatch.py:_refuse": {("requested",): ("failed",)},
        "operations/services.py:_fail": {("calling_adcp",): ("failed",)},
        "operations/overdue.py:wait_on": {("timed_out",): ("submitted",)},
        "operations/services.py:operation_withdraw": {("requested",): ("canceled",)},
        "operations/steering.py:operation_stop": {("calling_adcp", *_PENDING): ("timed_out",)},
    },
}


def declared(entity: str) -> Edges:
    return {(frm, to) for frm, to in lifecycle(entity).edges if frm != to}


def undriven(entity: str) -> Edges:
    page = (ROOT / "docs/documents.md").read_text().partition("## Edges that nothing drives")[2]
    rows = re.findall(rf"^\| {entity} \|([^|]*)\|", page, re.MULTILINE)
    return {(frm, to) for row in rows for frm, to in re.findall(r"`(\w+) → (\w+)`", row)}


def driven(entity: str) -> Edges:
    moves = [move for moves in DRIVERS[entity].values() for move in moves.items()]
    by_calls = {(frm, to) for kind, frm, to in OF_THE_CALLS if kind == entity}
    return by_calls | {edge for sources, targets in moves for edge in product(sources, targets)}


@pytest.mark.rule
def test_of_a_deal() -> None:
    """As its page says, which tests/orders/test_ways.py tries."""
    asked = Question(title="It", due_at=datetime(2026, 11, 20, tzinfo=UTC))
    found: Edges = set()
    for status, kind, job, purchase, held, refused in product(
        DealStatus, _KINDS, ("", "JOB-1"), ("", "out", "over"), (False, True), ("", "It is rejected")
    ):
        ground = Ground(
            status=status,
            asked={kind: asked} if kind else {},
            job=job,
            purchase=purchase,
            held=held,
            taken=end_status(Deal(status=status)),
            account_refused=refused,
        )
        found |= {(status.value, to.value) for to in ways(ground)}
    assert declared("deal") - found == undriven("deal")
    assert found <= declared("deal")


@pytest.mark.rule
def test_of_a_campaign() -> None:
    """As its explanation says, which tests/campaigns/test_ways.py tries; a new one begins by being submitted
    (`campaigns/services.py`)."""
    found = {(CampaignStatus.INITIALIZED.value, CampaignStatus.BRIEF_RECEIVED.value)}
    for status, job in product(CampaignStatus, ("", "JOB-1")):
        retryable = "JOB-1" if status == CampaignStatus.FAILED else ""
        told = campaign_ways(Progress(status=status, job=job, retryable=retryable))
        found |= {(status.value, str(to)) for to in told}
    assert declared("campaign") - found == undriven("campaign")
    assert found <= declared("campaign")


@pytest.mark.rule
@pytest.mark.parametrize("entity", sorted(set(DRIVERS) - {"operation"}))
def test_of_jobs_steps_and_approvals(entity: str) -> None:
    assert declared(entity) - driven(entity) == undriven(entity)
    assert driven(entity) <= declared(entity)


@pytest.mark.rule
@pytest.mark.django_db
def test_of_an_operation_where_an_observation_leads() -> None:
    found = driven("operation")
    for status in ("calling_adcp", *_PENDING, O.TIMED_OUT.value):
        operation = stand(status, task_id=f"task-{status}")
        for said, channel in product(sorted(TASK_STATUSES - {"unknown"}), ("reply", "poll", "webhook")):
            to = judge(
                operation, answer(said, task_id=operation.task_id or "task-1"), channel, "digest", {}
            ).to
            found |= {(status, str(to))} if to else set()
    assert declared("operation") - found == undriven("operation")
    assert found <= declared("operation")


@pytest.mark.rule
def test_each_reset_of_a_campaign_stands_point_by_point_as_it_is() -> None:
    """Document 002 has two ways back to the beginning; what is not built says that it is to come."""
    page = (ROOT / "docs/documents.md").read_text().partition("## Edges that nothing drives")[0]
    told = re.findall(r"^\| 002: campaign reset (\w+) → (\w+) \| (\w+)", page, re.MULTILINE)
    resets = {edge for edge in declared("campaign") if edge[1] == CampaignStatus.INITIALIZED}
    assert {(frm, to) for frm, to, _ in told} == resets
    assert {(frm, to) for frm, to, here in told if here == "coming"} == resets & undriven("campaign")


@pytest.mark.rule
def test_the_table_names_edges_of_lifecycles_only() -> None:
    for entity in ENTITIES:
        assert undriven(entity) <= declared(entity)


@pytest.mark.rule
def test_no_driver_is_forgotten_and_none_is_invented() -> None:
    moving = set()
    for path in (ROOT / "tasks_app").rglob("*.py"):
        room = path.relative_to(ROOT / "tasks_app").as_posix()
        if room.startswith(("lifecycle/", "migrations/")):
            continue
        functions = [one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.FunctionDef)]
        moving |= {f"{room}:{one.name}" for one in functions if any(map(_moves, ast.walk(one)))}
    assert moving == {name for drivers in DRIVERS.values() for name in drivers}


def _moves(node: ast.AST) -> bool:
    """A call of transition(), or of what does nothing else; django-fsm's decorator has no positional
    arguments."""
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1
    return named and node.func.id in ("transition", "transition_many")  # type: ignore[attr-defined]
