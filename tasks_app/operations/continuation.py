"""A pause of a seller's that can be answered: the transport's own identity of it, and what became of it."""

from __future__ import annotations

from django.db import models
from django.utils import timezone
from encrypted_fields.fields import EncryptedTextField

from tasks_app.ids import new_id
from tasks_app.operations.models import Operation


class Continuation(models.Model):
    """One generation of an operation's pauses (AdCP L3/async-identity-and-convergence, "Resumability").

    Made only from a transport that proved it can be continued. Answered, released (by a second person where
    money moves), dispatched at most once, then consumed by the seller's reply; or stale, when the operation
    went on or ended without it. The descriptor is a bearer capability: encrypted, in no log, address or page.
    """

    class Kind(models.TextChoices):
        INPUT = "input", "The seller asks"
        AUTH = "auth", "Credentials are needed"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, related_name="continuations")
    generation = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=5, choices=Kind.choices)
    descriptor = EncryptedTextField(editable=False)
    asked = models.TextField(blank=True)
    at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    # The answer as it leaves, frozen like a request, and the same for people's eyes: {text, changes}.
    request_text = EncryptedTextField(null=True, editable=False)
    answer = models.JSONField(null=True)
    answered_by = models.CharField(max_length=80, blank=True)
    answered_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)
    dispatched_at = models.DateTimeField(null=True)  # the commitment boundary: never dispatched again
    deadline_at = models.DateTimeField(null=True)  # the operation's, put back when the reply comes
    consumed_at = models.DateTimeField(null=True)
    stale_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["operation", "-generation"]
        constraints = [
            models.UniqueConstraint(fields=["operation", "generation"], name="continuation_generation_once")
        ]

    def __str__(self) -> str:
        return f"pause {self.generation}"

    @property
    def is_usable(self) -> bool:
        """Neither answered for good, nor overtaken."""
        return self.consumed_at is None and self.stale_at is None
