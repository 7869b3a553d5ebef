"""Rows that could not be handled: since when, how often, and when the next try is."""

from __future__ import annotations

from django.db import models

from tasks_app.ids import new_id

ENTITY = "row_trouble"  # as what a notification is about


class RowTrouble(models.Model):
    """One row of one kind of work that raised, until it is handled. A table of its own: the row itself may be
    what cannot be written."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    work = models.CharField(max_length=40)
    row = models.UUIDField()  # the row's own id, of whatever table the work reads
    times = models.PositiveIntegerField(default=1)
    error = models.CharField(max_length=500)
    first_at = models.DateTimeField()
    at = models.DateTimeField()
    again_at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["work", "row"], name="trouble_once_per_row")]

    def __str__(self) -> str:
        return f"{self.work} of {self.row}, {self.times} times: {self.error}"
