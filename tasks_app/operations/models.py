"""One AdCP task with one seller, and everything that was ever seen of it."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models.fields.json import KeyTransform
from django.utils import timezone
from django_fsm import transition
from encrypted_fields.fields import EncryptedCharField, EncryptedTextField

from tasks_app.ids import new_id
from tasks_app.lifecycle.models import Stateful
from tasks_app.lifecycle.status_field import StatusField
from tasks_app.people.models import Advertiser, Team
from tasks_app.people.roles import DECIDE, STEER_OPERATION
from tasks_app.sellers.models import Account, Seller


class OperationStatus(models.TextChoices):
    """Document 000, "State Machine Design", with the protocol's further task statuses."""

    REQUESTED = "requested"  # durable, nothing sent yet
    CALLING_ADCP = "calling_adcp"  # the call is out; its outcome may be unknown
    SUBMITTED = "submitted"  # with the seller, hours to days
    WORKING = "working"  # the seller computes
    INPUT_REQUIRED = "input_required"  # the seller waits on the buyer
    AUTH_REQUIRED = "auth_required"  # credentials needed
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"  # our verdict, "overdue": the seller may still answer


S = OperationStatus
# With the seller: observed by poll and webhook, timed against the deadline.
PENDING = (S.SUBMITTED, S.WORKING, S.INPUT_REQUIRED, S.AUTH_REQUIRED)
OPEN = (S.REQUESTED, S.CALLING_ADCP, *PENDING, S.TIMED_OUT)
SETTLED = (S.COMPLETED, S.FAILED, S.CANCELED, S.REJECTED)
# The type of what was found at a seller and never asked for by us (document 000): observed, never sent.
UNKNOWN_TYPE = "unknown"
READS = frozenset(
    {
        "get_adcp_capabilities",
        "get_products",
        "get_media_buys",
        "get_media_buy_delivery",
        "list_accounts",
        "list_creative_formats",
        "get_task_status",
        "list_tasks",
    }
)


def type_asked(task_type: str) -> str:
    """The type of task that was asked for; empty for what was only found at a seller, whose word counts."""
    return "" if task_type == UNKNOWN_TYPE else task_type


def _steers(_operation: models.Model, user: Any) -> bool:
    """Keeping on waiting: whoever decides, or steers."""
    return bool(user.has_perm(DECIDE) or user.has_perm(STEER_OPERATION))


def _settles(operation: models.Model, user: Any) -> bool:
    """Settling by hand as anything but completed: a read's bad end costs nothing, everything else is approved
    by whoever decides."""
    is_read = isinstance(operation, Operation) and not operation.is_mutation
    return bool(user.has_perm(DECIDE) or (is_read and user.has_perm(STEER_OPERATION)))


class Channel(models.TextChoices):
    """How something was seen."""

    REPLY = "reply"
    POLL = "poll"
    WEBHOOK = "webhook"
    RECONCILE = "reconcile"
    HUMAN = "human"


# The channels of news that did not come with the answer to the call itself.
SEEN_LATER = (Channel.POLL.value, Channel.WEBHOOK.value, Channel.RECONCILE.value)
# Those on which the seller was asked how things stand.
LOOKS = (Channel.POLL, Channel.RECONCILE)


