"""What waits on a person, and what people decided."""

from __future__ import annotations

from django.db import models
from django.utils import timezone
from django_fsm import transition

from tasks_app.ids import new_id
from tasks_app.lifecycle.models import Stateful
from tasks_app.lifecycle.status_field import StatusField
from tasks_app.people.models import Advertiser, Team
from tasks_app.people.roles import DECIDE


class ApprovalStatus(models.TextChoices):
    OPEN = "open"  # waits on people
    APPROVED = "approved"  # quorum reached
    REJECTED = "rejected"  # one said no
    EXPIRED = "expired"  # the deadline passed; never approves
    VOIDED = "voided"  # what was shown changed, or the subject is gone


S = ApprovalStatus


class Approval(Stateful):
    """One question to people, bound by a digest to the evidence they were shown."""

    entity = "approval"
    teamless_is_everybodys = True

    reference = models.CharField(max_length=20, unique=True, editable=False)
    status = StatusField(default=S.OPEN, choices=S.choices, protected=True, editable=False)
    kind = models.CharField(max_length=40)
    # Null: it is the whole house's, and anybody with the right decides.
    team = models.ForeignKey(Team, null=True, on_delete=models.PROTECT)
    advertiser = models.ForeignKey(
        Advertiser, null=True, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    title = models.CharField(max_length=200)
    subject_type = models.CharField(max_length=32)
    subject_id = models.UUIDField()
    subject_version = models.PositiveIntegerField()
    # Actors' keys: who acted (a person, an agent, or the system), and on whose behalf.
    opened_by = models.CharField(max_length=80)
    requested_by = models.CharField(max_length=80)
    # Who else caused it (people/setting_off.py): neither they nor `requested_by` decide.
    set_off_by = models.JSONField(default=list)
    policy = models.CharField(max_length=120)
    # What caught it: key, version, name, rule and why, as `policies.Caught`.
    policies = models.JSONField(default=list)
    quorum = models.PositiveSmallIntegerField(default=1)
    roles = models.JSONField(default=list)  # of whom one must be held to decide; empty: the right will do
    amount = models.DecimalField(max_digits=18, decimal_places=4, null=True)
    currency = models.CharField(max_length=3, blank=True)
    evidence = models.JSONField()
    evidence_digest = models.CharField(max_length=64)
    due_at = models.DateTimeField()
    # Who may decide was told that it waits, and reminded, in the commits that set these.
    told_at = models.DateTimeField(null=True)
    reminded_at = models.DateTimeField(null=True)
    # When it is put to further roles, to which, and when it was.
    escalate_at = models.DateTimeField(null=True)
    escalate_to = models.JSONField(default=list)
    escalated_at = models.DateTimeField(null=True)
    on_expiry = models.CharField(max_length=6, default="expire")  # or wait: policy_models.OnExpiry
    hold_until = models.DateTimeField(null=True)  # of the seller: no deadline goes beyond it
    # Who has taken it upon themselves (an actor's key), until when. It forbids nobody else to decide.
    claimed_by = models.CharField(max_length=80, blank=True)
    claimed_until = models.DateTimeField(null=True)
    # The question in whose place this one was asked, voided or approved of what is no longer so: what changed
    # is the difference of their evidence.
    replaces = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="replaced_by")

    class Meta:
        ordering = ["due_at", "id"]
        permissions = [("decide_approval", "May approve or reject")]
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "subject_type", "subject_id"],
                condition=models.Q(status="open"),
                name="one_open_approval_per_question",
            )
        ]
        indexes = [
            models.Index(fields=["subject_type", "subject_id"], name="approval_by_subject"),
            models.Index(fields=["team", "due_at"], name="approval_open", condition=models.Q(status="open")),
            models.Index(
                fields=["escalate_at"],
                name="approval_escalates",
                condition=models.Q(status="open", escalated_at__isnull=True, escalate_at__isnull=False),
            ),
            models.Index(
                fields=["advertiser", "due_at"],
                name="approval_open_of_advertiser",
                condition=models.Q(status="open"),
            ),
            # The queue in its order: of all teams of a viewer, of who asked; what ended.
            models.Index(fields=["due_at", "id"], name="approval_due", condition=models.Q(status="open")),
            models.Index(
                fields=["requested_by", "due_at"], name="approval_asked", condition=models.Q(status="open")
            ),
            models.Index(fields=["-status_since"], name="approval_ended", condition=~models.Q(status="open")),
        ]

    @property
    def actors(self) -> frozenset[str]:
        """The keys of who opened it and on whose behalf."""
        return frozenset((self.opened_by, self.requested_by))

    @property
    def asked_by(self) -> frozenset[str]:
        """The keys of all who asked for it or set it off: none of them decides."""
        return frozenset((self.requested_by, *self.set_off_by))

    def __str__(self) -> str:
        return self.reference

    @transition(field=status, source=S.OPEN, target=S.APPROVED, permission=DECIDE)
    def approve(self) -> None:
        """Quorum of approving decisions reached."""

    @transition(field=status, source=S.OPEN, target=S.REJECTED, permission=DECIDE)
    def reject(self) -> None:
        """A decision rejected it."""

    @transition(field=status, source=S.OPEN, target=S.EXPIRED)
    def expire(self) -> None:
        """Deadline passed."""

    @transition(field=status, source=S.OPEN, target=S.VOIDED)
    def void(self) -> None:
        """What was shown no longer holds."""


class Decision(models.Model):
    """One person's word on one approval. Written once. `actor` is who spoke; where somebody who is away was
    stood in for, `on_behalf_of` names them too."""

    class Verdict(models.TextChoices):
        APPROVE = "approve"
        REJECT = "reject"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    approval = models.ForeignKey(Approval, on_delete=models.PROTECT, related_name="decisions")
    actor = models.CharField(max_length=80)
    actor_name = models.CharField(max_length=160)
    verdict = models.CharField(max_length=8, choices=Verdict.choices)
    comment = models.TextField(blank=True)
    evidence_digest = models.CharField(max_length=64)
    at = models.DateTimeField(default=timezone.now)
    on_behalf_of = models.CharField(max_length=80, blank=True)
    on_behalf_of_name = models.CharField(max_length=160, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["approval", "actor"], name="one_decision_per_person"),
            models.UniqueConstraint(
                fields=["approval", "on_behalf_of"],
                condition=~models.Q(on_behalf_of=""),
                name="one_decision_on_behalf_of_each",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.actor_name}: {self.verdict}"
