"""Worker clusters that run, as their pushers tell: which lanes they serve."""

from __future__ import annotations

from django.db import models

from tasks_app.ids import new_id


class WorkerCluster(models.Model):
    """One `manage.py worker`. A row is written anew every two seconds; a killed one's grows old."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    host = models.CharField(max_length=255)
    lanes = models.JSONField(default=list)  # in its order of preference
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.host}: {', '.join(self.lanes)}"
