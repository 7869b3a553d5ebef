"""What surrounds decisions: who stands in for whom, what was said, what was decided together, used links."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from tasks_app.approvals.models import Approval, Decision
from tasks_app.ids import new_id
from tasks_app.people.models import User


class ApprovalNote(models.Model):
    """One line of an approval's thread, append-only: words of people, and who took or passed on the work."""

    class Kind(models.TextChoices):
        COMMENT = "comment"
        CLAIM = "claim", "Claimed"
        RELEASE = "release", "Released"
        REASSIGN = "reassign", "Reassigned"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    approval = models.ForeignKey(Approval, on_delete=models.PROTECT, related_name="notes")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    actor = models.CharField(max_length=80)
    actor_name = models.CharField(max_length=160)
    # Whom it was passed on to, as a key and a name; empty but for reassignments.
    to = models.CharField(max_length=80, blank=True)
    to_name = models.CharField(max_length=160, blank=True)
    body = models.TextField(blank=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["id"]
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.actor_name}: {self.get_kind_display()}"


class Delegation(models.Model):
    """While somebody is away (`[starts_at, ends_at)`), another decides in their place. It lends a place, not
    a right: whoever stands in must be allowed to decide themselves. Ended early it keeps its row."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    delegator = models.ForeignKey(User, on_delete=models.PROTECT, related_name="delegations_given")
    delegate = models.ForeignKey(User, on_delete=models.PROTECT, related_name="delegations_held")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    reason = models.CharField(max_length=200, blank=True)
    made_by = models.CharField(max_length=80)
    made_at = models.DateTimeField(default=timezone.now)
    ended_by = models.CharField(max_length=80, blank=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-starts_at", "id"]
        default_permissions = ()
        constraints = [
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="delegation_lasts"),
            models.CheckConstraint(condition=~Q(delegator=F("delegate")), name="delegation_to_another"),
        ]
        indexes = [
            models.Index(fields=["delegate", "ends_at"], name="delegation_held"),
            models.Index(fields=["delegator", "ends_at"], name="delegation_given"),
        ]

    def __str__(self) -> str:
        return f"{self.delegate} for {self.delegator}"


class DecisionBatch(models.Model):
    """One word of one person on several questions. Kept before the first is decided: what has no item was not
    reached. With a `due_at` it is an intent: decided then, unless it was withdrawn before."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    verdict = models.CharField(max_length=8, choices=Decision.Verdict.choices)
    comment = models.TextField(blank=True)
    shown = models.JSONField()  # ids of the approvals as text, in the order in which they are decided
    at = models.DateTimeField(default=timezone.now)
    # Of an intent: the digest shown of each id, in whose place it is said, the request that it goes back to.
    digests = models.JSONField(default=dict)
    on_behalf_of = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    request = models.CharField(max_length=64, blank=True)
    due_at = models.DateTimeField(null=True)
    withdrawn_at = models.DateTimeField(null=True)
    done_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        default_permissions = ()
        indexes = [
            models.Index(
                fields=["due_at"],
                name="intent_due",
                condition=Q(due_at__isnull=False, withdrawn_at__isnull=True, done_at__isnull=True),
            )
        ]

    def __str__(self) -> str:
        return f"{self.verdict} {len(self.shown)}"

    @property
    def pending(self) -> bool:
        """Whether it is an intent that is neither decided nor withdrawn."""
        return self.due_at is not None and self.withdrawn_at is None and self.done_at is None

    @property
    def is_undoable(self) -> bool:
        """Whether it can be withdrawn: nothing of it is decided yet."""
        return self.pending and not self.items.exists()


class DecisionBatchItem(models.Model):
    """What became of one of them, append-only: recorded (no `code`), or refused, why."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    batch = models.ForeignKey(DecisionBatch, on_delete=models.PROTECT, related_name="items")
    approval = models.UUIDField()  # no foreign key: an id that names nothing is reported too
    code = models.CharField(max_length=20, blank=True)
    message = models.TextField(blank=True)
    status = models.CharField(max_length=8, blank=True)  # the question's, once the decision was recorded
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["id"]
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["batch", "approval"], name="batch_item_once")]

    def __str__(self) -> str:
        return self.code or "recorded"


class LinkUse(models.Model):
    """That a mailed link was followed by whom it was made for: it opens nothing again."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    nonce = models.UUIDField(unique=True)
    approval = models.ForeignKey(Approval, on_delete=models.PROTECT, related_name="+")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["id"]
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.nonce)
