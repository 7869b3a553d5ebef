"""Questions and jobs with one row that cannot be written, and one that can."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group

from orders.models import Deal
from orders.questions import ask_deal
from tasks_app import clock, ids
from tasks_app.approvals.intents import batch_intend
from tasks_app.approvals.models import Approval
from tasks_app.approvals.policy_escalation import approvals_escalate
from tasks_app.approvals.services import (
    approval_decide,
    approvals_count_again,
    approvals_expire_due,
)
from tasks_app.approvals.telling import approvals_remind, approvals_tell
from tasks_app.assistant.models import AssistantProposal, AssistantToolCall
from tasks_app.assistant.proposals import continue_proposals
from tasks_app.assistant.services import ask
from tasks_app.assistant.types import Channel
from tasks_app.commands.questions import gates_ask_again
from tasks_app.jobs.endings import job_cancel, nested_end, nested_end_due
from tasks_app.jobs.expiry import jobs_expire_due
from tasks_app.jobs.models import Job, Step
from tasks_app.jobs.outside import event_deliver
from tasks_app.jobs.outside_event import OutsideEvent
from tasks_app.jobs.schedule import Schedule
from tasks_app.jobs.schedules import schedules_start_due
from tasks_app.jobs.worker import drain
from tasks_app.operations.account_reads import accounts_read_due
from tasks_app.operations.ordering import order_command, order_run
from tasks_app.sellers.models import Account
from tests.boundary.conftest import purchase, stopped
from tests.factories import approve_deal, decided_later, make_deal, make_team, make_user
from tests.jobs.conftest import Bench
from tests.jobs.test_endings import nested
from tests.jobs.test_schedules import made
from tests.operations.making import fresh
from tests.orders.accounts import approved_deal, end, listed
from tests.troubles.poisoning import PAST, Case, Tried, poison, sellers


def questions(**columns: Any) -> list[Approval]:
    asked = [ask_deal(make_deal(seller=one)) for one in sellers()]
    Approval.objects.update(**columns)
    return asked


def gates(**_: Any) -> Case:
    stopped()
    bad, well = (order_run(order=purchase(seller=one), actor="system") for one in sellers())
    stopped(on=False)
    row = order_command(bad).pk
    poison("tasks_app_command", row)
    gates_ask_again()
    return row, lambda: fresh(well).send_at


def expiry(**_: Any) -> Case:
    bad, well = questions(due_at=clock.now() - PAST)
    poison("tasks_app_approval", bad.pk)
    approvals_expire_due()
    return bad.pk, lambda: Approval.objects.get(pk=well.pk).status == "expired"


def counted(**_: Any) -> Case:
    """Two that have approvals enough since one who gave them may decide again."""
    bad, well = questions(quorum=2)
    back, other = make_user("Approver"), make_user("Approver")
    for user in (back, other):
        for one in (bad, well):
            approval_decide(approval_id=one.pk, user=user, verdict="approve")
        back.groups.clear()
    back.groups.add(Group.objects.get(name="Approver"))
    poison("tasks_app_approval", bad.pk)
    approvals_count_again()
    return bad.pk, lambda: Approval.objects.get(pk=well.pk).status == "approved"


def escalation(**_: Any) -> Case:
    bad, well = questions(escalate_at=clock.now() - PAST)
    poison("tasks_app_approval", bad.pk)
    approvals_escalate()
    return bad.pk, lambda: Approval.objects.get(pk=well.pk).escalated_at


def told(**_: Any) -> Case:
    bad, well = questions()
    poison("tasks_app_approval", bad.pk)
    approvals_tell()
    return bad.pk, lambda: Approval.objects.get(pk=well.pk).told_at


def reminded(**_: Any) -> Case:
    now = clock.now()
    bad, well = questions(told_at=now, created_at=now - timedelta(hours=10), due_at=now + timedelta(hours=1))
    poison("tasks_app_approval", bad.pk)
    approvals_remind()
    return bad.pk, lambda: Approval.objects.get(pk=well.pk).reminded_at


def decided(**_: Any) -> Case:
    asked, batches = questions(), []
    for one in asked:
        user, shown = make_user("Approver"), {one.pk: one.evidence_digest}
        batches.append(batch_intend(batch_id=ids.new_id(), shown=shown, user=user, verdict="approve"))
    poison("tasks_app_decisionbatch", batches[0].pk)
    decided_later()
    return batches[0].pk, lambda: Approval.objects.get(pk=asked[1].pk).status == "approved"


def jobs_expired(bench: Bench, **_: Any) -> Case:
    bench.recipe({"id": "a"})
    bad, well = bench.start(), bench.start()
    later = clock.now() + timedelta(hours=25)
    poison("tasks_app_job", bad.pk)
    with clock.injected(lambda: later):
        jobs_expire_due()
    return bad.pk, lambda: Job.objects.get(pk=well.pk).status == "EXPIRED"


def nested_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch, **_: Any) -> Case:
    one, bad, _ = nested(bench)
    other = bench.run("outer")
    well = Job.objects.get(parent_step__job=other)
    monkeypatch.setattr("tasks_app.jobs.endings.nested_end", lambda job, **_: 0)
    for job in (one, other):
        job_cancel(job_id=job.pk, actor="system", reason="A test")
    monkeypatch.setattr("tasks_app.jobs.endings.nested_end", nested_end)
    poison("tasks_app_job", bad.pk)
    nested_end_due()
    assert bad.parent_step_id
    return bad.parent_step_id, lambda: Job.objects.get(pk=well.pk).status == "CANCELLED"


def schedules(bench: Bench, **_: Any) -> Case:
    bench.recipe({"id": "a"}, name="stock", startable=True)
    bad, well = made(name="Bad"), made(name="Well")
    Schedule.objects.update(next_due_at=clock.now() - PAST)
    poison("tasks_app_schedule", bad.pk)
    schedules_start_due()
    return bad.pk, lambda: Job.objects.filter(subject_id=well.pk).exists()


def awaiting_account() -> tuple[Step, Step]:
    """Two purchases that wait for their seller to allow their account."""
    one = approved_deal("pending_approval")
    two = make_deal(seller=one.seller, account=False)
    Deal.objects.filter(pk=two.pk).update(account=one.account)
    two.refresh_from_db()
    approve_deal(two)
    drain()
    bad, well = Step.objects.filter(status="awaiting_tool").order_by("pk")
    return bad, well


def allowed() -> None:
    Account.objects.update(next_read_at=clock.now())
    accounts_read_due()
    end("list_accounts", "completed", listed("active"))
    assert Account.objects.get().status == "active"


def woken(**_: Any) -> Case:
    bad, well = awaiting_account()
    poison("tasks_app_step", bad.pk)
    allowed()
    return bad.pk, lambda: Step.objects.get(pk=well.pk).ready_at


def handed(bench: Bench, **_: Any) -> Case:
    wait = {"name": "signed", "correlation": "", "hours": 1}
    bench.recipe({"id": "a", "action": "wait_for_event", "inputs": wait})
    bad, well = (Step.objects.get(job=bench.run()) for _ in range(2))
    poison("tasks_app_step", bad.pk)
    event_deliver(
        name="signed", correlation="", payload={}, idempotency_key="k1", team=make_team(), actor="system"
    )
    return bad.pk, lambda: OutsideEvent.objects.get().step_id == well.pk


# What the work is called, the modules that do it, and how it is tried.
def proposals(**_: Any) -> Case:
    """Two whose first change is gone: the second is given up."""
    turn = ask(user=make_user("Buyer"), question="Move 10", channel=Channel.API)
    bad, well = (
        AssistantProposal.objects.create(
            turn=turn,
            call=AssistantToolCall.objects.create(turn=turn, call_id=name, tool="gone", arguments={}),
            tool="gone",
            arguments={},
            summary="Move 10",
            subject_type="deal",
            remaining={"amount": 10},
        )
        for name in ("bad", "well")
    )
    poison("tasks_app_assistantproposal", bad.pk)
    continue_proposals()
    return bad.pk, lambda: AssistantProposal.objects.get(pk=well.pk).error


OF_PEOPLE: list[Tried] = [
    ("assistant_proposals_continued", "tasks_app.assistant.proposals", proposals),
    ("gates_opened", "tasks_app.commands.questions", gates),
    ("approval_expiry", "tasks_app.approvals.services", expiry),
    ("approvals_counted", "tasks_app.approvals.services", counted),
    ("approval_escalation", "tasks_app.approvals.policy_escalation", escalation),
    ("approval_told_at", "tasks_app.approvals.telling", told),
    ("approval_reminded_at", "tasks_app.approvals.telling", reminded),
    ("decided_together", "tasks_app.approvals.intents", decided),
    ("jobs_expired", "tasks_app.jobs.expiry", jobs_expired),
    ("nested_jobs_ended", "tasks_app.jobs.endings", nested_ended),
    ("schedules_started", "tasks_app.jobs.schedules", schedules),
    ("steps_woken", "tasks_app.jobs.wake", woken),
    ("events_handed", "tasks_app.jobs.outside", handed),
]
