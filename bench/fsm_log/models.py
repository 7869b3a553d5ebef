"""A deal as django-fsm-2 and django-fsm-log document it: optimistic locking, who and why in the log."""

from __future__ import annotations

from django.db import models
from django_fsm import ConcurrentTransitionMixin, FSMField, transition
from django_fsm_log.decorators import fsm_log_by, fsm_log_description


class Deal(ConcurrentTransitionMixin, models.Model):
    """The row that moves."""

    # The log's object_id is an integer, so the key is one too.
    id = models.BigAutoField(primary_key=True)
    status = FSMField(default="quoted", protected=True)
    version = models.PositiveIntegerField(default=1)
    status_since = models.DateTimeField()

    class Meta:
        app_label = "fsm_log"

    def __str__(self) -> str:
        return f"{self.pk}: {self.status}"

    @fsm_log_by
    @fsm_log_description
    @transition(field=status, source="quoted", target="negotiating")
    def negotiate(self, by: object = None, description: str = "") -> None:
        """Move to negotiating."""

    @fsm_log_by
    @fsm_log_description
    @transition(field=status, source="negotiating", target="quoted")
    def requote(self, by: object = None, description: str = "") -> None:
        """Move back to quoted."""
