"""Approvals."""

from __future__ import annotations

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin

from tasks_app.api.deciding import DECIDING_RIGHTS, DecidingActions
from tasks_app.api.selectors import approvals_of
from tasks_app.api.serializers import ApprovalDetailSerializer, ApprovalSerializer
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.spending import with_stakes
from tasks_app.people.models import User

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
class ApprovalViewSet(ListModelMixin, RetrieveModelMixin, DecidingActions):
    """Questions to people."""

    queryset = Approval.objects.all()
    rights = {"list": VIEW_APPROVAL, "retrieve": VIEW_APPROVAL, **DECIDING_RIGHTS}
    filterset_class = ApprovalFilter

    def rows(self, viewer: User) -> QuerySet[Approval]:
        rows = approvals_of(viewer)
        if self.action == "list":
            return with_stakes(rows.prefetch_related(None))
        return rows.select_related("replaces")

    def get_serializer_class(self) -> type[ApprovalSerializer]:
        return ApprovalSerializer if self.action == "list" else ApprovalDetailSerializer
