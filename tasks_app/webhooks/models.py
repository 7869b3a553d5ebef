"""Every webhook delivery that reached us, refused ones too."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from tasks_app.ids import new_id
from tasks_app.sellers.models import Seller


class WebhookDelivery(models.Model):
    """One POST: who sent it, how it was verified, what became of it.

    `key` is the delivery's idempotency key bound to the seller; `fingerprint` the SHA-256 of the
    body. A delivery that comes before the reply it belongs to waits here as `early`.
    """

    class Verdict(models.TextChoices):
        APPLIED = "applied"
        DUPLICATE = "duplicate"
        EARLY = "early"  # its task is not known (yet): kept, applied when a reply binds it
        CONFLICT = "conflict"  # contradicts the settled result, or the bound task
        KEY_CONFLICT = "key_conflict"  # the same delivery key with another body
        REFUSED = "refused"  # bad signature, body or credentials: changes nothing

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    seller = models.ForeignKey(Seller, null=True, on_delete=models.PROTECT, related_name="deliveries")
    at = models.DateTimeField(default=timezone.now)
    key = models.CharField(max_length=255, blank=True)
    fingerprint = models.CharField(max_length=64)
    verdict = models.CharField(max_length=14, choices=Verdict.choices)
    reason = models.CharField(max_length=200, blank=True)
    task_id = models.CharField(max_length=255, blank=True)
    operation_ref = models.CharField(max_length=255, blank=True)
    status = models.CharField(max_length=20, blank=True)
    key_id = models.CharField(max_length=120, blank=True)
    body = models.JSONField(null=True)

    class Meta:
        verbose_name_plural = "webhook deliveries"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["seller", "key"],
                condition=models.Q(verdict__in=["applied", "early", "conflict"]) & ~models.Q(key=""),
                name="delivery_key_once",
            )
        ]
        indexes = [
            models.Index(
                fields=["seller", "task_id"],
                name="delivery_early",
                condition=models.Q(verdict="early"),
            )
        ]

    def __str__(self) -> str:
        return f"{self.seller or 'unknown seller'}: {self.verdict}"


class SeenNonce(models.Model):
    """A signature's nonce, kept while the signature could be replayed (RFC 9421 profile)."""

    seller = models.ForeignKey(Seller, on_delete=models.CASCADE)
    key_id = models.CharField(max_length=120)
    nonce = models.CharField(max_length=120)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["seller", "key_id", "nonce"], name="nonce_once")]

    def __str__(self) -> str:
        return f"{self.key_id}: {self.nonce}"
