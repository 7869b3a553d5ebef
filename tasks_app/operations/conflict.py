"""A contradiction of a seller's, kept whole until a person has resolved it."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from tasks_app.ids import new_id
from tasks_app.operations.models import Operation
from tasks_app.people.models import Team


class Conflict(models.Model):
    """Two things a seller said of one operation that cannot both hold. The first stands until people decide.

    `first` and `second` each hold {channel, at, status, task_id, value, body}: `value` is the task's own
    result or error, `body` what was received, whole. `digest` names what came second, so that the same
    contradiction is opened once however often it is repeated (AdCP L3/async-identity-and-convergence). Of one
    operation and kind one is open at a time. One whose second answer names something that people are asked
    about by itself is resolved at once, by the system.
    """

    advertiser_path = "operation__advertiser"

    class Kind(models.TextChoices):
        TERMINAL = "terminal", "Two different ends"
        TASK = "task", "Another task_id"
        KEY = "key", "A delivery key used twice"
        UNSENT = "unsent", "News of what was never sent"

    class Resolution(models.TextChoices):
        KEPT = "kept", "What was first is kept"
        TAKEN = "taken", "What came second is taken"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    reference = models.CharField(max_length=20, unique=True, editable=False)
    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, related_name="conflicts")
    team = models.ForeignKey(Team, null=True, on_delete=models.PROTECT)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    digest = models.CharField(max_length=64)
    note = models.TextField(blank=True)
    first = models.JSONField()
    second = models.JSONField()
    at = models.DateTimeField(default=timezone.now)
    resolution = models.CharField(max_length=8, blank=True, choices=Resolution.choices)
    resolved_by = models.CharField(max_length=80, blank=True)
    resolved_at = models.DateTimeField(null=True)
    reason = models.TextField(blank=True)
    # Further contradictions of this kind that came while it was open: counted, kept as observations.
    more = models.PositiveIntegerField(default=0)
    # Somebody wrote to the seller about it; it stays open.
    asked_by = models.CharField(max_length=80, blank=True)
    asked_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["operation", "kind", "digest"], name="conflict_once"),
            models.UniqueConstraint(
                fields=["operation", "kind"],
                condition=models.Q(resolved_at__isnull=True),
                name="one_open_conflict_per_kind",
            ),
        ]
        indexes = [
            models.Index(fields=["team"], name="conflict_open", condition=models.Q(resolved_at__isnull=True))
        ]

    def __str__(self) -> str:
        return self.reference
