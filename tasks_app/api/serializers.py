"""How jobs, approvals and the trail look in the API."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from tasks_app.api.base import StrictSerializer
from tasks_app.api.people import PersonField
from tasks_app.api.selectors import Trail
from tasks_app.approvals import spending
from tasks_app.approvals.changes import evidence_changes
from tasks_app.approvals.kinds import kind_of
from tasks_app.approvals.lapsing import nothing_words
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.presenters import effects_now
from tasks_app.approvals.records import ApprovalNote
from tasks_app.jobs.models import Job
from tasks_app.jobs.progress import WORKFLOW_STATUSES
from tasks_app.jobs.shown import shown
from tasks_app.money import decimal_of, typed_amount

shown_as_money = extend_schema_field(
    serializers.DecimalField(max_digits=18, decimal_places=4, allow_null=True)
)


def exact(amount: Decimal | None) -> str | None:
    """An amount as the API shows it: a text of four places."""
    return None if amount is None else f"{amount:.4f}"


class AuditEntrySerializer(serializers.Serializer[dict[str, Any]]):
    """One status change: who, when, from, to, why; `hash` is SHA-256, hex."""

    seq = serializers.IntegerField()
    from_status = serializers.CharField()
    to_status = serializers.CharField()
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    actor_name = serializers.CharField()
    reason = serializers.CharField()
    metadata = serializers.JSONField()
    changes = serializers.JSONField()
    trace_id = serializers.CharField()
    hash = serializers.CharField()


def trail_data(trail: Trail) -> Any:
    """A trail as AuditEntrySerializer shows it."""
    shown = ("seq", "from_status", "to_status", "at", "actor", "reason", "metadata", "changes", "trace_id")
    rows: Any = [
        {
            **{name: getattr(entry, name) for name in shown},
            "actor_name": trail.names[entry.actor],
            "hash": bytes(entry.hash).hex(),
        }
        for entry in trail.entries
    ]
    return AuditEntrySerializer(rows, many=True).data


class JobRefSerializer(serializers.ModelSerializer[Job]):
    """A job in a word."""

    class Meta:
        model = Job
        fields = ["id", "reference", "recipe", "status"]


class JobSerializer(serializers.ModelSerializer[Job]):
    """One run of a recipe; `workflow_status`: null once it has ended."""

    workflow_status = serializers.ChoiceField(choices=WORKFLOW_STATUSES, allow_null=True, read_only=True)
    parent_job = serializers.UUIDField(
        source="parent_step.job_id", default=None, allow_null=True, read_only=True
    )

    class Meta:
        model = Job
        fields = [
            "id",
            "reference",
            "status",
            "status_since",
            "workflow_status",
            "priority",
            "recipe",
            "recipe_version",
            "recipe_digest",
            "subject_type",
            "subject_id",
            "requested_by",
            "parent_job",
            "retry_of",
            "error",
            "created_at",
            "ended_at",
        ]


class ShownField(serializers.JSONField):
    """A JSON value without what looks like a secret."""

    def to_representation(self, value: Any) -> Any:
        return super().to_representation(shown(value))


class JobDetailSerializer(JobSerializer):
    """A job with what it was given and what it gave."""

    inputs = ShownField(read_only=True)
    outputs = ShownField(read_only=True, allow_null=True)

    class Meta(JobSerializer.Meta):
        fields = [*JobSerializer.Meta.fields, "inputs", "outputs"]


class ReasonSerializer(StrictSerializer):
    """Why something is done: it stands in the trail."""

    reason = serializers.CharField(max_length=500)


class RetrySerializer(ReasonSerializer):
    """Why, and from which step on what was done is done again (nothing: where it failed)."""

    from_step = serializers.CharField(required=False, allow_blank=True, default="", max_length=60)


class DecisionSerializer(serializers.ModelSerializer[Decision]):
    """One person's word."""

    class Meta:
        model = Decision
        fields = [
            "actor",
            "actor_name",
            "on_behalf_of",
            "on_behalf_of_name",
            "verdict",
            "comment",
            "evidence_digest",
            "at",
        ]


class NoteSerializer(serializers.ModelSerializer[ApprovalNote]):
    """One line of the thread: a comment, or who took, gave back or passed on the work."""

    class Meta:
        model = ApprovalNote
        fields = ["id", "kind", "actor", "actor_name", "to", "to_name", "body", "at"]


class ChangeSerializer(serializers.Serializer[Any]):
    """One field of the evidence that differs from the voided question's; null where it was, or is, not
    there."""

    path = serializers.CharField()
    kind = serializers.ChoiceField(choices=["changed", "added", "removed"])
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class ApprovalSerializer(serializers.ModelSerializer[Approval]):
    """One question to people. `replaces`: the voided one in whose place it was asked. `claimed_by`: an actor
    who has it in hand until `claimed_until`, which keeps nobody else from deciding. `amount`: what it is
    about; `spends`, `frees`: what approving it does of that, null where nothing."""

    label = serializers.SerializerMethodField()  # type: ignore[assignment]  # of the kind
    spends = serializers.SerializerMethodField()
    frees = serializers.SerializerMethodField()

    class Meta:
        model = Approval
        fields = [
            "id",
            "reference",
            "status",
            "status_since",
            "kind",
            "label",
            "title",
            "subject_type",
            "subject_id",
            "opened_by",
            "requested_by",
            "policy",
            "quorum",
            "amount",
            "spends",
            "frees",
            "currency",
            "due_at",
            "evidence_digest",
            "replaces",
            "claimed_by",
            "claimed_until",
            "created_at",
        ]

    @extend_schema_field(serializers.CharField())
    def get_label(self, approval: Approval) -> str:
        return kind_of(approval).label

    @shown_as_money
    def get_spends(self, approval: Approval) -> str | None:
        return exact(spending.spends(approval))

    @shown_as_money
    def get_frees(self, approval: Approval) -> str | None:
        return exact(spending.frees(approval))


