"""Reconciliation runs, and what they found: until it is resolved, or a person has it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from tasks_app.desk import text
from tasks_app.ids import new_id
from tasks_app.operations.comparison import Verdict
from tasks_app.people.models import Team, User
from tasks_app.sellers.models import Account, Seller


class ReconciliationRun(models.Model):
    """One comparison with the sellers: asked for, run by whoever is free, its report kept."""

    class State(models.TextChoices):
        ASKED = "asked"  # waits for a worker
        RUNNING = "running"  # sellers are being asked
        ENDED = "ended"  # `report` says what was found, or `error` why nothing was
        LOST = "lost"  # its worker was killed; the next run takes its place

    class Trigger(models.TextChoices):
        START = "start"  # the worker cluster started
        SCHEDULE = "schedule"
        HAND = "hand"
        ORPHAN = "orphan"  # an observed orphan has ended with a media buy

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    state = models.CharField(max_length=8, choices=State.choices, default=State.ASKED)
    trigger = models.CharField(max_length=8, choices=Trigger.choices)
    asked_by = models.CharField(max_length=80)
    asked_at = models.DateTimeField(default=timezone.now)
    woken_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    # None: every active seller.
    only = models.ForeignKey(Seller, null=True, on_delete=models.PROTECT, related_name="+")
    differ = models.PositiveIntegerField(default=0)
    counts = models.JSONField(default=dict)  # verdict to number
    report = models.JSONField(default=list)  # per seller: unread, notes, findings that are not in step
    error = models.TextField(blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["state"], condition=Q(state="running"), name="one_reconciliation_runs"
            ),
            models.UniqueConstraint(
                fields=["state"], condition=Q(state="asked"), name="one_reconciliation_waits"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_trigger_display()}, {text.moment_kept(self.asked_at)}"


class ReconciliationFinding(models.Model):
    """One task or media buy that the two sides tell differently, for as long as they do.

    Found again it is the same row. `resolution` says how it ended; while that is empty somebody has it:
    whoever took it, an open approval about its subject, or all who may steer operations.
    """

    class Resolution(models.TextChoices):
        OBSERVED = "observed"  # an operation of ours follows it now
        POLLED = "polled"  # asked for its result at once
        MIRRORED = "mirrored"  # the deal went where the seller's word leads
        ADOPTED = "adopted"  # a deal of ours now
        ASKED = "asked"  # people are asked what to do with the media buy
        SEEN = "seen"  # a person says it may stay so
        GONE = "gone"  # a later run did not find it any more

    advertiser_path = "account__advertiser"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    seller = models.ForeignKey(Seller, on_delete=models.PROTECT, related_name="findings")
    kind = models.CharField(max_length=10)  # task, media_buy
    verdict = models.CharField(max_length=16, choices=[(v.value, v.value) for v in Verdict])
    theirs = models.CharField(max_length=255)
    digest = models.CharField(max_length=64)  # SHA-256 (hex) of the seller's whole id
    here = models.CharField(max_length=20, blank=True)
    status_there = models.CharField(max_length=80, blank=True)
    status_here = models.CharField(max_length=32, blank=True)
    note = models.TextField(blank=True)
    subject_type = models.CharField(max_length=32, blank=True)
    subject_id = models.UUIDField(null=True)
    # Whose it is, where that is certain; else those who steer operations see it.
    team = models.ForeignKey(Team, null=True, on_delete=models.PROTECT)
    account = models.ForeignKey(Account, null=True, on_delete=models.PROTECT)
    told = models.JSONField(null=True)  # the seller's record
    first_seen_at = models.DateTimeField(default=timezone.now)
    last_seen_at = models.DateTimeField(default=timezone.now)
    run = models.ForeignKey(ReconciliationRun, null=True, on_delete=models.SET_NULL, related_name="findings")
    holder = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    resolution = models.CharField(max_length=8, choices=Resolution.choices, blank=True)
    resolved_at = models.DateTimeField(null=True)
    resolved_by = models.CharField(max_length=80, blank=True)
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["seller", "kind", "digest", "verdict"],
                condition=Q(resolved_at__isnull=True),
                name="finding_open_once",
            )
        ]
        indexes = [
            models.Index(fields=["seller", "kind", "digest"], name="finding_by_id"),
            models.Index(fields=["resolved_at"], name="finding_by_end"),
        ]

    def __str__(self) -> str:
        return f"{self.verdict}: {self.theirs}"

    @property
    def is_open(self) -> bool:
        return self.resolved_at is None

    @property
    def differs(self) -> bool:
        """Whether it is a difference at all: a media buy made without us is none."""
        return self.verdict != Verdict.EXTERNAL
