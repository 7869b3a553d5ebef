"""Approvals."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from tasks_app.api.base import RoomViewSet
from tasks_app.api.problems import problem
from tasks_app.api.selectors import approvals_of
from tasks_app.api.serializers import (
    ApprovalDetailSerializer,
    ApprovalSerializer,
    DecideSerializer,
)
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.lifecycle.transitions import allowed_transitions
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE

VIEW_APPROVAL = "tasks_app.view_approval"


class ApprovalFilter(filters.FilterSet):
    """`pending` is another word for open."""

    status = filters.ChoiceFilter(
        choices=[("pending", "pending"), *ApprovalStatus.choices], method="with_status"
    )
    kind = filters.CharFilter()
    subject_id = filters.UUIDFilter()

    class Meta:
        model = Approval
        fields: list[str] = []

    def with_status(self, queryset: QuerySet[Approval], _name: str, value: str) -> QuerySet[Approval]:
        return queryset.filter(status=ApprovalStatus.OPEN if value == "pending" else value)


@extend_schema_view(
    list=extend_schema(summary="Approvals, newest first"),
    retrieve=extend_schema(summary="One approval, by id or reference: evidence, effects, decisions"),
)
class ApprovalViewSet(ListModelMixin, RetrieveModelMixin, RoomViewSet[Approval]):
    """Questions to people."""

    queryset = Approval.objects.all()
    rights = {"list": VIEW_APPROVAL, "retrieve": VIEW_APPROVAL, "decide": DECIDE}
    filterset_class = ApprovalFilter

    def rows(self, viewer: User) -> QuerySet[Approval]:
        return approvals_of(viewer)

    def get_serializer_class(self) -> type[ApprovalSerializer]:
        return ApprovalSerializer if self.action == "list" else ApprovalDetailSerializer

    @extend_schema(
        summary="Approve or reject",
        request=DecideSerializer,
        responses={
            200: ApprovalDetailSerializer,
            409: OpenApiResponse(description="Decided already, expired, or what was shown has changed"),
        },
    )
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def decide(self, request: Request, **_: Any) -> Response:
        """Records the viewer's decision; where it settles the question, its effect in the same commit."""
        said = self.read_body(DecideSerializer)
        approval = self.get_object()
        try:
            approval_decide(
                approval_id=approval.pk,
                user=self.viewer,
                verdict=said["verdict"],
                comment=said["comment"],
                expected_digest=said["evidence_digest"],
            )
        except DecisionRefusedError as error:
            if error.code not in ("not_open", "already_decided", "changed"):
                raise
            now = self.get_object()
            return problem(
                409,
                str(error),
                code=error.code,
                status_now=now.status,
                allowed=list(allowed_transitions(now)),
            )
        return Response(ApprovalDetailSerializer(self.get_object()).data)
