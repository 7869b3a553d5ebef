"""Random graphs against a simple reading of what a recipe means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks_app.jobs.actions import Result, Run, StepFailedError
from tasks_app.jobs.models import Job, WorkflowEvent
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity
from tests.jobs.conftest import Bench, statuses
from tests.jobs.test_replaying import as_rows, as_told

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Node:
    """One step of a random recipe: after which earlier ones, and how it goes."""

    after: tuple[int, ...]
    fails: bool
    optional: bool
    skipped: bool
    items: int | None


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    count = draw(st.integers(1, 9))
    rarely = st.sampled_from([False, False, False, True])
    return [
        Node(
            after=tuple(sorted(draw(st.sets(st.integers(0, number - 1), max_size=3)))) if number else (),
            fails=draw(rarely),
            optional=draw(rarely),
            skipped=draw(rarely),
            items=draw(st.sampled_from([None, None, None, 0, 1, 3])),
        )
        for number in range(count)
    ]


def expected(nodes: list[Node]) -> dict[str, str]:
    """The status every step ends in, worked out in the order of the numbers."""
    ends: dict[str, str] = {}
    blocked: set[int] = set()
    for number, node in enumerate(nodes):
        if blocked & set(node.after):
            ends[f"s{number}"] = "cancelled"
            blocked.add(number)
            continue
        items = [] if node.skipped or node.items is None else list(range(node.items))
        runs = not node.skipped and (node.items is None or bool(items))
        broke = node.fails and runs
        # An optional fan-out completes with those of its items that did.
        ends[f"s{number}"] = "failed" if broke and not (node.optional and items) else "completed"
        ends.update({f"s{number}[{item}]": "failed" if broke else "completed" for item in items})
        if broke and not node.optional:
            blocked.add(number)
    return ends


def spec(number: int, node: Node) -> dict[str, Any]:
    each = {} if node.items is None else {"for_each": f"{{{{ inputs.lists[{node.items}] }}}}"}
    return {
        "id": f"s{number}",
        "after": [f"s{before}" for before in node.after],
        "action": "fail" if node.fails else "note",
        "optional": node.optional,
        "condition": "{{ inputs.never }}" if node.skipped else "",
        **each,
    }


def fail(run: Run) -> Result:
    raise StepFailedError("as told")


def before_each(nodes: list[Node], job: Job) -> bool:
    """Every step began after those that it follows had ended, by the numbers of the events."""
    told = WorkflowEvent.objects.filter(job=job, type__in=("step.queued", "step.completed", "step.failed"))
    at = {(event.correlation["step"], event.type): event.pk for event in told}
    ended = {key: pk for (key, kind), pk in at.items() if kind != "step.queued"}
    return all(
        ended[f"s{before}"] < at[f"s{number}", "step.queued"]
        for number, node in enumerate(nodes)
        if (f"s{number}", "step.queued") in at
        for before in node.after
    )


@given(nodes=graphs())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_graph_ends_as_it_reads(bench: Bench, nodes: list[Node]) -> None:
    with transaction.atomic(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks_app.jobs.recipes._recipes", {})
        patch.setattr("tasks_app.jobs.actions._actions", {})
        fresh = Bench()
        fresh.action("fail", fail)
        fresh.recipe(*(spec(number, node) for number, node in enumerate(nodes)))
        job = fresh.start(inputs={"never": False, "lists": [[], [0], [0, 1], [0, 1, 2]]})
        while drain():
            pass
        job.refresh_from_db()
        ends = expected(nodes)
        assert statuses(job) == ends
        lost = any(ends[f"s{n}"] == "failed" and not node.optional for n, node in enumerate(nodes))
        assert job.status == ("FAILED" if lost else "COMPLETED")
        assert len(fresh.ran) == len(set(fresh.ran)), "a step ran twice"
        assert before_each(nodes, job)
        ended = AuditEntry.objects.filter(
            entity_type="step", to_status__in=("completed", "failed", "cancelled")
        )
        assert ended.filter(entity_id__in=job.steps.values("pk")).count() == len(ends)
        assert verify_entity("job", job.pk).ok
        assert as_told(job) == as_rows(job)
        transaction.set_rollback(True)
