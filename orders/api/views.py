"""Deals, and operations with sellers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from orders.api.selectors import behind, deals_of, operations_of
from orders.api.serializers import (
    AskSerializer,
    DealDetailSerializer,
    DealSerializer,
    OperationDetailSerializer,
    OperationSerializer,
)
from orders.ask import AskConflictError, AskRefusedError
from orders.changes.send import withdraw_change
from orders.models import Deal, DealStatus
from orders.requests import AskForbiddenError, operation_ask
from tasks_app.api.base import RoomViewSet, key_of, key_parameter
from tasks_app.api.problems import ConflictError
from tasks_app.api.serializers import ReasonSerializer
from tasks_app.api.steering import STEERING_RIGHTS, SteeringActions
from tasks_app.operations.models import SETTLED, Operation, OperationStatus
from tasks_app.people.models import User
from tasks_app.people.roles import SEND_OPERATION

VIEW_DEAL, VIEW_OPERATION = "orders.view_deal", "tasks_app.view_operation"


class DealFilter(filters.FilterSet):
    """By status, the seller's slug, the campaign's id."""

    status = filters.ChoiceFilter(choices=DealStatus.choices)
    seller = filters.CharFilter(field_name="seller__slug")
    campaign = filters.UUIDFilter(field_name="campaign_id")

    class Meta:
        model = Deal
        fields: list[str] = []


@extend_schema_view(
    list=extend_schema(summary="Deals, newest first"),
    retrieve=extend_schema(summary="One deal, by id or reference: approved beside confirmed, and its trail"),
)
class DealViewSet(ListModelMixin, RetrieveModelMixin, RoomViewSet[Deal]):
    """Media buys."""

    queryset = Deal.objects.all()
    rights = {"list": VIEW_DEAL, "retrieve": VIEW_DEAL}
    filterset_class = DealFilter

    def rows(self, viewer: User) -> QuerySet[Deal]:
        return deals_of(viewer)

    def get_serializer_class(self) -> type[DealSerializer]:
        return DealSerializer if self.action == "list" else DealDetailSerializer


class OperationFilter(filters.FilterSet):
    """By status, the seller's slug, the task."""

    status = filters.ChoiceFilter(choices=OperationStatus.choices)
    seller = filters.CharFilter(field_name="seller__slug")
    task_type = filters.CharFilter()

    class Meta:
        model = Operation
        fields: list[str] = []


@extend_schema_view(
    list=extend_schema(summary="Operations, newest first"),
    retrieve=extend_schema(
        summary="One operation, by id or reference: what was asked, answered and observed",
        responses=OperationDetailSerializer,
    ),
)
class OperationViewSet(ListModelMixin, RetrieveModelMixin, SteeringActions):
    """AdCP tasks with sellers."""

    queryset = Operation.objects.all()
    rights = {
        "list": VIEW_OPERATION,
        "retrieve": VIEW_OPERATION,
        "create": SEND_OPERATION,
        "withdraw": SEND_OPERATION,
        **STEERING_RIGHTS,
    }
    filterset_class = OperationFilter
    serializer_class = OperationSerializer

    def rows(self, viewer: User) -> QuerySet[Operation]:
        return operations_of(viewer, whole=self.action != "list")

    def list(self, request: Request, *_: Any, **__: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        operations = cast("Sequence[Operation]", page)
        shown = OperationSerializer(operations, many=True, context={"behind": behind(operations)})
        return self.get_paginated_response(shown.data)

    def retrieve(self, request: Request, *_: Any, **__: Any) -> Response:
        return Response(_whole(self.get_object()))

    @extend_schema(
        summary="Send a task to a seller",
        request=AskSerializer,
        parameters=[key_parameter("operation")],
        responses={
            200: OpenApiResponse(OperationDetailSerializer, "A read, with the seller's answer"),
            202: OpenApiResponse(
                OperationDetailSerializer,
                "Waits for people (`requested`, `approval_id`), or for a seller that has not answered yet",
            ),
            409: OpenApiResponse(
                description="The key was used before, or the deal's state does not allow it"
            ),
        },
    )
    def create(self, request: Request) -> Response:
        """Reads are made at once. What spends money makes a deal and an approval; nothing is sent before."""
        asked = self.read_body(AskSerializer)
        try:
            made = operation_ask(user=self.viewer, key=key_of(request), **asked)
        except AskForbiddenError as error:
            raise PermissionDenied(str(error)) from error
        except AskRefusedError as error:
            raise ValidationError({field: [what] for field, what in error.problems.items()}) from error
        except AskConflictError as error:
            raise ConflictError(str(error)) from error
        operation = get_object_or_404(self.get_queryset(), pk=made.pk)
        where = reverse("operation-detail", kwargs={"id": operation.pk}, request=request)
        status = 200 if operation.status in SETTLED else 202
        return Response(_whole(operation), status=status, headers={"Location": where})

    @extend_schema(
        summary="Withdraw a change of a media buy",
        request=ReasonSerializer,
        responses={
            200: OperationDetailSerializer,
            409: OpenApiResponse(description="Somebody else asked for it, or it was sent"),
        },
    )
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def withdraw(self, request: Request, **_: Any) -> Response:
        """Withdraws a change that you asked for and that was not sent. Its reservation is released."""
        said = self.read_body(ReasonSerializer)
        try:
            withdraw_change(operation_id=self.get_object().pk, user=self.viewer, reason=said["reason"])
        except AskConflictError as error:
            raise ConflictError(str(error)) from error
        return Response(_whole(self.get_object()))


def _whole(operation: Operation) -> Any:
    return OperationDetailSerializer(operation, context={"behind": behind([operation])}).data
