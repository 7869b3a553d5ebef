"""Jobs ended before their time: cancelled by a person, hidden, and what hangs on them."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.jobs.actions import Result, Run, StepFailedError, WaitForApprovals, WaitForOperation, WaitUntil
from tasks_app.jobs.endings import JobRefusedError, job_cancel, job_hide, nested_end, nested_end_due
from tasks_app.jobs.engine import mark_complete, mark_waiting
from tasks_app.jobs.models import Job, JobStatus, WorkflowEvent
from tasks_app.jobs.worker import drain, run_step
from tasks_app.lifecycle.errors import InvalidTransitionError
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.asking import operation_ensure
from tasks_app.operations.models import Operation, OperationStatus
from tests.clocks import Clock
from tests.factories import make_deal, make_seller, make_team, make_user
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench, statuses, steps_of

pytestmark = pytest.mark.django_db


def tomorrow(_run: Run) -> Result:
    return WaitUntil(moment=clock.now() + timedelta(days=1))


def cancelled(job: Job, reason: str = "the client withdrew") -> Job:
    return job_cancel(job_id=job.pk, actor=make_user("Ad Ops"), reason=reason)


def test_cancelling_ends_every_open_step_and_keeps_the_reason(bench: Bench) -> None:
    bench.action("sleep", tomorrow)
    bench.recipe(
        {"id": "done"},
        {"id": "asleep", "action": "sleep"},
        {"id": "after", "after": ["asleep"]},
    )
    job = bench.run()
    assert statuses(job) == {"done": "completed", "asleep": "awaiting_tool", "after": "received"}
    ended = cancelled(job)
    assert statuses(ended) == {"done": "completed", "asleep": "cancelled", "after": "cancelled"}
    assert (ended.status, ended.error) == (JobStatus.CANCELLED, "the client withdrew")
    for step in steps_of(job).values():
        trail = AuditEntry.objects.filter(entity_id=step.pk).order_by("-seq").first()
        assert trail is not None
        assert (trail.reason == "the client withdrew") == (step.key != "done")
        assert verify_entity("step", step.pk).ok
        assert step.ready_at is None
    assert verify_entity("job", job.pk).ok
    assert drain() == 0


def test_queued_work_is_never_executed(bench: Bench) -> None:
    bench.recipe({"id": "a"})
    job = bench.start()
    cancelled(job)
    assert drain() == 0
    assert bench.ran == []


def test_the_late_result_of_what_was_executing_is_recorded_and_changes_nothing(bench: Bench) -> None:
    bench.recipe({"id": "a"})
    job = bench.start()
    step = claim_step()
    assert step is not None
    cancelled(job)
    assert not mark_complete(step=step, outputs={"too": "late"})
    after = steps_of(job)["a"]
    assert (after.status, after.outputs) == ("cancelled", None)
    late = WorkflowEvent.objects.get(job=job, type="step.late_result")
    assert late.payload == {"outputs": {"too": "late"}}


@pytest.mark.parametrize("error", [RuntimeError("too late"), StepFailedError("too late")])
def test_the_late_failure_of_what_was_executing_is_tried_no_more(bench: Bench, error: Exception) -> None:
    """Document 003: a retry state that is terminal is given no further attempt; the trail says so."""
    job: list[Job] = []

    def fails(run: Run) -> Result:
        cancelled(job[0])
        raise error

    bench.action("fails", fails)
    bench.recipe({"id": "a", "action": "fails"})
    job.append(bench.start())
    drain()
    after = steps_of(job[0])["a"]
    assert (after.status, after.failures, after.error) == ("cancelled", 0, "")
    told = [event.type for event in job[0].events.all()]
    late = job[0].events.get(type="step.late_result")
    assert "too late" in late.payload["error"]
    assert "retry_scheduled" not in told
    assert told.count("retry_state_terminal") == isinstance(error, RuntimeError)


def test_questions_are_withdrawn(bench: Bench) -> None:
    deal = make_deal()
    from orders.questions import ask_deal

    asked = ask_deal(deal)
    bench.action("ask", lambda run: WaitForApprovals(approval_ids=(asked.pk,)))
    bench.recipe({"id": "a", "action": "ask"})
    job = bench.run()
    assert statuses(job) == {"a": "awaiting_user_confirmation"}
    cancelled(job)
    asked.refresh_from_db()
    assert asked.status == ApprovalStatus.VOIDED
    assert statuses(job) == {"a": "cancelled"}


def asked(run: Run) -> Operation:
    return operation_ensure(
        purpose=run.purpose("ask"),
        task_type="get_products",
        seller=make_seller(),
        arguments={},
        actor="system",
        team=make_team(),
    )


def waits_for_operation(bench: Bench, **fields: object) -> tuple[Job, Operation]:
    made: list[Operation] = []

    def ask(run: Run) -> Result:
        made.append(asked(run))
        return WaitForOperation(operation_id=made[0].pk)

    bench.action("ask", ask)
    bench.recipe({"id": "a", "action": "ask"})
    return bench.run(), made[0]


@pytest.mark.parametrize("whom", ["people", "seller"])
def test_what_a_step_asks_for_while_it_is_cancelled_is_called_off(bench: Bench, whom: str) -> None:
    """It was asked too late to be called off with the rest, and nobody waits for it."""
    from orders.questions import ask_deal

    made: list[Approval | Operation] = []

    def ask(run: Run) -> Result:
        made.append(ask_deal(make_deal()) if whom == "people" else asked(run))
        cancelled(run.job)
        if whom == "people":
            return WaitForApprovals(approval_ids=(made[0].pk,))
        return WaitForOperation(operation_id=made[0].pk)

    bench.action("ask", ask)
    bench.recipe({"id": "a", "action": "ask"})
    assert statuses(bench.run()) == {"a": "cancelled"}
    made[0].refresh_from_db()
    assert made[0].status == (ApprovalStatus.VOIDED if whom == "people" else OperationStatus.CANCELED)


def test_what_another_attempt_waits_for_is_not_called_off(bench: Bench, still: Clock) -> None:
    from orders.questions import ask_deal

    question = ask_deal(make_deal())
    bench.action("ask", lambda run: WaitForApprovals(approval_ids=(question.pk,)))
    bench.recipe({"id": "a", "action": "ask"})
    job = bench.start()
    lost = claim_step()
    assert lost is not None
    still.forward(seconds=61)
    drain()
    run_step(lost)
    question.refresh_from_db()
    assert (question.status, statuses(job)) == ("open", {"a": "awaiting_user_confirmation"})


def test_what_was_not_sent_never_is(bench: Bench) -> None:
    job, operation = waits_for_operation(bench)
    cancelled(job)
    operation.refresh_from_db()
    assert (operation.status, operation.send_at) == (OperationStatus.CANCELED, None)
    assert operation.settled_at is not None
    assert operation.published_at is None, "its listeners are told by the next sweep"


def test_what_was_sent_is_followed_to_its_end(bench: Bench) -> None:
    from tasks_app.lifecycle.transitions import transition

    job, operation = waits_for_operation(bench)
    transition(operation, OperationStatus.CALLING_ADCP, actor="system")
    cancelled(job)
    operation.refresh_from_db()
    assert operation.status == OperationStatus.CALLING_ADCP


def nested(bench: Bench) -> tuple[Job, Job, Job]:
    """A job that waits for a job that waits for a job that sleeps."""
    bench.action("sleep", tomorrow)
    bench.recipe({"id": "deep", "action": "sleep"}, name="inner")
    bench.recipe({"id": "mid", "recipe": "inner"}, {"id": "rest", "after": ["mid"]}, name="middle")
    bench.recipe({"id": "top", "recipe": "middle"}, name="outer")
    outer = bench.run("outer")
    middle = Job.objects.get(parent_step__job=outer)
    return outer, middle, Job.objects.get(parent_step__job=middle)


def test_cancellation_passes_down_to_any_depth(bench: Bench) -> None:
    outer, middle, inner = nested(bench)
    cancelled(outer)
    for job in (outer, middle, inner):
        job.refresh_from_db()
        assert job.status == JobStatus.CANCELLED
        assert set(statuses(job).values()) == {"cancelled"}
    assert inner.error == f"{middle.reference} was cancelled"


def test_a_nested_job_left_by_a_killed_worker_is_ended_by_the_sweep(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer, middle, inner = nested(bench)
    monkeypatch.setattr("tasks_app.jobs.endings.nested_end", lambda job, **_: 0)
    cancelled(outer)
    middle.refresh_from_db()
    assert middle.status == JobStatus.PROCESSING
    monkeypatch.setattr("tasks_app.jobs.endings.nested_end", nested_end)
    assert nested_end_due() == 2
    inner.refresh_from_db()
    assert inner.status == JobStatus.CANCELLED
    assert nested_end_due() == 0


def test_a_step_cancelled_while_it_starts_a_nested_job_leaves_none(bench: Bench) -> None:
    bench.recipe({"id": "a"}, name="inner")
    bench.recipe({"id": "top", "recipe": "inner"}, name="outer")
    outer = bench.start("outer")
    step = claim_step()
    assert step is not None
    cancelled(outer)
    run_step(step)
    assert not Job.objects.filter(parent_step__job=outer).exists()


@pytest.mark.parametrize("reason", ["", "   "])
def test_a_reason_is_needed(bench: Bench, reason: str) -> None:
    bench.recipe({"id": "a"})
    job = bench.start()
    with pytest.raises(JobRefusedError, match="Say why"):
        cancelled(job, reason)
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED


def test_who_has_no_right_changes_nothing(bench: Bench) -> None:
    bench.recipe({"id": "a"})
    job = bench.start()
    with pytest.raises(InvalidTransitionError):
        job_cancel(job_id=job.pk, actor=make_user("Finance"), reason="no")
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED
    assert statuses(job) == {"a": "queued"}


def test_what_has_ended_is_not_cancelled_again(bench: Bench) -> None:
    bench.recipe({"id": "a"})
    job = bench.run()
    with pytest.raises(JobRefusedError, match="ended already"):
        cancelled(job)
    job.refresh_from_db()
    assert job.status == JobStatus.COMPLETED


def test_hiding_keeps_the_trail(bench: Bench) -> None:
    bench.recipe({"id": "a"})
    job = bench.start()
    who = make_user("Ad Ops")
    with pytest.raises(JobRefusedError, match="still runs"):
        job_hide(job_id=job.pk, actor=who)
    drain()
    for _ in range(2):
        assert job_hide(job_id=job.pk, actor=who).status == JobStatus.DELETED
    trail = AuditEntry.objects.filter(entity_id=job.pk).order_by("seq")
    assert [entry.to_status for entry in trail][-2:] == ["COMPLETED", "DELETED"]
    assert verify_entity("job", job.pk).ok


def test_a_nested_job_is_not_hidden_before_its_result_is_taken(bench: Bench) -> None:
    """A hidden one tells nothing of how it ended: its parent would fail over what was done."""
    bench.recipe({"id": "a"}, name="inner")
    bench.recipe({"id": "inner", "recipe": "inner"}, name="outer")
    job = bench.start("outer")
    who = make_user("Ad Ops")
    child = None
    while child is None or child.status != JobStatus.COMPLETED:
        assert drain(1)
        child = Job.objects.filter(parent_step__job=job).first()
    with pytest.raises(JobRefusedError, match="has not taken its result"):
        job_hide(job_id=child.pk, actor=who)
    drain()
    assert Job.objects.get(pk=job.pk).status == JobStatus.COMPLETED
    assert job_hide(job_id=child.pk, actor=who).status == JobStatus.DELETED


def test_a_preview_is_there_until_the_job_ends(bench: Bench) -> None:
    bench.action("sleep", tomorrow)
    bench.recipe(
        {"id": "draft", "preview": True},
        {"id": "final", "after": ["draft"]},
        {"id": "beside", "action": "sleep"},
    )
    job = bench.run()
    assert job.status == JobStatus.PREVIEW
    assert statuses(job) == {"draft": "completed", "final": "completed", "beside": "awaiting_tool"}
    cancelled(job)
    assert JobStatus(Job.objects.get(pk=job.pk).status) == JobStatus.CANCELLED


def test_an_unknown_job_is_an_error() -> None:
    with pytest.raises(Job.DoesNotExist):
        job_cancel(job_id=uuid.uuid4(), actor="system", reason="x")


def test_a_cancelled_step_cannot_be_put_to_sleep(bench: Bench) -> None:
    bench.recipe({"id": "a"})
    job = bench.start()
    step = claim_step()
    assert step is not None
    cancelled(job)
    assert not mark_waiting(step=step, status="awaiting_tool", waiting_for={"type": "time"}, reason="x")
