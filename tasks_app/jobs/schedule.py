"""When recipes start by themselves, and what became of each time."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from tasks_app.ids import new_id
from tasks_app.jobs.models import Job
from tasks_app.people.models import Team


class Schedule(models.Model):
    """A recipe with its inputs, started once at a moment (`start_at`), or by `cron` in a time zone."""

    class Missed(models.TextChoices):
        """What happens to times that passed while no worker ran."""

        ONCE = "once", "Run once for all of them"
        SKIP = "skip", "Skip them"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT)
    name = models.CharField(max_length=80)
    recipe = models.CharField(max_length=60)
    inputs = models.JSONField(default=dict, blank=True)
    start_at = models.DateTimeField(null=True, blank=True)
    cron = models.CharField(max_length=120, blank=True)
    zone = models.CharField(max_length=64, default="UTC")
    missed = models.CharField(max_length=4, choices=Missed.choices, default=Missed.ONCE)
    priority = models.PositiveSmallIntegerField(default=100)
    paused = models.BooleanField(default=False)
    # In whose name jobs are started: who saved it last. They must be allowed to still when the time comes.
    actor = models.CharField(max_length=80)
    created_at = models.DateTimeField(default=timezone.now)
    next_due_at = models.DateTimeField(null=True)  # empty: nothing more is due
    last_due_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        default_permissions = ("view",)
        permissions = [("schedule_job", "May start jobs, now and by schedule")]
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="schedule_name_once_per_team"),
            models.CheckConstraint(
                condition=Q(start_at__isnull=False, cron="") | (Q(start_at__isnull=True) & ~Q(cron="")),
                name="schedule_at_a_time_or_by_cron",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_due_at"],
                name="schedule_due",
                condition=Q(paused=False, next_due_at__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return self.name


class ScheduleEntry(models.Model):
    """What happened to a schedule, and who did it. Append-only; one entry for each due time."""

    class Kind(models.TextChoices):
        CREATED = "created"
        CHANGED = "changed"
        PAUSED = "paused"
        RESUMED = "resumed"
        STARTED = "started"  # a job, for `due_at` or, without one, by a person
        SKIPPED = "skipped"  # `due_at` had passed
        FAILED = "failed"  # no job could be started; `note` says why

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    schedule = models.ForeignKey(Schedule, on_delete=models.PROTECT, related_name="entries")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    at = models.DateTimeField()
    by = models.CharField(max_length=80)
    due_at = models.DateTimeField(null=True)
    job = models.ForeignKey(Job, null=True, on_delete=models.PROTECT, related_name="+")
    note = models.TextField(blank=True)
    changes = models.JSONField(default=dict)  # column to [before, after]
    # Of a start that a caller asked for under an Idempotency-Key (tasks_app/ids.py).
    request_key = models.CharField(max_length=64, blank=True, default="", db_default="", editable=False)

    class Meta:
        ordering = ["-id"]
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["schedule", "due_at"],
                condition=Q(due_at__isnull=False),
                name="schedule_due_once",
            ),
            models.UniqueConstraint(
                fields=["schedule", "request_key"],
                condition=~Q(request_key=""),
                name="schedule_run_once_per_request",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.schedule}: {self.kind}"
