"""A job's graph as data: nodes, waits, counts, operations, the critical path; and cheap to poll."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from orders.questions import ask_deal
from tasks_app import clock
from tasks_app.jobs import engine, wake
from tasks_app.jobs.actions import (
    Done,
    Result,
    Run,
    StepFailedError,
    WaitForApprovals,
    WaitForOperation,
    WaitUntil,
)
from tasks_app.jobs.graph import FOLD_ABOVE, GraphNode, JobGraph, graph_version, job_graph, job_steps
from tasks_app.jobs.models import Job, Step
from tasks_app.jobs.worker import drain
from tasks_app.operations.asking import operation_ensure
from tasks_app.operations.models import Channel, Operation, OperationStatus
from tests.clocks import Clock
from tests.factories import make_deal, make_seller, make_team
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench, failing
from tests.operations.making import stand

pytestmark = pytest.mark.django_db


def nodes(graph: JobGraph) -> dict[str, GraphNode]:
    return {node.key: node for node in graph.nodes}


def keys(graph: JobGraph) -> list[str]:
    called = {node.id: node.key for node in graph.nodes}
    return [called[one] for one in graph.critical_path.steps]


def asks(run: Run) -> Result:
    seller = make_seller() if not Operation.objects.exists() else Operation.objects.get().seller
    asked = operation_ensure(
        purpose=run.purpose("ask"),
        task_type="get_products",
        seller=seller,
        arguments={},
        actor="system",
        team=make_team(),
    )
    if asked.published_at is None:
        return WaitForOperation(operation_id=asked.pk)
    return Done(outputs={"asked": asked.reference})


def test_values_are_resolved_and_outputs_stand_in_the_documents_shape(bench: Bench) -> None:
    bench.recipe(
        {"id": "a", "title": "First", "inputs": {"n": "{{ inputs.n }}"}},
        {"id": "b", "after": ["a"], "inputs": {"before": "{{ steps.a.outputs.inputs.n }}"}},
        {"id": "c", "after": ["b"], "condition": "{{ inputs.n > 5 }}"},
    )
    graph = job_graph(bench.run(inputs={"n": 3}))
    shown = nodes(graph)
    assert (shown["a"].title, shown["a"].inputs, shown["b"].inputs) == ("First", {"n": 3}, {"before": 3})
    assert graph.step_results()["steps"]["a"] == {"outputs": {"key": "a", "inputs": {"n": 3}}}
    assert (shown["c"].skipped, shown["c"].status) == (True, "completed")
    assert (graph.counts, graph.workflow_status) == ({"completed": 3}, None)
    called = {node.id: node.key for node in graph.nodes}
    assert [(called[e.source], called[e.target], e.type) for e in graph.edges] == [
        ("a", "b", "after"),
        ("b", "c", "after"),
    ]
    without = nodes(job_graph(Job.objects.get(), values=False))
    assert (without["a"].inputs, without["a"].outputs) == (None, None)


def test_what_is_not_known_yet_is_not_shown_and_secrets_never(bench: Bench) -> None:
    bench.action(
        "leak", lambda run: Done(outputs={"access_token": "fd_abc", "tokens": 3, "deep": [{"secret": "x"}]})
    )
    bench.action("sleep", lambda run: WaitUntil(moment=clock.now() + timedelta(days=1)))
    bench.recipe(
        {"id": "a", "action": "leak"},
        {"id": "b", "action": "sleep"},
        {"id": "c", "after": ["b"], "inputs": {"x": "{{ steps.b.outputs.x }}"}},
    )
    shown = nodes(job_graph(bench.run()))
    assert shown["a"].outputs == {
        "access_token": "[redacted]",
        "tokens": 3,
        "deep": [{"secret": "[redacted]"}],
    }
    assert shown["c"].inputs is None


def test_a_step_at_its_third_try_says_so(bench: Bench, still: Clock) -> None:
    bench.action("flaky", failing(2, lambda: RuntimeError("the line was busy")))
    bench.recipe({"id": "a", "action": "flaky", "max_attempts": 5, "max_failures": 4})
    job = bench.run()
    first = nodes(job_graph(job))["a"]
    assert (first.attempt, first.max_attempts, first.failures, first.max_failures) == (2, 5, 1, 4)
    assert first.last_error == "RuntimeError: the line was busy"
    assert first.next_retry == still.now + timedelta(seconds=1)
    assert first.waiting_for is not None
    assert (first.waiting_for.type, first.waiting_for.until) == ("back_off", first.next_retry)
    still.forward(seconds=1)
    step = claim_step()
    assert step is not None
    again = nodes(job_graph(job))["a"]  # it executes, and what went wrong before is still told
    assert (again.status, again.attempt, again.last_error) == (
        "executing",
        2,
        "RuntimeError: the line was busy",
    )


def test_resumes_are_no_attempts_and_lost_workers_are(bench: Bench, still: Clock) -> None:
    bench.recipe({"id": "a"})
    job = bench.start()
    assert claim_step() is not None
    still.forward(seconds=120)
    assert claim_step() is not None
    taken_over = nodes(job_graph(job))["a"]
    assert (taken_over.attempt, taken_over.failures) == (2, 0)
    seen = iter((WaitUntil(moment=still.now + timedelta(hours=1)), Done()))
    bench.action("twice", lambda run: next(seen))
    bench.recipe({"id": "b", "action": "twice"}, name="sleeps")
    other = bench.run("sleeps")
    still.forward(hours=2)
    drain()
    ended = nodes(job_graph(other))["b"]
    assert (ended.status, ended.attempt, Step.objects.get(key="b").attempts) == ("completed", 1, 2)


def test_waits_say_what_since_when_and_until_when(bench: Bench, still: Clock) -> None:
    approval = ask_deal(make_deal())
    tomorrow = still.now + timedelta(days=1)
    bench.recipe({"id": "inner", "action": "sleep"}, name="below")
    bench.action("sleep", lambda run: WaitUntil(moment=tomorrow))
    bench.action("person", lambda run: WaitForApprovals(approval_ids=(approval.pk,)))
    bench.action("seller", lambda run: asks_norrland(run))
    bench.recipe(
        {"id": "time", "action": "sleep"},
        {"id": "person", "action": "person"},
        {"id": "seller", "action": "seller"},
        {"id": "nested", "recipe": "below"},
        {"id": "many", "action": "sleep", "for_each": "{{ [1, 2] }}"},
        {"id": "after", "after": ["time"]},
    )
    graph = job_graph(bench.run())
    waits = {key: node.waiting_for for key, node in nodes(graph).items()}
    told = {key: (wait.type, wait.until, wait.count) for key, wait in waits.items() if wait}
    child = Job.objects.get(recipe="below")
    assert told == {
        "time": ("time", tomorrow, None),
        "person": ("approvals", approval.due_at, None),
        "seller": ("operation", still.now + timedelta(minutes=10), None),
        "nested": ("job", None, None),
        "many": ("items", None, 2),
        "many[0]": ("time", tomorrow, None),
        "many[1]": ("time", tomorrow, None),
    }
    assert waits["person"]
    assert waits["person"].ids == (str(approval.pk),)
    assert approval.reference in waits["person"].words
    assert waits["nested"]
    assert waits["nested"].words == f"{child.reference} is processing"
    assert nodes(graph)["nested"].child_job == child
    assert waits["seller"]
    assert waits["seller"].words == "get_products is to be sent to Nordwind"
    assert all(wait.since == still.now and not wait.come for wait in waits.values() if wait)
    assert graph.workflow_status == "WAITING_PARALLEL"
    assert graph.counts == {"awaiting_tool": 6, "awaiting_user_confirmation": 1, "received": 1}


def asks_norrland(run: Run) -> Result:
    asked = operation_ensure(
        purpose=run.purpose("ask"),
        task_type="get_products",
        seller=make_seller("Nordwind"),
        arguments={},
        actor="system",
        team=make_team(),
    )
    return WaitForOperation(operation_id=asked.pk)


def test_operations_are_pending_then_completed(bench: Bench) -> None:
    bench.action("ask", asks)
    bench.recipe({"id": "a", "action": "ask"}, {"id": "b", "after": ["a"]})
    job = bench.run()
    asked = Operation.objects.get()
    waiting = job_graph(job)
    assert [(one.id, one.step, one.seller) for one in waiting.pending_operations] == [
        (asked.pk, "a", "Norrland Digital")
    ]
    assert (waiting.completed_operations, waiting.workflow_status) == ((), "WAITING_SINGLE")
    Operation.objects.filter(pk=asked.pk).update(published_at=clock.now())
    wake.resume(waiting_for={"type": "operation", "id": str(asked.pk)})
    come = job_graph(job)
    wait = nodes(come)["a"].waiting_for
    assert wait is not None
    assert (come.workflow_status, wait.come) == ("READY_TO_RESUME", True)
    assert drain() == 2
    done = job_graph(job)
    assert done.pending_operations == ()
    assert [one.id for one in done.completed_operations] == [asked.pk]


def test_the_critical_path_is_what_decided_the_end(bench: Bench, still: Clock) -> None:
    def takes(minutes: float) -> Callable[[Run], Done]:
        def action(run: Run) -> Done:
            still.forward(minutes=minutes)
            return Done()

        return action

    bench.action("short", takes(1))
    bench.action("long", takes(30))
    bench.recipe(
        {"id": "a", "action": "short"},
        {"id": "b", "after": ["a"], "action": "short"},
        {"id": "c", "after": ["a"], "action": "long"},
        {"id": "d", "after": ["b", "c"]},
    )
    graph = job_graph(bench.run())
    assert keys(graph) == ["a", "c", "d"]
    assert graph.critical_path.measured == timedelta(minutes=31)
    assert {key for key, node in nodes(graph).items() if node.critical} == {"a", "c", "d"}
    assert nodes(graph)["c"].duration == timedelta(minutes=30)


def test_the_open_part_goes_by_the_sellers_latest_answers(bench: Bench, still: Clock, settings: Any) -> None:
    settings.ESTIMATE_SAMPLE = 1
    bench.action("ask", asks)
    bench.action("sleep", lambda run: WaitUntil(moment=still.now + timedelta(minutes=90)))
    bench.recipe(
        {"id": "a", "action": "ask"},
        {"id": "b", "action": "sleep"},
        {"id": "c", "after": ["b"]},
        {"id": "d", "after": ["b"]},
    )
    job = bench.run()
    asked = Operation.objects.get()
    Operation.objects.filter(pk=asked.pk).update(sent_at=still.now)
    unknown = job_graph(job)
    assert keys(unknown)[0] == "b", "without an estimate a known moment is later than nothing"
    assert (unknown.critical_path.expected, unknown.critical_path.unknown) == (timedelta(minutes=90), 1)
    stand(
        OperationStatus.COMPLETED,
        "get_products",
        seller=asked.seller,
        settled_by=Channel.POLL,
        sent_at=still.now - timedelta(hours=8),
        settled_at=still.now - timedelta(hours=4),
    )
    known = job_graph(job)
    assert keys(known) == ["a"]
    assert known.critical_path.expected == timedelta(hours=4)


def test_a_large_fan_out_is_folded_and_asks_no_more_queries(
    bench: Bench, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    bench.recipe({"id": "many", "for_each": "{{ inputs.list }}"}, {"id": "after", "after": ["many"]})
    few, many = (
        bench.start(inputs={"list": [1, 2]}),
        bench.start(inputs={"list": list(range(FOLD_ABOVE + 1))}),
    )
    for _ in (few, many):
        whole = claim_step()
        assert whole is not None
        assert whole.key == "many"
        engine.expand(step=whole, items=whole.job.inputs["list"])
    with django_assert_max_num_queries(16):
        small = job_graph(few)
    with django_assert_max_num_queries(16):
        large = job_graph(many)
    assert [node.key for node in small.nodes] == ["many", "many[0]", "many[1]", "after"]
    assert [node.key for node in large.nodes] == ["many", "after"]
    items = nodes(large)["many"].items
    assert items is not None
    assert (items.total, dict(items.by_status), items.folded) == (51, {"queued": 51}, True)
    assert large.counts == {"queued": 51, "awaiting_tool": 1, "received": 1}
    page = job_steps(many, Step.objects.filter(job=many, fan_out__isnull=False).order_by("item_index")[:3])
    assert [(node.key, node.item_index) for node in page] == [("many[0]", 0), ("many[1]", 1), ("many[2]", 2)]


def test_a_recipe_of_many_steps_comes_in_pages(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks_app.jobs.graph.NODES_AT_ONCE", 2)
    bench.recipe(*({"id": f"s{n}", "after": [f"s{n - 1}"] if n else []} for n in range(5)))
    job = bench.run()
    seen, after = [], None
    while True:
        page = job_graph(job, after=after)
        seen += [node.key for node in page.nodes]
        assert len(page.critical_path.steps) == 5
        after = page.next_after
        if after is None:
            break
    assert seen == ["s0", "s1", "s2", "s3", "s4"]


def test_the_version_changes_with_what_is_shown_and_not_otherwise(bench: Bench, still: Clock) -> None:
    bench.action("ask", asks)
    bench.action("flaky", failing(1, lambda: StepFailedError("no")))
    bench.recipe({"id": "a", "action": "ask"}, {"id": "b", "action": "flaky", "optional": True})
    job = bench.start()
    seen = [graph_version(job)]
    drain(1)
    seen.append(graph_version(job))
    drain(1)
    seen.append(graph_version(job))
    assert graph_version(job) == seen[-1]
    asked = Operation.objects.get()
    Operation.objects.filter(pk=asked.pk).update(deadline_at=still.now + timedelta(hours=1))
    seen.append(graph_version(job))
    wake.resume(waiting_for={"type": "operation", "id": str(asked.pk)})
    seen.append(graph_version(job))
    assert len(set(seen)) == len(seen)
