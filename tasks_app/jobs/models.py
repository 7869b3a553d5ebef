"""A recipe's run as rows: job, steps, edges, events. Nothing is held in worker memory (document 001)."""

from __future__ import annotations

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils import timezone
from django_fsm import transition

from tasks_app.lifecycle.models import Stateful
from tasks_app.lifecycle.status_field import StatusField
from tasks_app.people.models import Advertiser, Team
from tasks_app.people.roles import STEER_JOB


class JobStatus(models.TextChoices):
    """Document 001, section 6.1."""

    PENDING = "PENDING"
    QUEUED = "QUEUED"
    DISPATCHING = "DISPATCHING"
    PROCESSING = "PROCESSING"
    PREVIEW = "PREVIEW"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"
    DELETED = "DELETED"


class StepStatus(models.TextChoices):
    """Document 003, "State Contract"."""

    RECEIVED = "received"  # waits for its predecessors
    QUEUED = "queued"
    EXECUTING = "executing"
    AWAITING_TOOL = "awaiting_tool"  # an operation, a nested job or a back-off
    AWAITING_USER = "awaiting_user_confirmation"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Lane(models.TextChoices):
    """Which workers take a step: document 001, section 6.3.4."""

    RECIPES = "recipes"
    BACKGROUND = "background"  # what nobody waits for


J, S = JobStatus, StepStatus
JOB_ENDED = (J.COMPLETED, J.FAILED, J.CANCELLED, J.EXPIRED, J.DELETED)
JOB_OPEN = (J.PENDING, J.QUEUED, J.DISPATCHING, J.PROCESSING, J.PREVIEW)
STEP_ENDED = (S.COMPLETED, S.FAILED, S.CANCELLED)
WAITING = (S.AWAITING_TOOL, S.AWAITING_USER)