class ApprovalDetailSerializer(ApprovalSerializer):
    """A question with what people are shown, what each answer does, and what was said so far."""

    effects = serializers.SerializerMethodField()
    zone = serializers.SerializerMethodField()
    decisions = DecisionSerializer(many=True, read_only=True)
    notes = NoteSerializer(many=True, read_only=True)
    changes = serializers.SerializerMethodField()

    class Meta(ApprovalSerializer.Meta):
        fields = [
            *ApprovalSerializer.Meta.fields,
            "policies",
            "roles",
            "escalate_at",
            "escalate_to",
            "hold_until",
            "evidence",
            "effects",
            "zone",
            "decisions",
            "notes",
            "changes",
        ]

    @extend_schema_field(ChangeSerializer(many=True))
    def get_changes(self, approval: Approval) -> Any:
        before = approval.replaces
        found = evidence_changes(before.evidence, approval.evidence) if before else []
        return ChangeSerializer(found, many=True).data

    @extend_schema_field(serializers.DictField(child=serializers.CharField()))
    def get_effects(self, approval: Approval) -> dict[str, str]:
        return {**effects_now(approval), "nothing": nothing_words(approval)}

    def get_zone(self, _approval: Approval) -> str:
        """The zone of times within the sentences that name none."""
        return timezone.get_current_timezone_name()


class AmountField(serializers.DecimalField):
    """An amount of money of a known currency: a number as JSON says it, a text as people type it."""

    def __init__(self, currency: str) -> None:
        super().__init__(max_digits=18, decimal_places=4, min_value=Decimal(0))
        self._currency = currency

    def to_internal_value(self, data: Any) -> Decimal:
        """Raises ValidationError where it is no amount, or its separators say two things."""
        try:
            read = typed_amount(data, self._currency) if isinstance(data, str) else decimal_of(data)
        except ValueError as error:
            raise serializers.ValidationError(f"{error}.") from error
        if read is None:
            self.fail("invalid")
        return super().to_internal_value(read)


@extend_schema_field(serializers.DecimalField(max_digits=18, decimal_places=4, min_value=Decimal(0)))
class WrittenField(serializers.Field[Any, Any, Any, Any]):
    """An amount of money as it was written: what it says is known with its currency (`budgets_of`)."""

    def to_internal_value(self, data: Any) -> Any:
        return data


class BudgetSerializer(StrictSerializer):
    """One line, by its number as shown (from 1), and its budget in the approval's currency; 0: without it."""

    line = serializers.IntegerField(min_value=1, max_value=9999)
    budget = WrittenField()


def budgets_of(said: list[dict[str, Any]], currency: str) -> dict[int, Decimal]:
    """Line number to budget, in the approval's currency. Raises ValidationError for a line that is named
    twice, and for what is no amount or has separators that say two things."""
    budgets = {one["line"]: _amount(one["budget"], currency) for one in said}
    if len(budgets) != len(said):
        raise serializers.ValidationError({"budgets": ["Name each line once."]})
    return budgets


def _amount(written: object, currency: str) -> Decimal:
    try:
        amount: Decimal = AmountField(currency).run_validation(written)
    except serializers.ValidationError as error:
        raise serializers.ValidationError({"budgets": error.detail}) from error
    return amount


class VerdictSerializer(StrictSerializer):
    """`verdict` (or `decision`, the same under another name), why, and for whom the caller stands in: the
    username of somebody whose delegation to them is in force."""

    verdict = serializers.ChoiceField(choices=Decision.Verdict.choices, required=False)
    decision = serializers.ChoiceField(choices=Decision.Verdict.choices, required=False, write_only=True)
    comment = serializers.CharField(required=False, allow_blank=True, default="", max_length=4000)
    on_behalf_of = PersonField(required=False, default=None, allow_null=True)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        said = {attrs.pop(name) for name in ("verdict", "decision") if name in attrs}
        if len(said) != 1:
            raise serializers.ValidationError({"verdict": ["Say approve or reject, once."]})
        return {**attrs, "verdict": said.pop()}


class ShownSerializer(StrictSerializer):
    """One approval, and the digest of the evidence that was read."""

    id = serializers.UUIDField()
    evidence_digest = serializers.CharField(max_length=64)


class AskedNowSerializer(serializers.ModelSerializer[Approval]):
    """What is asked now, where a decision was on something else: its digest is what the next one says."""

    class Meta:
        model = Approval
        fields = [
            "id",
            "reference",
            "status",
            "kind",
            "title",
            "amount",
            "currency",
            "due_at",
            "evidence",
            "evidence_digest",
        ]


class DecideSerializer(VerdictSerializer):
    """A decision: the verdict, the digest of the evidence that was read, and, to approve in part, the lines
    with other budgets: what is not named stays as it is."""

    evidence_digest = serializers.CharField(max_length=64)
    budgets = serializers.ListField(child=BudgetSerializer(), required=False, max_length=200)
