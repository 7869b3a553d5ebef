"""A person's address of the calendar for programs that cannot sign in."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from tasks_app.ids import new_id


class CalendarFeed(models.Model):
    """One address, known by the digest of its secret part alone; it reads the calendar and nothing else."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64, unique=True)  # SHA-256 (hex) of the secret
    made_at = models.DateTimeField(default=timezone.now)
    read_at = models.DateTimeField(null=True)  # the latest reading, to the hour
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["user"], condition=models.Q(revoked_at__isnull=True), name="one_calendar_feed_each"
            )
        ]

    def __str__(self) -> str:
        return f"calendar feed of {self.user_id}"
