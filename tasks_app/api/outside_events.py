"""Events from outside: delivered here, once each, to the step that waits for them by name."""

from __future__ import annotations

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from tasks_app.api.base import RoomViewSet, StrictSerializer
from tasks_app.api.problems import problem
from tasks_app.api.serializers import ShownField
from tasks_app.api.teams import TeamField
from tasks_app.jobs.outside import EventRefusedError, event_deliver
from tasks_app.jobs.outside_event import OutsideEvent
from tasks_app.jobs.selectors import outside_events_of
from tasks_app.people.models import User
from tasks_app.people.roles import DELIVER_EVENT

_VIEW = "tasks_app.view_outsideevent"


class OutsideEventSerializer(serializers.ModelSerializer[OutsideEvent]):
    """An event as it was kept. `step_id` and `job_id`: who took it; empty while it waits for its step."""

    job_id = serializers.UUIDField(source="step.job_id", read_only=True, default=None)
    payload = ShownField(read_only=True)

    class Meta:
        model = OutsideEvent
        fields = [
            "id",
            "name",
            "correlation",
            "payload",
            "idempotency_key",
            "delivered_by",
            "received_at",
            "step_id",
            "job_id",
            "taken_at",
        ]


class DeliveredSerializer(OutsideEventSerializer):
    """`duplicate`: it had come before, and nothing was done."""

    duplicate = serializers.BooleanField(read_only=True)

    class Meta(OutsideEventSerializer.Meta):
        fields = [*OutsideEventSerializer.Meta.fields, "duplicate"]


class DeliverSerializer(StrictSerializer):
    """Steps of the team's that wait for this name and correlation are resumed, one by each event."""

    name = serializers.CharField(max_length=80)
    correlation = serializers.CharField(required=False, allow_blank=True, default="", max_length=200)
    payload = serializers.DictField(required=False, default=dict)
    idempotency_key = serializers.CharField(max_length=200)
    team = TeamField()


class OutsideEventFilter(filters.FilterSet):
    """Of one name and correlation; taken by a step or not."""

    name = filters.CharFilter()
    correlation = filters.CharFilter()
    taken = filters.BooleanFilter(field_name="step", lookup_expr="isnull", exclude=True)

    class Meta:
        model = OutsideEvent
        fields: list[str] = []


@extend_schema_view(
    list=extend_schema(summary="Events from outside, newest first"),
    retrieve=extend_schema(summary="One event from outside, by id"),
)
class OutsideEventViewSet(ListModelMixin, RetrieveModelMixin, RoomViewSet[OutsideEvent]):
    """What happened elsewhere, and which step it resumed."""

    queryset = OutsideEvent.objects.all()
    rights = {"list": _VIEW, "retrieve": _VIEW, "create": DELIVER_EVENT}
    serializer_class = OutsideEventSerializer
    filterset_class = OutsideEventFilter
    lookup_value_regex = "[0-9a-fA-F-]{36}"

    def rows(self, viewer: User) -> QuerySet[OutsideEvent]:
        return outside_events_of(viewer)

    @extend_schema(
        summary="Deliver an event",
        request=DeliverSerializer,
        responses={
            202: OpenApiResponse(DeliveredSerializer, "Kept; the step that waits for it goes on"),
            409: OpenApiResponse(description="The key came with another event: IDEMPOTENCY_KEY_CONFLICT"),
        },
    )
    def create(self, request: Request) -> Response:
        """One that comes before its step waits is kept for it; the same key again does nothing."""
        said = self.read_body(DeliverSerializer)
        try:
            delivered = event_deliver(**said, actor=self.viewer)
        except EventRefusedError as error:
            return _refused(error)
        told = {**OutsideEventSerializer(delivered.event).data, "duplicate": delivered.duplicate}
        where = reverse("outside-event-detail", kwargs={"id": delivered.event.pk}, request=request)
        return Response(told, status=202, headers={"Location": where})


def _refused(error: EventRefusedError) -> Response:
    if error.code == "no_right":
        raise PermissionDenied(str(error)) from error
    if error.code == "invalid":
        raise ValidationError({error.field: [str(error)]}) from error
    return problem(409, str(error), code=error.code)
