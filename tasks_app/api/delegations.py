"""Who stands in for whom while they are away."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from tasks_app.api.base import RoomViewSet, StrictSerializer
from tasks_app.api.people import PersonField
from tasks_app.api.problems import ConflictError
from tasks_app.approvals.delegation import (
    DelegationRefusedError,
    delegation_create,
    delegation_end,
    delegations_of,
)
from tasks_app.approvals.records import Delegation
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE

_REFUSED = OpenApiResponse(description="Not theirs to make or end, or it cannot be; the title says why")


class DelegationSerializer(serializers.ModelSerializer[Delegation]):
    """People by username; in force within [`starts_at`, `ends_at`) unless ended before."""

    delegator = serializers.CharField(source="delegator.username", read_only=True)
    delegate = serializers.CharField(source="delegate.username", read_only=True)

    class Meta:
        model = Delegation
        fields = [
            "id",
            "delegator",
            "delegate",
            "starts_at",
            "ends_at",
            "reason",
            "made_by",
            "made_at",
            "ended_by",
            "ended_at",
        ]


class DelegationDraftSerializer(StrictSerializer):
    """Who decides in whose place (the viewer's own, unless they administer people), from when to when."""

    delegate = PersonField()
    delegator = PersonField(required=False)
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField(required=False, allow_blank=True, default="", max_length=200)


@extend_schema_view(
    list=extend_schema(summary="Delegations you gave or hold; all of them for administrators"),
    retrieve=extend_schema(summary="One delegation, by id"),
)
class DelegationViewSet(ListModelMixin, RetrieveModelMixin, RoomViewSet[Delegation]):
    """While somebody is away another decides in their place, and both names are recorded."""

    queryset = Delegation.objects.all()
    rights = dict.fromkeys(("list", "retrieve", "create", "end"), DECIDE)
    serializer_class = DelegationSerializer
    lookup_value_regex = "[0-9a-fA-F-]{36}"

    def rows(self, viewer: User) -> QuerySet[Delegation]:
        return delegations_of(viewer)

    @extend_schema(
        summary="Delegate",
        request=DelegationDraftSerializer,
        responses={201: DelegationSerializer, 409: _REFUSED},
    )
    def create(self, request: Request) -> Response:
        """Both are told. Who stands in must be allowed to decide themselves."""
        said = self.read_body(DelegationDraftSerializer)
        try:
            made = delegation_create(user=self.viewer, **{"delegator": self.viewer, **said})
        except DelegationRefusedError as error:
            raise ConflictError(str(error)) from error
        return Response(DelegationSerializer(made).data, status=201)

    @extend_schema(
        summary="End a delegation", request=None, responses={200: DelegationSerializer, 409: _REFUSED}
    )
    @action(detail=True, methods=["post"], pagination_class=None)
    def end(self, request: Request, **_: Any) -> Response:
        """At once; by the one who is away, who stands in, or an administrator."""
        try:
            ended = delegation_end(delegation_id=self.get_object().pk, user=self.viewer)
        except DelegationRefusedError as error:
            raise ConflictError(str(error)) from error
        return Response(DelegationSerializer(ended).data)
