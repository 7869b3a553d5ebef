"""How campaigns look in the API. Money is text, exact, in the campaign's currency."""

from __future__ import annotations

from typing import Any, get_args
from uuid import UUID

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from campaigns.brief import Booking
from campaigns.decisions import Decided
from campaigns.models import Allocation, Campaign
from campaigns.services import campaign_job
from orders.api.selectors import deals_of
from orders.api.serializers import DealSerializer
from orders.questions import DEAL, DIFFERENT
from orders.unclaimed.question import UNCLAIMED
from tasks_app.api.base import StrictSerializer
from tasks_app.api.serializers import (
    AskedNowSerializer,
    BudgetSerializer,
    JobRefSerializer,
    ShownSerializer,
    VerdictSerializer,
)
from tasks_app.approvals.models import ApprovalStatus

KINDS_DECIDED = (DEAL, DIFFERENT, UNCLAIMED)


class ProblemSerializer(serializers.Serializer[dict[str, str]]):
    """What is wrong with one field of a brief."""

    field = serializers.CharField()
    problem = serializers.CharField()


class CampaignSerializer(serializers.ModelSerializer[Campaign]):
    """One brief on its way to booked media."""

    advertiser = serializers.CharField(
        source="advertiser.name", default=None, allow_null=True, read_only=True
    )
    problems = ProblemSerializer(many=True, read_only=True)

    class Meta:
        model = Campaign
        fields = [
            "id",
            "reference",
            "status",
            "status_since",
            "name",
            "advertiser",
            "requested_by",
            "budget",
            "currency",
            "start_at",
            "end_at",
            "zone",
            "problems",
            "created_at",
        ]


class AllocationSerializer(serializers.ModelSerializer[Allocation]):
    """What one channel may spend."""

    class Meta:
        model = Allocation
        fields = ["channel", "amount"]


class CampaignDetailSerializer(CampaignSerializer):
    """A campaign with its brief, allocations, deals, job, and how each deal ended."""

    booking = serializers.ChoiceField(choices=get_args(Booking), read_only=True)
    allocations = AllocationSerializer(many=True, read_only=True)
    deals = serializers.SerializerMethodField()
    job = serializers.SerializerMethodField()

    class Meta(CampaignSerializer.Meta):
        fields = [
            *CampaignSerializer.Meta.fields,
            "brief",
            "booking",
            "allocations",
            "deals",
            "outcome",
            "job",
        ]

    @extend_schema_field(DealSerializer(many=True))
    def get_deals(self, campaign: Campaign) -> Any:
        viewer = self.context["request"].user
        return DealSerializer(deals_of(viewer).filter(campaign_id=campaign.pk).order_by("id"), many=True).data

    @extend_schema_field(JobRefSerializer(allow_null=True))
    def get_job(self, campaign: Campaign) -> Any:
        job = campaign_job(campaign)
        return JobRefSerializer(job).data if job else None


class PartSerializer(StrictSerializer):
    """One approval that is approved, by its id, with the lines that have other budgets."""

    approval = serializers.UUIDField()
    budgets = serializers.ListField(child=BudgetSerializer(), required=False, max_length=200)


class DecideAllSerializer(VerdictSerializer):
    """One verdict for every open approval of one kind about the campaign's deals, each of `approvals` with
    the digest of what was read of it; one that is not among them is refused. Or, to approve, `parts`: those
    named are approved and the rest rejected, all of them or none."""

    approvals = serializers.ListField(child=ShownSerializer(), max_length=500)
    parts = serializers.ListField(child=PartSerializer(), required=False, allow_empty=False, max_length=500)
    kind = serializers.ChoiceField(choices=KINDS_DECIDED, default=DEAL)

    def validate_approvals(self, value: list[dict[str, Any]]) -> dict[UUID, str]:
        shown = {one["id"]: one["evidence_digest"] for one in value}
        if len(shown) != len(value):
            raise serializers.ValidationError("Name each approval once.")
        return shown

    def validate_parts(self, value: list[dict[str, Any]]) -> dict[UUID, list[dict[str, Any]]]:
        parts = {one["approval"]: one.get("budgets", []) for one in value}
        if len(parts) != len(value):
            raise serializers.ValidationError("Name each approval once.")
        return parts


class DecidedSerializer(serializers.Serializer[Decided]):
    """What became of one approval; `refused` says why it was not decided, `shown` what is asked now, where it
    was decided on something else."""

    approval_id = serializers.UUIDField(source="approval.pk")
    reference = serializers.CharField(source="approval.reference")
    status = serializers.ChoiceField(source="approval.status", choices=ApprovalStatus.choices)
    deal = serializers.CharField(source="deal.reference")
    deal_status = serializers.CharField(source="deal.status")
    decided = serializers.SerializerMethodField()
    refused = serializers.CharField()
    code = serializers.CharField()
    shown = AskedNowSerializer(source="now", allow_null=True)

    def get_decided(self, decided: Decided) -> bool:
        return not decided.refused


class PartsRefusedSerializer(serializers.Serializer[dict[str, Any]]):
    """The problem: why, and what became of each; none was decided."""

    type = serializers.CharField()
    status = serializers.IntegerField()
    title = serializers.CharField()
    code = serializers.CharField()
    results = DecidedSerializer(many=True)


class DecidedAllSerializer(serializers.Serializer[dict[str, Any]]):
    """The report of a word on all."""

    decided = serializers.IntegerField()
    refused = serializers.IntegerField()
    results = DecidedSerializer(many=True)
