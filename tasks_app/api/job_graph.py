"""How a job's graph looks in the API (document 001, sections 6.3.2 and 6.3.4)."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from tasks_app.api.serializers import JobRefSerializer
from tasks_app.jobs.critical import CriticalPath
from tasks_app.jobs.graph import GraphNode, JobGraph
from tasks_app.jobs.models import StepStatus
from tasks_app.jobs.progress import WORKFLOW_STATUSES
from tasks_app.jobs.waits import WAIT_TYPES
from tasks_app.operations.models import OperationStatus


class WaitSerializer(serializers.Serializer[Any]):
    """`type` says what is awaited; `ids`: of the operation, approvals or job; `name`: of the event; `count`:
    of items; `until`: when it is overdue or wakes by itself; `come`: a worker takes the step next."""

    type = serializers.ChoiceField(choices=WAIT_TYPES)
    ids = serializers.ListField(child=serializers.UUIDField())
    name = serializers.CharField()
    count = serializers.IntegerField(allow_null=True)
    since = serializers.DateTimeField()
    until = serializers.DateTimeField(allow_null=True)
    come = serializers.BooleanField()
    words = serializers.CharField()


class ItemsSerializer(serializers.Serializer[Any]):
    """What a step fanned out to; `folded`: its items are not among the nodes, see the job's steps."""

    total = serializers.IntegerField()
    by_status = serializers.DictField(child=serializers.IntegerField())
    folded = serializers.BooleanField()


class NodeSerializer(serializers.Serializer[GraphNode]):
    """One step: at try `attempt` of `max_attempts`; `duration_s` from its first start to its end, in seconds;
    `fan_out` and `item_index` place an item, `child_job` is a nested job; `too_large`: inputs or outputs of
    more than 100 kB are left out; `skip_reason`: why a person skipped it."""

    id = serializers.UUIDField()
    key = serializers.CharField()
    title = serializers.CharField()
    status = serializers.ChoiceField(choices=StepStatus.choices)
    status_since = serializers.DateTimeField()
    lane = serializers.CharField()
    priority = serializers.IntegerField()
    optional = serializers.BooleanField()
    attempt = serializers.IntegerField()
    max_attempts = serializers.IntegerField()
    failures = serializers.IntegerField()
    max_failures = serializers.IntegerField()
    last_error = serializers.CharField()
    next_retry = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    duration_s = serializers.SerializerMethodField()
    waiting_for = WaitSerializer(allow_null=True)
    skipped = serializers.BooleanField()
    skip_reason = serializers.CharField()
    critical = serializers.BooleanField()
    inputs = serializers.JSONField(allow_null=True)
    outputs = serializers.JSONField(allow_null=True)
    too_large = serializers.BooleanField()
    fan_out = serializers.UUIDField(allow_null=True)
    item_index = serializers.IntegerField(allow_null=True)
    items = ItemsSerializer(allow_null=True)
    child_job = JobRefSerializer(allow_null=True)

    @extend_schema_field(serializers.FloatField(allow_null=True))
    def get_duration_s(self, node: GraphNode) -> float | None:
        return node.duration.total_seconds() if node.duration is not None else None


class EdgeSerializer(serializers.Serializer[Any]):
    """From node `source` to node `target`: `after`, it begins when the other has ended; `item`, it is one of
    the items that the other fanned out to."""

    source = serializers.UUIDField()  # type: ignore[assignment]  # an edge has one too
    target = serializers.UUIDField()
    type = serializers.ChoiceField(choices=["after", "item"])


class CriticalPathSerializer(serializers.Serializer[CriticalPath]):
    """The chain of steps that decides when the job ends: `measured_s` of its finished part, `expected_s` of
    the open part by sellers' latest answers, `unknown` open steps that nobody can estimate."""

    steps = serializers.ListField(child=serializers.UUIDField())
    measured_s = serializers.SerializerMethodField()
    expected_s = serializers.SerializerMethodField()
    unknown = serializers.IntegerField()

    @extend_schema_field(serializers.FloatField())
    def get_measured_s(self, path: CriticalPath) -> float:
        return path.measured.total_seconds()

    @extend_schema_field(serializers.FloatField())
    def get_expected_s(self, path: CriticalPath) -> float:
        return path.expected.total_seconds()


class AwaitedOperationSerializer(serializers.Serializer[Any]):
    """An operation that the step `step` waits, or waited, for; `task_id` is the seller's name for it."""

    id = serializers.UUIDField()
    reference = serializers.CharField()
    task_type = serializers.CharField()
    seller = serializers.CharField()
    status = serializers.ChoiceField(choices=OperationStatus.choices)
    task_id = serializers.CharField()
    step = serializers.CharField()
    since = serializers.DateTimeField(allow_null=True)
    deadline_at = serializers.DateTimeField(allow_null=True)
    settled_at = serializers.DateTimeField(allow_null=True)


class GraphSerializer(serializers.Serializer[JobGraph]):
    """A job's steps and what waits for what. `counts`: all steps by status; `workflow_status`: null once the
    job has ended; `resume_token`: changes whenever something falls asleep, is woken or resumed; `next_after`:
    the `after` of the next page of a very large recipe's nodes."""

    job = JobRefSerializer()
    workflow_status = serializers.ChoiceField(choices=WORKFLOW_STATUSES, allow_null=True)
    resume_token = serializers.CharField()
    counts = serializers.DictField(child=serializers.IntegerField())
    nodes = NodeSerializer(many=True)
    edges = EdgeSerializer(many=True)
    next_after = serializers.UUIDField(allow_null=True)
    pending_operations = AwaitedOperationSerializer(many=True)
    completed_operations = AwaitedOperationSerializer(many=True)
    critical_path = CriticalPathSerializer()


class GraphAskedSerializer(serializers.Serializer[Any]):
    """`after`: the page of nodes behind that one; `values`: with inputs and outputs (true unless told)."""

    after = serializers.UUIDField(required=False)
    values = serializers.BooleanField(required=False, default=True)


class StepsAskedSerializer(serializers.Serializer[Any]):
    """`fan_out`: the items of that step alone; `status`: those in it; `values`: with inputs and outputs (true
    unless told)."""

    fan_out = serializers.UUIDField(required=False)
    status = serializers.ChoiceField(choices=StepStatus.choices, required=False)
    values = serializers.BooleanField(required=False, default=True)