class Job(Stateful):
    """One run of one recipe, pinned to the recipe's version and text."""

    entity = "job"
    # What steers many jobs of several advertisers reports on all of them: of limited members only who asked
    # for it sees it.
    unowned_is_requesters = frozenset({"bulk"})

    reference = models.CharField(max_length=20, unique=True, editable=False)
    status = StatusField(default=J.PENDING, choices=J.choices, protected=True, editable=False)
    recipe = models.CharField(max_length=60)
    recipe_version = models.PositiveIntegerField()
    recipe_digest = models.CharField(max_length=64)
    plan = models.JSONField()
    inputs = models.JSONField(default=dict)
    outputs = models.JSONField(null=True)
    error = models.TextField(blank=True)
    team = models.ForeignKey(Team, on_delete=models.PROTECT)
    advertiser = models.ForeignKey(
        Advertiser, null=True, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    requested_by = models.CharField(max_length=80)
    request_id = models.CharField(max_length=64, blank=True)  # the request (or task) that began it all
    subject_type = models.CharField(max_length=32, blank=True)
    subject_id = models.UUIDField(null=True)
    priority = models.PositiveSmallIntegerField(default=100)
    parent_step = models.OneToOneField("Step", null=True, on_delete=models.PROTECT, related_name="child_job")
    # The failed job whose completed steps' outputs this one took over.
    retry_of = models.OneToOneField("self", null=True, on_delete=models.PROTECT, related_name="retried_by")
    # Looked at then: what it waited for people and sellers meanwhile is not counted (`expiry`).
    expires_at = models.DateTimeField(null=True)
    # Steps of the graph itself (not items) that are queued, executing or awaiting: none left, and it is over.
    active_steps = models.PositiveIntegerField(default=0, editable=False)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        permissions = [("steer_job", "May cancel, retry and hide jobs")]
        indexes = [
            models.Index(fields=["subject_type", "subject_id"], name="job_by_subject"),
            models.Index(fields=["advertiser", "-id"], name="job_by_advertiser"),
            models.Index(
                fields=["expires_at"],
                name="job_to_expire",
                condition=models.Q(ended_at__isnull=True, expires_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.reference

    @transition(field=status, source=J.PENDING, target=J.QUEUED)
    def queue(self) -> None:
        """Accepted."""

    @transition(field=status, source=J.QUEUED, target=J.DISPATCHING)
    def dispatch(self) -> None:
        """A worker took its first step."""

    @transition(field=status, source=[J.DISPATCHING, J.PREVIEW], target=J.PROCESSING)
    def process(self) -> None:
        """At least one step is executing."""

    @transition(field=status, source=J.PROCESSING, target=J.PREVIEW)
    def preview(self) -> None:
        """Partial results are there."""

    @transition(field=status, source=[J.DISPATCHING, J.PROCESSING, J.PREVIEW], target=J.COMPLETED)
    def complete(self) -> None:
        """All steps finished."""

    @transition(field=status, source=list(JOB_OPEN), target=J.FAILED)
    def fail(self) -> None:
        """A step failed for good."""

    @transition(field=status, source=list(JOB_OPEN), target=J.CANCELLED, permission=STEER_JOB)
    def cancel(self) -> None:
        """Marked for cancellation."""

    @transition(field=status, source=list(JOB_OPEN), target=J.EXPIRED)
    def expire(self) -> None:
        """Its time ran out."""

    @transition(
        field=status,
        source=[J.COMPLETED, J.FAILED, J.CANCELLED, J.EXPIRED],
        target=J.DELETED,
        permission=STEER_JOB,
    )
    def delete_from_view(self) -> None:
        """Hidden; the trail stays."""


class Step(Stateful):
    """One node of the graph. `incoming` counts the predecessors still to finish; while a fanned-out step
    sleeps, its items still to end.

    `ready_at` says from when a worker may take it: set when it is queued, when what it waited for has
    come, and when a back-off ends; empty while it only waits.
    """

    entity = "step"

    status = StatusField(default=S.RECEIVED, choices=S.choices, protected=True, editable=False)
    # No index of its own: those of the constraint, and of items, begin with it. Every one costs each move.
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="steps", db_index=False)
    key = models.CharField(max_length=80)
    spec = models.JSONField()
    lane = models.CharField(max_length=20, default=Lane.RECIPES, choices=Lane.choices)
    # The for_each step this one is an item of, and its place there.
    fan_out = models.ForeignKey(
        "self", null=True, on_delete=models.PROTECT, related_name="items", db_index=False
    )
    item_index = models.PositiveIntegerField(null=True)
    item = models.JSONField(null=True)
    # The step of the first job in a chain of retries: what it asked sellers for is this one's too.
    lineage = models.UUIDField(null=True)
    # Done anew: what came of those before it in the chain is not taken over (`adoption`).
    anew = models.BooleanField(default=False, db_default=False)
    incoming = models.PositiveIntegerField(default=0)
    priority = models.PositiveSmallIntegerField(default=100)
    ready_at = models.DateTimeField(null=True)
    attempts = models.PositiveIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    skipped = models.BooleanField(default=False)
    waiting_for = models.JSONField(null=True)
    outputs = models.JSONField(null=True)
    error = models.TextField(blank=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["job", "key"], name="step_key_once_per_job")]
        indexes = [
            models.Index(
                fields=["lane", "priority", "ready_at", "id"],
                name="step_ready",
                condition=models.Q(ready_at__isnull=False),
            ),
            models.Index(
                fields=["fan_out", "item_index"],
                name="step_items",
                condition=models.Q(fan_out__isnull=False),
            ),
            models.Index(fields=["lease_until"], name="step_leased", condition=models.Q(status="executing")),
            models.Index(fields=["lineage"], name="step_chain", condition=models.Q(lineage__isnull=False)),
            GinIndex(
                fields=["waiting_for"],
                opclasses=["jsonb_path_ops"],
                name="step_waiting",
                condition=models.Q(waiting_for__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.key

    @transition(field=status, source=S.RECEIVED, target=S.QUEUED)
    def queue(self) -> None:
        """All predecessors finished."""

    # People take these two only together, skipping a step (`steering`).
    @transition(
        field=status,
        source=[S.QUEUED, S.AWAITING_TOOL, S.AWAITING_USER],
        target=S.EXECUTING,
        permission=STEER_JOB,
    )
    def execute(self) -> None:
        """A worker took it; the attempt is committed before the work."""

    @transition(field=status, source=S.EXECUTING, target=S.AWAITING_TOOL)
    def await_tool(self) -> None:
        """An operation or nested job is out, or a back-off runs."""

    @transition(field=status, source=S.EXECUTING, target=S.AWAITING_USER)
    def await_user(self) -> None:
        """An approval is open."""

    @transition(field=status, source=S.EXECUTING, target=S.COMPLETED, permission=STEER_JOB)
    def complete(self) -> None:
        """Done."""

    @transition(
        field=status,
        source=[S.RECEIVED, S.QUEUED, S.EXECUTING, S.AWAITING_TOOL, S.AWAITING_USER],
        target=S.FAILED,
    )
    def fail(self) -> None:
        """Beyond its budget."""

    @transition(
        field=status,
        source=[S.RECEIVED, S.QUEUED, S.EXECUTING, S.AWAITING_TOOL, S.AWAITING_USER],
        target=S.CANCELLED,
    )
    def cancel(self) -> None:
        """Not needed any more."""


class Edge(models.Model):
    """`before` finishes before `after` begins."""

    before = models.ForeignKey(Step, on_delete=models.PROTECT, related_name="edges_out")
    after = models.ForeignKey(Step, on_delete=models.PROTECT, related_name="edges_in")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["before", "after"], name="edge_once")]

    def __str__(self) -> str:
        return f"{self.before} → {self.after}"


class WorkflowEvent(models.Model):
    """What happened to the graph, in order: type, where it came from, and what it carried."""

    id = models.BigAutoField(primary_key=True)
    # PostgreSQL refuses to delete a job: checking the key would only lock the job's row for each event.
    job = models.ForeignKey(
        Job, on_delete=models.PROTECT, related_name="events", db_index=False, db_constraint=False
    )
    type = models.CharField(max_length=40)
    source = models.CharField(max_length=80)
    payload = models.JSONField(default=dict)
    correlation = models.JSONField(default=dict)
    idempotency_key = models.CharField(max_length=160)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["idempotency_key"], name="event_told_once")]
        indexes = [models.Index(fields=["job", "id"], name="event_by_job")]

    def __str__(self) -> str:
        return self.type
