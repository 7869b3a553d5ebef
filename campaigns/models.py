"""Campaigns and how their budget is split."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.indexes import OpClass
from django.db import models
from django.db.models.functions import Upper
from django.utils import timezone
from django_fsm import transition

from campaigns.calendar.models import CalendarFeed
from tasks_app.ids import new_id
from tasks_app.lifecycle.models import Stateful
from tasks_app.lifecycle.status_field import StatusField
from tasks_app.people.models import Advertiser, Team

__all__ = ["ENDED", "Allocation", "BriefDraft", "CalendarFeed", "Campaign", "CampaignStatus"]


class CampaignStatus(models.TextChoices):
    """Document 002, "BuyerCampaignStatus"."""

    INITIALIZED = "initialized"
    BRIEF_RECEIVED = "brief_received"
    VALIDATION_FAILED = "validation_failed"
    BUDGET_ALLOCATED = "budget_allocated"
    RESEARCHING = "researching"
    AWAITING_APPROVAL = "awaiting_approval"
    EXECUTING_BOOKINGS = "executing_bookings"
    COMPLETED = "completed"
    FAILED = "failed"


S = CampaignStatus
ENDED = (S.COMPLETED, S.FAILED, S.VALIDATION_FAILED)


class Campaign(Stateful):
    """One brief on its way to booked media. `brief` is as submitted, `problems` what is wrong with it."""

    entity = "campaign"
    # One whose brief names no advertiser may be anybody's: of limited members only who sent it sees it.
    unowned_is_requesters = True

    reference = models.CharField(max_length=20, unique=True, editable=False)
    status = StatusField(default=S.INITIALIZED, choices=S.choices, protected=True, editable=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT)
    advertiser = models.ForeignKey(Advertiser, null=True, on_delete=models.PROTECT)
    name = models.CharField(max_length=200)
    requested_by = models.CharField(max_length=80)
    brief = models.JSONField()
    problems = models.JSONField(default=list)
    # Empty where the brief is too wrong to tell.
    budget = models.DecimalField(max_digits=18, decimal_places=4, null=True)
    currency = models.CharField(max_length=3, blank=True)
    start_at = models.DateTimeField(null=True)
    end_at = models.DateTimeField(null=True)
    zone = models.CharField(max_length=64, blank=True)
    outcome = models.JSONField(default=dict)  # how each deal ended, when the campaign has
    # The key under which a caller submitted it (tasks_app/ids.py), and the digest of what came.
    request_key = models.CharField(max_length=64, blank=True, default="", db_default="", editable=False)
    request_digest = models.CharField(max_length=64, blank=True, default="", db_default="", editable=False)

    class Meta:
        ordering = ["-id"]
        permissions = [("submit_campaign", "May submit a brief")]
        constraints = [
            models.UniqueConstraint(
                fields=["request_key"], condition=~models.Q(request_key=""), name="campaign_once_per_request"
            )
        ]
        indexes = [
            # Found by the beginning of its name, in either case.
            models.Index(OpClass(Upper("name"), name="text_pattern_ops"), name="campaign_by_name"),
            # Whose flight is not over, the largest budget first; and one's own that have not ended.
            models.Index(fields=["end_at"], name="campaign_flight", condition=models.Q(budget__gt=0)),
            models.Index(
                fields=["requested_by", "-id"],
                name="campaign_under_way",
                condition=~models.Q(status__in=("completed", "failed", "validation_failed")),
            ),
        ]

    def __str__(self) -> str:
        return self.reference

    @property
    def buyer(self) -> Advertiser:
        """The advertiser of a campaign whose brief was valid. Raises ValueError for another."""
        if self.advertiser is None:
            raise ValueError(f"{self.reference} has no advertiser: its brief names none that is known")
        return self.advertiser

    @property
    def booking(self) -> str:
        """Whether each deal is booked when it is approved, or all together once every one is decided."""
        said = self.brief.get("booking") if isinstance(self.brief, dict) else None
        return "together" if said == "together" else "each"

    @transition(field=status, source=S.INITIALIZED, target=S.BRIEF_RECEIVED)
    def receive_brief(self) -> None:
        """The brief is in."""

    @transition(field=status, source=S.BRIEF_RECEIVED, target=S.VALIDATION_FAILED)
    def fail_validation(self) -> None:
        """The brief is wrong; problems are named."""

    @transition(field=status, source=S.BRIEF_RECEIVED, target=S.BUDGET_ALLOCATED)
    def allocate(self) -> None:
        """The budget is split by channel."""

    @transition(field=status, source=S.BUDGET_ALLOCATED, target=S.RESEARCHING)
    def research(self) -> None:
        """Sellers are being asked."""

    @transition(field=status, source=S.RESEARCHING, target=S.AWAITING_APPROVAL)
    def await_approval(self) -> None:
        """Recommendations wait for people."""

    @transition(field=status, source=S.AWAITING_APPROVAL, target=S.EXECUTING_BOOKINGS)
    def execute_bookings(self) -> None:
        """The first of what was approved is being booked; of the rest some may be undecided."""

    @transition(field=status, source=S.EXECUTING_BOOKINGS, target=S.COMPLETED)
    def complete(self) -> None:
        """Nothing is open, at least one deal was booked."""

    @transition(
        field=status,
        source=[
            S.BRIEF_RECEIVED,
            S.BUDGET_ALLOCATED,
            S.RESEARCHING,
            S.AWAITING_APPROVAL,
            S.EXECUTING_BOOKINGS,
        ],
        target=S.FAILED,
    )
    def fail(self) -> None:
        """Nothing came of it."""

    @transition(field=status, source=[S.VALIDATION_FAILED, S.FAILED], target=S.INITIALIZED)
    def reset(self) -> None:
        """Start over."""


class Allocation(models.Model):
    """What one channel may spend."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    campaign = models.ForeignKey(Campaign, on_delete=models.PROTECT, related_name="allocations")
    channel = models.CharField(max_length=40)
    amount = models.DecimalField(max_digits=18, decimal_places=4)

    class Meta:
        ordering = ["-amount", "channel"]
        constraints = [
            models.UniqueConstraint(fields=["campaign", "channel"], name="channel_once_per_campaign"),
            models.CheckConstraint(condition=models.Q(amount__gt=0), name="allocation_positive"),
        ]

    def __str__(self) -> str:
        return self.channel


class BriefDraft(models.Model):
    """A brief that a person has not submitted yet.

    `content` holds what was typed: lists of texts by the form's field names, or `text` for a brief as YAML or
    JSON. The id becomes the campaign's, so that one draft is submitted once.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    content = models.JSONField()
    saved_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-saved_at"]
        default_permissions = ()
        indexes = [models.Index(fields=["user", "-saved_at"], name="brief_draft_by_user")]

    def __str__(self) -> str:
        unnamed = "Brief as text" if "text" in self.content else "Brief without a name"
        return (self.content.get("name") or [""])[0] or unnamed
