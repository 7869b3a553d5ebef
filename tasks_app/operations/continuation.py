"""A pause of a seller's that can be answered: the transport's own identity of it, and what became of it."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from django.db import models
from django.utils import timezone
from encrypted_fields.fields import EncryptedTextField

from tasks_app import clock
from tasks_app.ids import new_id
from tasks_app.operations.models import Operation

NOT_KNOWN = "whether it arrived is not known"  # the note of one that has left and has no reply


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
    generation = models.PositiveIntegerField()
    kind = models.CharField(max_length=5, choices=Kind.choices)
    descriptor = EncryptedTextField(editable=False)
    asked = models.TextField(blank=True)
    at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()  # until when it may be answered; an answer leaves when it may
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

    @classmethod
    def held(cls) -> models.Exists:
        """For a query of operations: whether an answer of theirs was given and has not left yet."""
        return models.Exists(cls.given().filter(dispatched_at=None))

    @classmethod
    def held_sql(cls, operation: str) -> str:
        """The same in a statement of our own, where `operation` names the operations."""
        of_it = f"from {cls._meta.db_table} held where held.operation_id = {operation}.id"
        unset = ("dispatched_at", "consumed_at", "stale_at")
        waits = " and ".join(("held.answered_at is not null", *(f"held.{name} is null" for name in unset)))
        return f"exists (select {of_it} and {waits})"

    @classmethod
    def given(cls) -> models.QuerySet[Continuation]:
        """Within a query of operations: the answer to their question that was given, and is one still."""
        rows = cls.objects.filter(operation=models.OuterRef("pk"), answered_at__isnull=False)
        return rows.filter(consumed_at=None, stale_at=None)

    @property
    def arguments(self) -> dict[str, Any]:
        """The answer as it leaves; empty before there is one."""
        found: dict[str, Any] = json.loads(self.request_text or "{}")
        return found

    @property
    def is_usable(self) -> bool:
        """Neither answered for good, nor overtaken."""
        return self.consumed_at is None and self.stale_at is None

    @property
    def is_given(self) -> bool:
        """Whether it was answered, and that answer is one still."""
        return self.is_usable and self.answered_at is not None

    @property
    def is_answerable(self) -> bool:
        """Whether it can be answered now: nobody has, and it is not too old."""
        return self.is_usable and self.answered_at is None and self.expires_at > clock.now()


def answer_due(operation: Operation) -> datetime | None:
    """When our answer leaves that waits for its turn, whatever else is seen of what it is about; None without
    one."""
    if operation.send_at is None:
        return None
    released = Continuation.objects.filter(operation=operation, released_at__isnull=False)
    waits = released.filter(dispatched_at=None, consumed_at=None, stale_at=None).exists()
    due: datetime | None = operation.send_at if waits else None
    return due
