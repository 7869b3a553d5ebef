"""What a status change leaves behind, and the base of everything that has a status."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.utils import timezone

from tasks_app.ids import new_id
from tasks_app.lifecycle.declarations import Lifecycle, lifecycle


class Stateful(models.Model):
    """An entity with a declared lifecycle. A subclass names its `entity` and declares
    `status = StatusField(protected=True, …)` with one method per target state; only
    `tasks_app.lifecycle.transitions` moves it, `version` counts its audit entries."""

    entity: ClassVar[str]
    # Columns that must never appear in an audit entry.
    unaudited: ClassVar[frozenset[str]] = frozenset()
    status: str
    _refreshes_status = False

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    version = models.PositiveIntegerField(default=1, editable=False)
    status_since = models.DateTimeField(default=timezone.now, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        abstract = True

    def refresh_from_db(
        self, using: str | None = None, fields: Any = None, from_queryset: Any = None
    ) -> None:
        # A protected field refuses to be set while it holds a value. (django-fsm's own mixin lifts the
        # protection for the whole class meanwhile, in every thread.)
        taken_out = fields is None or "status" in fields
        held = self.__dict__.pop("status", None) if taken_out else None
        self._refreshes_status = held is not None
        try:
            super().refresh_from_db(using=using, fields=fields, from_queryset=from_queryset)
        finally:
            self._refreshes_status = False
            if held is not None:
                self.__dict__.setdefault("status", held)

    def get_deferred_fields(self) -> set[str]:
        # Taken out to be set is not deferred: it is read with the other columns, in one moment.
        deferred = super().get_deferred_fields()
        return deferred - {"status"} if self._refreshes_status else deferred

    @classmethod
    def declared(cls) -> Lifecycle:
        return lifecycle(cls.entity)

    @property
    def is_terminal(self) -> bool:
        return self.status in self.declared().terminal


class AuditEntry(models.Model):
    """One status change, written by the database function that made it; append-only.

    `body` holds the exact bytes that were hashed (length-prefixed fields, the previous hash among
    them), `hash` is their SHA-256. The entries of one entity form a chain of their own. The key is
    made by the database because rows are written inside its functions; nothing references it.
    """

    id = models.BigAutoField(primary_key=True)
    entity_type = models.CharField(max_length=32)
    entity_id = models.UUIDField()
    seq = models.PositiveIntegerField()
    from_status = models.CharField(max_length=32, blank=True)
    to_status = models.CharField(max_length=32)
    at = models.DateTimeField()
    actor = models.CharField(max_length=80)
    reason = models.TextField()
    metadata = models.JSONField()
    changes = models.JSONField()
    trace_id = models.CharField(max_length=64, blank=True)
    format_version = models.PositiveSmallIntegerField()
    body = models.BinaryField()
    prev_hash = models.BinaryField()
    hash = models.BinaryField()

    class Meta:
        verbose_name_plural = "audit trail"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["entity_type", "entity_id", "seq"], name="audit_once_per_version")
        ]
        indexes = [models.Index(fields=["actor", "-id"], name="audit_by_actor")]

    def __str__(self) -> str:
        return f"{self.entity_type} {self.from_status or 'new'} → {self.to_status}"


class OutboxEvent(models.Model):
    """What happened, for whoever subscribes; written in the commit of the change it tells of.

    `(entity_type, entity_id, seq)` identifies the event for readers that see it twice. `position` is given
    once it is seen committed (events/publishing.py): readers page by it, never by the id, for a lower id may
    be committed after a higher one.
    """

    id = models.BigAutoField(primary_key=True)
    type = models.CharField(max_length=80)
    entity_type = models.CharField(max_length=32)
    entity_id = models.UUIDField()
    seq = models.PositiveIntegerField()
    payload = models.JSONField()
    at = models.DateTimeField()
    position = models.BigIntegerField(null=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["entity_type", "entity_id", "seq"], name="event_once_per_version"
            ),
            models.UniqueConstraint(
                fields=["position"],
                condition=models.Q(position__isnull=False),
                name="event_once_per_position",
            ),
        ]
        indexes = [
            models.Index(fields=["id"], condition=models.Q(position__isnull=True), name="event_unnumbered")
        ]

    def __str__(self) -> str:
        return self.type


class LifecycleEdge(models.Model):
    """A declared edge, as the database reads it when it refuses every other. Written by migrations alone."""

    entity = models.CharField(max_length=32)
    from_status = models.CharField(max_length=32)
    to_status = models.CharField(max_length=32)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["entity", "from_status", "to_status"], name="edge_declared_once")
        ]

    def __str__(self) -> str:
        return f"{self.entity}: {self.from_status} → {self.to_status}"


class Import(models.Model):
    """Why entities were born outside their initial status: legacy rows, reconciliation placeholders.

    `txid` is the transaction it was recorded in, set by the database: only there may such births happen.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    source = models.TextField()
    source_digest = models.CharField(max_length=64, blank=True)
    at = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=80)
    rows = models.PositiveIntegerField(default=0)
    txid = models.BigIntegerField(default=0, editable=False, db_index=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.source


class LifecycleRule(models.Model):
    """A registered guard that somebody attached to a declared edge. Append-only."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    entity = models.CharField(max_length=32)
    from_status = models.CharField(max_length=32)
    to_status = models.CharField(max_length=32)
    guard = models.CharField(max_length=80)
    actor = models.CharField(max_length=80)
    reason = models.TextField()
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["entity", "from_status", "to_status", "guard"], name="rule_attached_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.entity}: {self.from_status} → {self.to_status} if {self.guard}"
