"""What people are told, and who has read it."""

from __future__ import annotations

from django.db import models
from django.utils import timezone
from encrypted_fields.fields import EncryptedCharField

from tasks_app.ids import new_id
from tasks_app.people.models import Advertiser, Team, User


class Notification(models.Model):
    """One thing that people are told. A team's is for its members, with a `right` for those who hold it;
    without a team it is for all who hold `right` (operators). With a `person` it is for them alone, where it
    has a team as long as they belong to that. `roles` narrows the first two to who has one of them. Never for
    `not_for`, an actor, or one of `nor_for`. `subject_type` and `subject_id` name what it is about, in
    any storey."""

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
    campaign_id = models.UUIDField(null=True)  # of the subject; notifications are bundled by it
    team = models.ForeignKey(Team, null=True, on_delete=models.PROTECT)
    advertiser = models.ForeignKey(
        Advertiser, null=True, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    right = models.CharField(max_length=80, blank=True)
    roles = models.JSONField(default=list)
    person = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="+")
    not_for = models.CharField(max_length=80, blank=True)  # the key of who caused it, or may not answer
    nor_for = models.JSONField(default=list)  # keys of others who may not: who set off what is asked about
    # Told once: a second one with the same key is not made.
    key = models.CharField(max_length=200, unique=True, null=True)  # noqa: DJ001 (most have none)
    readers = models.ManyToManyField(User, through="NotificationRead", related_name="+")

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["team", "-id"], name="notification_by_team"),
            models.Index(fields=["subject_type", "subject_id"], name="notification_by_subject"),
            models.Index(
                fields=["campaign_id", "-id"],
                name="notification_by_campaign",
                condition=models.Q(campaign_id__isnull=False),
            ),
            models.Index(
                fields=["right", "-id"],
                name="notification_by_right",
                condition=models.Q(team__isnull=True),
            ),
            models.Index(
                fields=["person", "-id"],
                name="notification_by_person",
                condition=models.Q(person__isnull=False),
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


class TeamWebhook(models.Model):
    """Where a team's notifications are posted besides, as {"text": …}. The URL is a secret: it is all that a
    chat asks of a sender."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    team = models.OneToOneField(Team, on_delete=models.PROTECT, related_name="webhook")
    url = EncryptedCharField(max_length=1000, editable=False)
    host = models.CharField(max_length=253, editable=False)  # of the URL: what may be shown of it
    level = models.CharField(
        "from level", max_length=8, choices=Notification.Level.choices, default=Notification.Level.INFO
    )
    active = models.BooleanField(default=True)
    allow_private = models.BooleanField(default=False, help_text="May live on a private address.")
    changed_by = models.CharField(max_length=80, editable=False)
    changed_at = models.DateTimeField(default=timezone.now, editable=False)
    sent_at = models.DateTimeField(null=True, editable=False)
    failed_at = models.DateTimeField(null=True, editable=False)  # null: the latest was taken
    failure = models.CharField(max_length=200, blank=True, editable=False)
    again_at = models.DateTimeField(null=True, editable=False)  # nothing is posted before

    class Meta:
        ordering = ["team__name"]
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.team}: {self.host}"


class TeamWebhookSent(models.Model):
    """That a notification was posted: an event delivered twice posts nothing twice."""

    notification = models.OneToOneField(Notification, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.notification_id)
