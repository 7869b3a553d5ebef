"""Every webhook delivery that reached us, refused ones too."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from tasks_app.ids import new_id
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller


class WebhookDelivery(models.Model):
    """One POST: who sent it, how it was verified, what became of it.

    `key` is the delivery's idempotency key, bound to the seller and to this body until `bound_until`; then
    the key is cut to its first 8 characters and the body is dropped. `fingerprint` is the SHA-256 of the body
    (in RFC 8785 form, once it could be read). Of refused ones only so many are kept per seller and hour. Of
    those that came under a bound key with another body the first is kept; `others` of the bound one counts
    them all. Of those that contradict an operation so much is kept with its body as of its observations.
    """

    class Verdict(models.TextChoices):
        RECEIVED = "received"  # durable and answered: a worker lets it have its effect
        APPLIED = "applied"
        DUPLICATE = "duplicate"
        EARLY = "early"  # its task is not known (yet): kept, applied when a reply binds it
        CONFLICT = "conflict"  # contradicts the settled result, or the bound task
        KEY_CONFLICT = "key_conflict"  # the same delivery key with another body
        REFUSED = "refused"  # bad signature, body or credentials: changes nothing

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    # Neither is checked by a foreign key: each insert would lock the seller's row, all of them the same one.
    seller = models.ForeignKey(
        Seller, null=True, on_delete=models.PROTECT, related_name="deliveries", db_constraint=False
    )
    operation = models.ForeignKey(
        Operation, null=True, on_delete=models.PROTECT, related_name="deliveries", db_constraint=False
    )
    at = models.DateTimeField(default=timezone.now)
    source = models.CharField(max_length=45, blank=True)  # the sender's address, as the web server saw it
    key = models.CharField(max_length=255, blank=True)
    bound_until = models.DateTimeField(null=True)
    fingerprint = models.CharField(max_length=64)
    verdict = models.CharField(max_length=14, choices=Verdict.choices)
    reason = models.CharField(max_length=200, blank=True)
    task_id = models.CharField(max_length=255, blank=True)
    operation_ref = models.CharField(max_length=255, blank=True)
    status = models.CharField(max_length=20, blank=True)
    key_id = models.CharField(max_length=120, blank=True)
    body = models.JSONField(null=True)
    others = models.PositiveIntegerField(default=0, db_default=0)

    class Meta:
        verbose_name_plural = "webhook deliveries"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["seller", "key"],
                condition=models.Q(bound_until__isnull=False) & ~models.Q(key=""),
                name="delivery_key_bound",
            ),
            # A second one for the same operation is judged at once, after the first.
            models.UniqueConstraint(
                fields=["operation"], condition=models.Q(verdict="received"), name="delivery_received_once"
            ),
        ]
        indexes = [
            models.Index(
                fields=["seller", "task_id"],
                name="delivery_waits",
                condition=models.Q(verdict="early", body__isnull=False),
            ),
            models.Index(
                fields=["seller", "at"],
                name="delivery_contradicts",
                condition=models.Q(verdict="key_conflict", body__isnull=False),
            ),
            models.Index(
                fields=["operation"],
                name="delivery_conflicts",
                condition=models.Q(verdict="conflict", body__isnull=False),
            ),
            models.Index(
                fields=["bound_until"],
                name="delivery_bound",
                condition=models.Q(bound_until__isnull=False),
            ),
            models.Index(
                fields=["at"],
                name="delivery_refused",
                condition=models.Q(verdict__in=["refused", "duplicate"]),
            ),
            models.Index(
                fields=["seller", "-at"],
                name="delivery_unverified",
                condition=models.Q(verdict="refused") & ~models.Q(operation_ref="", task_id=""),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.seller or 'unknown seller'}: {self.verdict}"


class SenderTally(models.Model):
    """How often somebody did something within one stretch of time, counted by all processes together.

    `sender` is `seller:<id>` or `bytes:<seller's id>` (deliveries of ten seconds, kB of a day, taken in
    shares, see `rates`), or `refused:<seller's id>` (refused deliveries of an hour, kept or not, see
    `refusals`).
    """

    sender = models.CharField(max_length=80)
    starts = models.DateTimeField(db_index=True)
    used = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["sender", "starts"], name="tally_once")]

    def __str__(self) -> str:
        return f"{self.sender}: {self.used}"


class SellerRevocations(models.Model):
    """A seller's revocation list as last read; kept, so that neither a restart nor an unreachable list brings
    a revoked key back. Without `good_until` the seller publishes none, as far as we saw."""

    seller = models.OneToOneField(Seller, primary_key=True, on_delete=models.CASCADE)
    revoked_kids = models.JSONField(default=list)
    updated = models.DateTimeField(null=True)  # by the list itself: an older one is not taken
    next_at = models.DateTimeField()  # when to look again
    good_until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.seller_id}: {len(self.revoked_kids)} revoked"


class SellerKey(models.Model):
    """A key id that a seller has published at some time: one that was never seen is told of."""

    seller = models.ForeignKey(Seller, on_delete=models.CASCADE)
    key_id = models.CharField(max_length=120)
    first_seen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["seller", "key_id"], name="seller_key_once")]

    def __str__(self) -> str:
        return f"{self.seller_id}: {self.key_id}"


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
