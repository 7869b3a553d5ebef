"""Approval policies and exchange rates: rows that are added and never changed."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models import Q
from django.utils import timezone

from tasks_app.approvals.models import Approval
from tasks_app.ids import new_id
from tasks_app.people.models import Advertiser, Team


class PolicyRule(models.TextChoices):
    """What a policy catches."""

    ALWAYS = "always", "Every one of these questions"
    AMOUNT = "amount", "An amount at or over a limit"
    FIRST_ORDER = "first_order", "The first order with a seller"
    SENSITIVE = "sensitive", "A sensitive category"
    MANUAL = "manual", "Manual inventory"
    CHANGE = "change", "A change of an approved amount"
    SPLITTING = "splitting", "An order split to stay under a limit"


class OnExpiry(models.TextChoices):
    """What becomes of a question that nobody has decided in time. Nothing here approves."""

    UNSAID = "", "Leave it to the other policies"
    EXPIRE = "expire", "It ends without approval"
    WAIT = "wait", "It keeps waiting, and is escalated"


class ApprovalPolicy(models.Model):
    """One version of a policy, append-only: the latest of a key holds, an edit is a new row.

    Approvals keep key and version of what caught them. `changes` is what this version changed, column to
    [before, after]; `actor`, `at` and `reason` say who changed it, when and why.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    key = models.SlugField(max_length=60)
    version = models.PositiveIntegerField(default=1)
    name = models.CharField(max_length=80)
    active = models.BooleanField(default=True)
    # Whose questions: empty is everybody's.
    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    advertiser = models.ForeignKey(
        Advertiser, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    kinds = models.JSONField(default=list)  # names of kinds of approvals

    rule = models.CharField(max_length=12, choices=PolicyRule.choices)
    limit = models.DecimalField(max_digits=18, decimal_places=4, null=True, blank=True)
    currency = models.CharField(max_length=3, blank=True)
    percent = models.DecimalField(max_digits=7, decimal_places=2, null=True, blank=True)
    categories = models.JSONField(default=list, blank=True)
    gap_days = models.PositiveSmallIntegerField(default=1)

    roles = models.JSONField(default=list, blank=True)  # empty: all who hold the right
    quorum = models.PositiveSmallIntegerField(default=1)
    deadline = models.DurationField(null=True, blank=True)
    business_hours = models.BooleanField(default=False)
    escalate_after = models.DurationField(null=True, blank=True)
    escalate_to = models.CharField(max_length=80, blank=True)
    on_expiry = models.CharField(max_length=6, choices=OnExpiry.choices, default="", blank=True)

    actor = models.CharField(max_length=80, editable=False)
    at = models.DateTimeField(default=timezone.now, editable=False)
    reason = models.CharField(max_length=500)
    request = models.CharField(max_length=64, blank=True, editable=False)
    changes = models.JSONField(default=dict, editable=False)

    class Meta:
        ordering = ["name", "key", "-version"]
        verbose_name_plural = "approval policies"
        default_permissions = ("view",)
        permissions = [("manage_policies", "May change approval policies and exchange rates")]
        constraints = [
            models.UniqueConstraint(fields=["key", "version"], name="policy_version_once"),
            models.CheckConstraint(condition=Q(quorum__gte=1), name="policy_quorum"),
            models.CheckConstraint(
                condition=Q(deadline__isnull=True) | Q(deadline__gt=timedelta()), name="policy_deadline"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}, version {self.version}"


class ExchangeRate(models.Model):
    """What one unit of a currency is worth in USD from a day on. Append-only: a day's latest row holds."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    currency = models.CharField(max_length=3)
    day = models.DateField()
    usd = models.DecimalField("one unit in USD", max_digits=18, decimal_places=10)
    source = models.CharField(max_length=120)
    actor = models.CharField(max_length=80, editable=False)
    at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["-day", "currency", "-id"]
        default_permissions = ("view",)
        indexes = [models.Index(fields=["currency", "-day", "-id"], name="rate_latest")]

    def __str__(self) -> str:
        return f"{self.currency} {self.day}"


class ApprovalEscalation(models.Model):
    """That an open question was put to further roles, or given more time. Append-only."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    approval = models.ForeignKey(Approval, on_delete=models.PROTECT, related_name="escalations")
    at = models.DateTimeField()
    roles = models.JSONField(default=list)  # who may decide besides, from now on
    due_before = models.DateTimeField()
    due_at = models.DateTimeField()
    note = models.TextField()

    class Meta:
        ordering = ["id"]
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.approval_id}: {self.note}"
