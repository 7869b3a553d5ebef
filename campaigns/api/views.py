"""Campaigns: a brief comes in, everything that became of it goes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.exceptions import ParseError, PermissionDenied, ValidationError
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from campaigns.api.parsers import JSONBriefParser, YAMLBriefParser
from campaigns.api.selectors import campaigns_of
from campaigns.api.serializers import (
    KINDS_DECIDED,
    CampaignDetailSerializer,
    CampaignSerializer,
    DecideAllSerializer,
    DecidedAllSerializer,
    DecidedSerializer,
    PartsRefusedSerializer,
)
from campaigns.brief import Brief, Problem
from campaigns.decisions import NOT_DECIDED, Decided, campaign_asked, campaign_decide
from campaigns.models import Campaign, CampaignStatus
from campaigns.services import BriefRefusedError, SubmissionRefusedError, campaign_submit_once
from orders.questions import DEAL
from tasks_app.api.base import RoomViewSet, key_of, key_parameter
from tasks_app.api.problems import problem
from tasks_app.api.serializers import budgets_of
from tasks_app.api.unread import UNREAD_400, decision_body
from tasks_app.approvals.models import Approval
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE, SUBMIT_CAMPAIGN

VIEW_CAMPAIGN = "campaigns.view_campaign"


class CampaignFilter(filters.FilterSet):
    """Of one status."""

    status = filters.ChoiceFilter(choices=CampaignStatus.choices)

    class Meta:
        model = Campaign
        fields: list[str] = []


@extend_schema_view(
    list=extend_schema(summary="Campaigns, newest first"),
    retrieve=extend_schema(summary="One campaign, by id or reference"),
)
class CampaignViewSet(ListModelMixin, RetrieveModelMixin, RoomViewSet[Campaign]):
    """Briefs on their way to booked media."""

    queryset = Campaign.objects.all()
    rights = {
        "list": VIEW_CAMPAIGN,
        "retrieve": VIEW_CAMPAIGN,
        "create": SUBMIT_CAMPAIGN,
        "decide": DECIDE,
    }
    filterset_class = CampaignFilter

    def rows(self, viewer: User) -> QuerySet[Campaign]:
        rows = campaigns_of(viewer)
        return (
            rows.defer("brief", "outcome") if self.action == "list" else rows.prefetch_related("allocations")
        )

    def get_serializer_class(self) -> type[CampaignSerializer]:
        return CampaignDetailSerializer if self.action == "retrieve" else CampaignSerializer

    def get_parsers(self) -> list[BaseParser]:
        # At this moment the action is not known yet; a brief is what is posted to the room itself.
        method = str(self.request.method).lower() if self.request is not None else ""
        if self.action_map.get(method) == "create":
            return [JSONBriefParser(), YAMLBriefParser()]
        return super().get_parsers()

    @extend_schema(
        summary="Submit a brief",
        request={"application/json": Brief, "application/yaml": {"type": "string"}},
        parameters=[key_parameter("campaign")],
        responses={
            200: OpenApiResponse(CampaignSerializer, "The campaign that this key made before"),
            201: OpenApiResponse(
                CampaignSerializer,
                "A wrong brief is kept too: `validation_failed`, with every problem by field",
            ),
            400: OpenApiResponse(
                description="No brief at all, or none that says whose of your teams it is: nothing is kept"
            ),
            409: OpenApiResponse(description="The key was used for another brief, be it a wrong one"),
            413: OpenApiResponse(description="Larger than a brief may be"),
        },
    )
    def create(self, request: Request) -> Response:
        """A JSON object, or the same as YAML text. The campaign's job starts at once."""
        if request.stream is None:  # the parsers, which refuse what is no brief, are asked of a body alone
            raise ParseError("The body is empty: send a brief.")
        try:
            campaign, is_new = campaign_submit_once(
                user=self.viewer, raw=cast("dict[str, Any]", request.data), key=key_of(request)
            )
        except SubmissionRefusedError as error:
            raise PermissionDenied(str(error)) from error
        except BriefRefusedError as error:
            raise ValidationError(_by_field(error.problems)) from error
        if not is_new:
            campaign = get_object_or_404(
                self.get_queryset(), pk=campaign.pk
            )  # who made it may see it no more
        where = reverse("campaign-detail", kwargs={"id": campaign.pk}, request=request)
        told = CampaignSerializer(campaign).data
        return Response(told, status=201 if is_new else 200, headers={"Location": where})

    @extend_schema(
        summary="One word on all that waits",
        request=DecideAllSerializer,
        responses={
            200: DecidedAllSerializer,
            400: UNREAD_400,
            409: OpenApiResponse(PartsRefusedSerializer, "One of the parts was refused: none was decided"),
        },
    )
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def decide(self, request: Request, **_: Any) -> Response:
        """Every open recommendation (or approval of another `kind`) is decided one by one, on what was read
        of it, and reported; `parts` of one whole all together, or none of them."""
        campaign = self.get_object()
        said = decision_body(self, DecideAllSerializer, lambda: self._asked(campaign))
        if "parts" in said:
            currencies = {one.pk: one.currency for one in self._asked(campaign)}
            said["parts"] = {
                approval: budgets_of(lines, currencies.get(approval, ""))
                for approval, lines in said["parts"].items()
            }
        done = campaign_decide(campaign=campaign, user=self.viewer, shown=said.pop("approvals"), **said)
        refused = sum(1 for one in done if one.refused)
        if refused and "parts" in said:
            results = [DecidedSerializer(one).data for one in done]
            return problem(409, _first(done), code="parts_refused", results=results)
        report = {"decided": len(done) - refused, "refused": refused, "results": done}
        return Response(DecidedAllSerializer(report).data)

    def _asked(self, campaign: Campaign) -> list[Approval]:
        """What is asked now, of the kind that the body names."""
        kind = self.request.data.get("kind", DEAL) if isinstance(self.request.data, dict) else DEAL
        return campaign_asked(campaign, kind if kind in KINDS_DECIDED else DEAL)


def _by_field(problems: Sequence[Problem]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in problems:
        found.setdefault(one["field"], []).append(one["problem"])
    return found


def _first(done: Sequence[Decided]) -> str:
    """Why the first that was refused for itself was."""
    return next(one.refused for one in done if one.refused and one.code != NOT_DECIDED)
