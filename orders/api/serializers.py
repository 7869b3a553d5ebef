"""How deals and operations look in the API. Money is text, exact, in the deal's currency."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from orders.amounts import approved_shown, confirmed_of, line_amounts
from orders.api.selectors import Behind
from orders.models import Deal, DealLine
from orders.presenters import unread_of
from orders.requests import TASKS
from tasks_app.api.base import StrictSerializer
from tasks_app.api.selectors import trail_of
from tasks_app.api.serializers import AuditEntrySerializer, exact, shown_as_money, trail_data
from tasks_app.operations.models import Observation, Operation


class LineSerializer(serializers.ModelSerializer[DealLine]):
    """One package: what was ordered, and what the seller confirmed (`confirmed_…`, null while unknown).

    `approved`: the budget as people approved it, or accepted it since (null: nobody has); `committed`: what
    counts of it now; both in the deal's currency.
    """

    approved = serializers.SerializerMethodField()
    committed = serializers.SerializerMethodField()

    @shown_as_money
    def get_approved(self, line: DealLine) -> str | None:
        return None if line.deal.unapproved else exact(line_amounts(line.deal, line).approved)

    @shown_as_money
    def get_committed(self, line: DealLine) -> str | None:
        return exact(line_amounts(line.deal, line).committed)

    class Meta:
        model = DealLine
        fields = [
            "id",
            "position",
            "channel",
            "product_id",
            "product_name",
            "pricing_option_id",
            "pricing_model",
            "is_fixed",
            "guaranteed",
            "rate",
            "ceiling",
            "budget",
            "approved",
            "committed",
            "minimum",
            "units",
            "start_at",
            "end_at",
            "targeting",
            "forecast",
            "terms",
            "paused",
            "canceled",
            "package_id",
            "confirmed_budget",
            "confirmed_rate",
            "confirmed_start_at",
            "confirmed_end_at",
            "confirmed_targeting",
            "confirmed_paused",
            "confirmed_canceled",
        ]


class DealSerializer(serializers.ModelSerializer[Deal]):
    """One media buy with one seller, with the seller's own word (`media_buy_…`) beside our status.

    `as_stated`: what the seller states of the media buy and nobody can read (a moment, a revision), by its
    AdCP name; a field of that name then tells what was read before, if anything.
    """

    seller = serializers.SlugField(source="seller.slug", read_only=True)
    advertiser = serializers.CharField(source="advertiser.name", read_only=True)
    gross = serializers.SerializerMethodField()
    confirmed_gross = serializers.SerializerMethodField()
    as_stated = serializers.SerializerMethodField()

    class Meta:
        model = Deal
        fields = [
            "id",
            "reference",
            "status",
            "status_since",
            "seller",
            "advertiser",
            "campaign_id",
            "requested_by",
            "currency",
            "gross",
            "confirmed_gross",
            "start_at",
            "end_at",
            "zone",
            "media_buy_id",
            "media_buy_status",
            "revision",
            "valid_actions",
            "confirmed_at",
            "creative_deadline",
            "as_of",
            "as_stated",
            "differs",
            "created_at",
        ]

    @shown_as_money
    def get_gross(self, deal: Deal) -> str | None:
        return exact(approved_shown(deal))

    @shown_as_money
    def get_confirmed_gross(self, deal: Deal) -> str | None:
        return exact(confirmed_of(deal))

    @extend_schema_field(serializers.DictField(child=serializers.CharField()))
    def get_as_stated(self, deal: Deal) -> dict[str, str]:
        return unread_of(deal)


class DealDetailSerializer(DealSerializer):
    """A deal with its lines, what differs from what was approved, what people `accepted` otherwise than it
    was ordered, why it was put forward, and its trail.

    `follows`: the deal in whose place this one is; `followed_by`: those in this one's place.
    """

    account = serializers.SerializerMethodField()
    followed_by = serializers.PrimaryKeyRelatedField[Deal](source="followers", many=True, read_only=True)
    lines = LineSerializer(many=True, read_only=True)
    audit = serializers.SerializerMethodField()

    class Meta(DealSerializer.Meta):
        fields = [
            *DealSerializer.Meta.fields,
            "account",
            "follows",
            "followed_by",
            "lines",
            "differences",
            "terms",
            "reasons",
            "audit",
        ]

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_account(self, deal: Deal) -> str | None:
        return str(deal.account) if deal.account else None

    @extend_schema_field(AuditEntrySerializer(many=True))
    def get_audit(self, deal: Deal) -> Any:
        return trail_data(trail_of("deal", deal.pk))


class ObservationSerializer(serializers.ModelSerializer[Observation]):
    """One thing that was seen of an operation, and what it led to."""

    class Meta:
        model = Observation
        fields = [
            "id",
            "channel",
            "kind",
            "status",
            "raw_status",
            "outcome",
            "note",
            "digest",
            "seller_at",
            "at",
        ]


class OperationSerializer(serializers.ModelSerializer[Operation]):
    """One AdCP task with one seller. `creative_deadline_as_stated`: what the seller stated of its deal last,
    where nobody can read a moment from it."""

    operation_id = serializers.UUIDField(source="id", read_only=True)
    seller = serializers.SlugField(source="seller.slug", read_only=True)
    webhook_configured = serializers.BooleanField(read_only=True)
    approval_id = serializers.SerializerMethodField()
    deal_id = serializers.SerializerMethodField()
    creative_deadline = serializers.SerializerMethodField()
    creative_deadline_as_stated = serializers.SerializerMethodField()

    class Meta:
        model = Operation
        fields = [
            "operation_id",
            "reference",
            "status",
            "status_since",
            "task_type",
            "seller",
            "requested_by",
            "task_id",
            "message",
            "webhook_configured",
            "approval_id",
            "deal_id",
            "creative_deadline",
            "creative_deadline_as_stated",
            "attempts",
            "polls",
            "sent_at",
            "deadline_at",
            "next_poll_at",
            "settled_by",
            "settled_at",
            "error",
            "created_at",
        ]

    def _behind(self, operation: Operation) -> Behind:
        found: dict[Any, Behind] = self.context.get("behind", {})
        return found.get(operation.pk, Behind())

    @extend_schema_field(serializers.UUIDField(allow_null=True))
    def get_approval_id(self, operation: Operation) -> Any:
        return self._behind(operation).approval_id

    @extend_schema_field(serializers.UUIDField(allow_null=True))
    def get_deal_id(self, operation: Operation) -> Any:
        return self._behind(operation).deal_id

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_creative_deadline(self, operation: Operation) -> Any:
        moment = self._behind(operation).creative_deadline
        return serializers.DateTimeField().to_representation(moment) if moment else None

    @extend_schema_field(serializers.CharField())
    def get_creative_deadline_as_stated(self, operation: Operation) -> str:
        return self._behind(operation).creative_deadline_as_stated


class OperationDetailSerializer(OperationSerializer):
    """An operation with its arguments (our credentials hidden), its result, and all that was seen of it."""

    observations = ObservationSerializer(many=True, read_only=True)

    class Meta(OperationSerializer.Meta):
        fields = [*OperationSerializer.Meta.fields, "request", "result", "observations"]


class AskSerializer(StrictSerializer):
    """A task for a seller: `arguments` as AdCP has them, `account` (our id or the seller's) where there are
    several; `team` (of the caller's, by id or name) where neither the account nor the brand says whose it
    is."""

    task = serializers.CharField(max_length=60, help_text=f"One of: {', '.join(TASKS)}")
    seller = serializers.CharField(max_length=60, help_text="The seller's slug")
    account = serializers.CharField(max_length=255, required=False, default="")
    team = serializers.CharField(max_length=255, required=False, default="")
    arguments = serializers.DictField(required=False, default=dict)
