"""Where the event bus stands: what is numbered, how far each subscriber is, what it still waits for."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from tasks_app.ids import new_id
from tasks_app.lifecycle.models import OutboxEvent


class EventStream(models.Model):
    """One row. `head` is the highest position given to an event; its lock makes numberings take turns."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    head = models.BigIntegerField(default=0)
    pruned_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"event {self.head}"


class EventSubscription(models.Model):
    """How far one subscriber is: every event up to `position` was delivered to it, or is an EventDelivery.

    `in_hand_to` is set while events up to there are being handled, and found set after a relay that was
    killed in between.
    """

    name = models.CharField(max_length=64, primary_key=True)
    position = models.BigIntegerField()
    in_hand_to = models.BigIntegerField(null=True)

    def __str__(self) -> str:
        return self.name


class EventDelivery(models.Model):
    """An event that a subscriber has yet to take: it failed there, was put off, or stands behind
    one of these.

    The first of an entity is tried at `due_at`, or has given up at `gave_up_at`; the later ones of that
    entity have neither and wait behind it. Delivered ones are deleted.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    subscriber = models.CharField(max_length=64)
    event = models.ForeignKey(OutboxEvent, on_delete=models.PROTECT, related_name="deliveries")
    position = models.BigIntegerField()
    entity_type = models.CharField(max_length=32)
    entity_id = models.UUIDField()
    attempts = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField(null=True)
    gave_up_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    retried_by = models.CharField(max_length=80, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        verbose_name_plural = "event deliveries"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["subscriber", "event"], name="delivery_once_per_subscriber"),
            models.CheckConstraint(
                condition=models.Q(due_at__isnull=True) | models.Q(gave_up_at__isnull=True),
                name="delivery_due_or_given_up",
            ),
        ]
        indexes = [
            models.Index(
                fields=["subscriber", "entity_type", "entity_id", "position"], name="delivery_by_entity"
            ),
            models.Index(
                fields=["subscriber", "due_at"],
                condition=models.Q(due_at__isnull=False),
                name="delivery_due",
            ),
            models.Index(
                fields=["-gave_up_at"],
                condition=models.Q(gave_up_at__isnull=False),
                name="delivery_gave_up",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event} to {self.subscriber}"


class EventCount(models.Model):
    """How many events of a type were ever published; counted in the commit that numbers them."""

    type = models.CharField(max_length=80, primary_key=True)
    total = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.type}: {self.total}"
