"""What people are told, and who has read it."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from tasks_app.ids import new_id
from tasks_app.people.models import Advertiser, Team, User


class Notification(models.Model):
    """One thing that people are told. A team's is for its members, with a `right` for those who hold it;
    without a team it is for all who hold `right` (operators). Never for `not_for`, an actor. `subject_type`
    and `subject_id` name what it is about, in any storey."""

    class Level(models.TextChoices):
        INFO = "info"
        WARNING = "warning"
        ALARM = "alarm"  # money, or somebody's good faith, is in question

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    at = models.DateTimeField(default=timezone.now, editable=False)
    level = models.CharField(max_length=8, choices=Level.choices)
    kind = models.CharField(max_length=60)
    title = models.CharField(max_length=200)
    body = models.TextField(blank=True)
    subject_type = models.CharField(max_length=32, blank=True)
    subject_id = models.UUIDField(null=True)
    team = models.ForeignKey(Team, null=True, on_delete=models.PROTECT)
    advertiser = models.ForeignKey(
        Advertiser, null=True, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    right = models.CharField(max_length=80, blank=True)
    not_for = models.CharField(max_length=80, blank=True)  # the key of who asked and may not answer
    # Told once: a second one with the same key is not made.
    key = models.CharField(max_length=200, unique=True, null=True)  # noqa: DJ001 (most have none)
    readers = models.ManyToManyField(User, through="NotificationRead", related_name="+")

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["team", "-id"], name="notification_by_team"),
            models.Index(fields=["subject_type", "subject_id"], name="notification_by_subject"),
            models.Index(
                fields=["right", "-id"],
                name="notification_by_right",
                condition=models.Q(team__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return self.title


class NotificationRead(models.Model):
    """That a person has read a notification."""

    notification = models.ForeignKey(Notification, on_delete=models.CASCADE)
    user = models.ForeignKey(User, on_delete=models.CASCADE)
    at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["notification", "user"], name="read_once")]

    def __str__(self) -> str:
        return f"{self.user_id} read {self.notification_id}"


class NotificationMail(models.Model):
    """That a person was sent a notification: an event delivered twice mails nobody twice."""

    notification = models.ForeignKey(Notification, on_delete=models.CASCADE)
    user = models.ForeignKey(User, on_delete=models.CASCADE)
    at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["notification", "user"], name="mailed_once")]

    def __str__(self) -> str:
        return f"{self.notification_id} to {self.user_id}"
