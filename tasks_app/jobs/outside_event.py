"""Events that come from outside, and the steps that wait for them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from tasks_app.ids import new_id
from tasks_app.jobs.models import Step
from tasks_app.people.models import Team


class OutsideEvent(models.Model):
    """Something that happened elsewhere: kept as it came, for one step: empty until one takes it."""

    advertiser_path = "step__job__advertiser"
    # Which advertiser it is about is known by the step that takes it: until then who is limited to some sees
    # what they delivered themselves.
    senders_until = ("step", "delivered_by")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT)
    name = models.CharField(max_length=80)
    correlation = models.CharField(max_length=200, blank=True)
    payload = models.JSONField(default=dict)
    idempotency_key = models.CharField(max_length=200)
    digest = models.CharField(max_length=64)  # SHA-256 (hex) of name, correlation and payload, RFC 8785
    delivered_by = models.CharField(max_length=80)
    received_at = models.DateTimeField(default=timezone.now)
    step = models.ForeignKey(Step, null=True, on_delete=models.PROTECT, related_name="outside_events")
    taken_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        default_permissions = ("view",)
        permissions = [("deliver_event", "May deliver outside events")]
        constraints = [
            models.UniqueConstraint(fields=["team", "idempotency_key"], name="outside_event_key_once")
        ]
        indexes = [
            models.Index(
                fields=["team", "name", "correlation", "id"],
                name="outside_event_untaken",
                condition=Q(step__isnull=True),
            ),
            models.Index(fields=["received_at"], name="outside_event_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.correlation}".strip()


class EventWait(models.Model):
    """That a step waits, or waited, for an event by name; the latest of a step is what counts."""

    class Late(models.TextChoices):
        FAIL = "fail"  # the step fails when the event has not come by `until`
        CONTINUE = "continue"  # its action runs, and sees that the event is late

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    step = models.ForeignKey(Step, on_delete=models.PROTECT, related_name="event_waits")
    team = models.ForeignKey(Team, on_delete=models.PROTECT)
    name = models.CharField(max_length=80)
    correlation = models.CharField(max_length=200, blank=True)
    until = models.DateTimeField(null=True)
    late = models.CharField(max_length=8, choices=Late.choices, default=Late.FAIL)
    event = models.ForeignKey(OutsideEvent, null=True, on_delete=models.PROTECT, related_name="+")
    closed_at = models.DateTimeField(null=True)  # nothing came: too late, or the step began to wait anew

    class Meta:
        ordering = ["id"]
        default_permissions = ()
        indexes = [
            models.Index(
                fields=["team", "name", "correlation", "id"],
                name="event_wait_open",
                condition=Q(event__isnull=True, closed_at__isnull=True),
            )
        ]

    def __str__(self) -> str:
        return f"{self.step} waits for {self.name}"