class Operation(Stateful):
    """Frozen request, identities each in a column of its own, status, and what happens next."""

    entity = "operation"
    unaudited = frozenset({"webhook_token", "request_text"})

    reference = models.CharField(max_length=20, unique=True, editable=False)
    status = StatusField(default=S.REQUESTED, choices=S.choices, protected=True, editable=False)
    task_type = models.CharField(max_length=60)
    seller = models.ForeignKey(Seller, on_delete=models.PROTECT, related_name="operations")
    account = models.ForeignKey(Account, null=True, on_delete=models.PROTECT, related_name="operations")
    team = models.ForeignKey(Team, null=True, on_delete=models.PROTECT)
    advertiser = models.ForeignKey(
        Advertiser, null=True, on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    requested_by = models.CharField(max_length=80)
    # What this is for, in an upper storey: never a foreign key upward.
    subject_type = models.CharField(max_length=32, blank=True)
    subject_id = models.UUIDField(null=True)
    # One operation per purpose: a step executed again finds the one it made before.
    purpose = models.CharField(max_length=160, unique=True)

    # The arguments as they leave, made once and resent byte for byte under the same key. They hold our
    # webhook credentials, so the text is encrypted; `request` is the same for people's eyes.
    request_text = EncryptedTextField(editable=False)
    request = models.JSONField()
    # What its purchase-order number has in common with those that look the same (`alike_digest`).
    po_alike = models.CharField(max_length=64, blank=True, default="", editable=False)
    idempotency_key = models.CharField(max_length=255, unique=True, null=True)  # noqa: DJ001 (reads have none)
    webhook_token = EncryptedCharField(max_length=120, null=True, editable=False)

    # The seller's names for it. A bound task_id never changes.
    task_id = models.CharField(max_length=255, blank=True)
    a2a_task_id = models.CharField(max_length=255, blank=True)
    a2a_context_id = models.CharField(max_length=255, blank=True)
    context_id = models.CharField(max_length=255, blank=True)  # the conversation, where it speaks MCP

    # What is known.
    message = models.TextField(blank=True)
    result = models.JSONField(null=True)
    error = models.JSONField(null=True)
    seller_news_at = models.DateTimeField(null=True)
    settled_by = models.CharField(max_length=12, blank=True, choices=Channel.choices)
    settled_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    overdue_at = models.DateTimeField(null=True)  # set for good: a later completion is a person's
    # Set once the upper storeys were told of the end, in the commit that told them.
    published_at = models.DateTimeField(null=True)
    publish_at = models.DateTimeField(null=True)  # not before: the end is known, its result is asked for
    # Set once those who ask people about an overdue operation were told, in the commit that told them.
    overdue_told_at = models.DateTimeField(null=True)
    # Past its deadline without an answer: when the seller was last asked for it by our context, to no avail.
    looked_up_at = models.DateTimeField(null=True)

    # What happens next.
    send_at = models.DateTimeField(null=True)  # due to be sent (again); null: held or already answered
    share = models.UUIDField(null=True)  # what was asked for together; takes turns with the rest (turns.py)
    priority = models.PositiveSmallIntegerField(default=100)  # of the job that asked: lower goes first
    turn_at = models.DateTimeField(default=timezone.now)  # of what is due to be sent, the earliest goes first
    next_poll_at = models.DateTimeField(null=True)
    deadline_at = models.DateTimeField(null=True)
    attempts = models.PositiveIntegerField(default=0)
    polls = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-id"]
        permissions = [
            ("send_operation", "May ask for an operation through the API"),
            ("steer_operation", "May poll now, keep waiting, give up"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["seller", "task_id"], condition=~models.Q(task_id=""), name="task_once_per_seller"
            )
        ]
        indexes = [
            models.Index(
                fields=["seller", "send_at"],
                name="operation_to_send",
                condition=models.Q(send_at__isnull=False),
            ),
            models.Index(
                fields=["seller", "share", "turn_at"],
                name="operation_turns",
                condition=models.Q(send_at__isnull=False, share__isnull=False),
            ),
            models.Index(
                fields=["seller", "next_poll_at"],
                name="operation_to_poll",
                condition=models.Q(next_poll_at__isnull=False),
            ),
            models.Index(
                fields=["deadline_at"],
                name="operation_to_time_out",
                condition=models.Q(
                    status__in=["submitted", "working", "input_required", "auth_required", "calling_adcp"]
                ),
            ),
            models.Index(
                fields=["overdue_at"],
                name="operation_to_tell",
                condition=models.Q(status="timed_out", overdue_told_at__isnull=True),
            ),
            models.Index(
                fields=["settled_at"],
                name="operation_to_publish",
                condition=models.Q(published_at__isnull=True, settled_at__isnull=False),
            ),
            models.Index(fields=["subject_type", "subject_id"], name="operation_by_subject"),
            models.Index(fields=["advertiser", "-id"], name="operation_by_advertiser"),
            models.Index(
                fields=["team", "deadline_at"],
                name="operation_unsettled",
                condition=models.Q(settled_at__isnull=True),
            ),
            # Found by what a seller or a colleague quotes (search.py).
            models.Index(
                fields=["a2a_task_id"], name="operation_a2a_task", condition=~models.Q(a2a_task_id="")
            ),
            models.Index(
                fields=["a2a_context_id"],
                name="operation_a2a_context",
                condition=~models.Q(a2a_context_id=""),
            ),
            models.Index(
                fields=["context_id"], name="operation_by_context", condition=~models.Q(context_id="")
            ),
            models.Index(
                fields=["account", "po_alike"],
                name="operation_po_alike",
                condition=~models.Q(po_alike=""),
            ),
            models.Index(
                KeyTransform("po_number", "request"),
                name="operation_po_number",
                condition=models.Q(task_type="create_media_buy"),
            ),
            # A seller's health, read from its latest rows: what settled, changes among it, what settled later
            # than at once, what could have come by webhook.
            models.Index(
                fields=["seller", "-settled_at"],
                name="operation_settled",
                condition=models.Q(settled_at__isnull=False),
            ),
            models.Index(
                fields=["seller", "-settled_at"],
                name="operation_changes_settled",
                condition=models.Q(settled_at__isnull=False) & ~models.Q(task_type__in=sorted(READS)),
            ),
            models.Index(
                fields=["seller", "task_type", "-settled_at"],
                name="operation_settled_later",
                condition=models.Q(settled_by__in=SEEN_LATER),
            ),
            models.Index(
                fields=["seller", "-settled_at"],
                name="operation_hooked",
                condition=models.Q(settled_by__in=SEEN_LATER, webhook_token__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.reference

    @property
    def type_asked(self) -> str:
        return type_asked(self.task_type)

    @property
    def is_mutation(self) -> bool:
        return self.task_type not in READS

    # One method per target; the edges are compared with lifecycles/operation.json by a test.
    @transition(field=status, source=S.REQUESTED, target=S.CALLING_ADCP)
    def call(self) -> None:
        """The first byte may leave from here on."""

    @transition(
        field=status,
        source=[S.CALLING_ADCP, S.WORKING, S.INPUT_REQUIRED, S.AUTH_REQUIRED, S.TIMED_OUT],
        target=S.SUBMITTED,
        permission=_steers,
    )
    def submit(self) -> None:
        """Queued at the seller."""

    @transition(
        field=status,
        source=[S.CALLING_ADCP, S.SUBMITTED, S.INPUT_REQUIRED, S.AUTH_REQUIRED, S.TIMED_OUT],
        target=S.WORKING,
    )
    def work(self) -> None:
        """The seller processes it."""

    @transition(
        field=status,
        source=[S.CALLING_ADCP, S.SUBMITTED, S.WORKING, S.AUTH_REQUIRED],
        target=S.INPUT_REQUIRED,
    )
    def require_input(self) -> None:
        """The seller asks."""

    @transition(
        field=status,
        source=[S.CALLING_ADCP, S.SUBMITTED, S.WORKING, S.INPUT_REQUIRED],
        target=S.AUTH_REQUIRED,
    )
    def require_auth(self) -> None:
        """The seller wants credentials."""

    @transition(
        field=status,
        source=[S.CALLING_ADCP, *PENDING, S.TIMED_OUT],
        target=S.COMPLETED,
        permission=DECIDE,
    )
    def complete(self) -> None:
        """The seller did it."""

    @transition(
        field=status,
        source=[S.REQUESTED, S.CALLING_ADCP, *PENDING, S.TIMED_OUT],
        target=S.FAILED,
        permission=_settles,
    )
    def fail(self) -> None:
        """It ended in an error, or could not be sent."""

    @transition(
        field=status,
        source=[S.REQUESTED, S.CALLING_ADCP, *PENDING, S.TIMED_OUT],
        target=S.CANCELED,
        permission=_settles,
    )
    def cancel(self) -> None:
        """Given up before it was sent, or canceled at the seller."""

    @transition(
        field=status, source=[S.CALLING_ADCP, *PENDING, S.TIMED_OUT], target=S.REJECTED, permission=_settles
    )
    def reject(self) -> None:
        """The seller refuses; never retried."""

    @transition(
        field=status, source=[S.CALLING_ADCP, *PENDING], target=S.TIMED_OUT, permission=STEER_OPERATION
    )
    def time_out(self) -> None:
        """The deadline of its type passed: overdue."""


class Observation(models.Model):
    """One thing seen of an operation, append-only, with what it led to."""

    class Outcome(models.TextChoices):
        APPLIED = "applied"  # moved or refreshed the operation
        DUPLICATE = "duplicate"  # says what is already known
        STALE = "stale"  # older than what is known
        CONFLICT = "conflict"  # contradicts the settled result or the bound task: a person's
        INDETERMINATE = "indeterminate"  # nothing certain follows from it

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, related_name="observations")
    # The operation's, repeated for the health of sellers; unchecked, for the check would lock the seller.
    seller = models.ForeignKey(
        Seller, null=True, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    channel = models.CharField(max_length=12, choices=Channel.choices)
    kind = models.CharField(max_length=10)
    status = models.CharField(max_length=20)
    raw_status = models.CharField(max_length=80, blank=True)
    outcome = models.CharField(max_length=14, choices=Outcome.choices)
    note = models.TextField(blank=True)
    digest = models.CharField(max_length=64)
    partial = models.BooleanField(default=False)  # an end without its result: proves the status only
    body = models.JSONField(null=True)
    seller_at = models.DateTimeField(null=True)
    duration_ms = models.PositiveIntegerField(null=True)  # of the call that brought it; null: none was made
    error_code = models.CharField(max_length=80, blank=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["operation", "id"], name="observation_by_operation"),
            models.Index(
                fields=["seller", "-id"],
                name="observation_of_call",
                condition=models.Q(duration_ms__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.channel}: {self.status}"
