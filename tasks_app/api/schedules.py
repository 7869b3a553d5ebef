"""Schedules: recipes that start at a time or by cron."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from tasks_app.api.base import RoomViewSet, StrictSerializer, key_of, key_parameter
from tasks_app.api.selectors import jobs_of
from tasks_app.api.serializers import JobSerializer
from tasks_app.api.teams import TeamField
from tasks_app.jobs.schedule import Schedule, ScheduleEntry
from tasks_app.jobs.schedules import (
    ScheduleDraft,
    ScheduleRefusedError,
    schedule_create,
    schedule_pause,
    schedule_resume,
    schedule_run_now,
)
from tasks_app.jobs.selectors import schedules_of
from tasks_app.people.models import User
from tasks_app.people.roles import SCHEDULE_JOB

_VIEW = "tasks_app.view_schedule"
_ENTRIES_SHOWN = 50


class ScheduleSerializer(serializers.ModelSerializer[Schedule]):
    """A recipe with its inputs, and when it starts."""

    team = serializers.CharField(source="team.name", read_only=True)

    class Meta:
        model = Schedule
        fields = [
            "id",
            "name",
            "team",
            "recipe",
            "inputs",
            "start_at",
            "cron",
            "zone",
            "missed",
            "priority",
            "paused",
            "actor",
            "created_at",
            "next_due_at",
            "last_due_at",
        ]


class ScheduleEntrySerializer(serializers.ModelSerializer[ScheduleEntry]):
    """What happened to it, and who did it."""

    class Meta:
        model = ScheduleEntry
        fields = ["at", "kind", "by", "due_at", "job_id", "note", "changes"]


class ScheduleDetailSerializer(ScheduleSerializer):
    """With its latest entries, newest first."""

    entries = serializers.SerializerMethodField()

    class Meta(ScheduleSerializer.Meta):
        fields = [*ScheduleSerializer.Meta.fields, "entries"]

    @extend_schema_field(ScheduleEntrySerializer(many=True))
    def get_entries(self, schedule: Schedule) -> list[dict[str, Any]]:
        rows = schedule.entries.order_by("-id")[:_ENTRIES_SHOWN]
        return list(ScheduleEntrySerializer(rows, many=True).data)


class ScheduleDraftSerializer(StrictSerializer):
    """One of `start_at` and `cron` (five fields, in `zone`)."""

    name = serializers.CharField(max_length=80)
    team = TeamField()
    recipe = serializers.CharField(max_length=60)
    inputs = serializers.DictField(required=False)
    start_at = serializers.DateTimeField(required=False, allow_null=True)
    cron = serializers.CharField(required=False, allow_blank=True, max_length=120)
    zone = serializers.CharField(required=False, max_length=64)
    missed = serializers.ChoiceField(choices=Schedule.Missed.choices, required=False)
    priority = serializers.IntegerField(required=False, min_value=0, max_value=1000)


class ScheduleFilter(filters.FilterSet):
    """Of one recipe; paused or not."""

    recipe = filters.CharFilter()
    paused = filters.BooleanFilter()

    class Meta:
        model = Schedule
        fields: list[str] = []


@extend_schema_view(
    list=extend_schema(summary="Schedules, newest first"),
    retrieve=extend_schema(summary="One schedule, by id"),
)
class ScheduleViewSet(ListModelMixin, RetrieveModelMixin, RoomViewSet[Schedule]):
    """Recipes that start at a time or by cron."""

    queryset = Schedule.objects.all()
    rights = {
        "list": _VIEW,
        "retrieve": _VIEW,
        "create": SCHEDULE_JOB,
        "pause": SCHEDULE_JOB,
        "resume": SCHEDULE_JOB,
        "run": SCHEDULE_JOB,
    }
    filterset_class = ScheduleFilter
    lookup_value_regex = "[0-9a-fA-F-]{36}"

    def rows(self, viewer: User) -> QuerySet[Schedule]:
        return schedules_of(viewer)

    def get_serializer_class(self) -> type[ScheduleSerializer]:
        return ScheduleSerializer if self.action == "list" else ScheduleDetailSerializer

    @extend_schema(
        summary="Make a schedule",
        request=ScheduleDraftSerializer,
        responses={
            201: ScheduleDetailSerializer,
            400: OpenApiResponse(description="What is wrong, by field"),
        },
    )
    def create(self, request: Request) -> Response:
        """Its jobs are started in your name, as long as you may."""
        said = self.read_body(ScheduleDraftSerializer)
        schedule = _done(lambda: schedule_create(draft=ScheduleDraft(**said), actor=self.viewer))
        where = reverse("schedule-detail", kwargs={"id": schedule.pk}, request=request)
        return Response(ScheduleDetailSerializer(schedule).data, status=201, headers={"Location": where})

    @extend_schema(summary="Pause", request=None, responses=ScheduleDetailSerializer)
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def pause(self, request: Request, **_: Any) -> Response:
        """Starts nothing until it is resumed."""
        return self._steered(schedule_pause)

    @extend_schema(summary="Resume", request=None, responses=ScheduleDetailSerializer)
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def resume(self, request: Request, **_: Any) -> Response:
        """Goes on with the next time; what was due meanwhile is not made up for."""
        return self._steered(schedule_resume)

    @extend_schema(
        summary="Run now", request=None, parameters=[key_parameter("job")], responses={201: JobSerializer}
    )
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def run(self, request: Request, **_: Any) -> Response:
        """Starts the recipe at once, in your name; answers the job."""
        schedule = self.get_object()
        key = key_of(request)
        job = _done(lambda: schedule_run_now(schedule_id=schedule.pk, actor=self.viewer, key=key))
        where = reverse("job-detail", kwargs={"id": job.pk}, request=request)
        told = JobSerializer(jobs_of(self.viewer).get(pk=job.pk)).data
        return Response(told, status=201, headers={"Location": where})

    def _steered(self, service: Callable[..., Schedule]) -> Response:
        schedule = self.get_object()
        _done(lambda: service(schedule_id=schedule.pk, actor=self.viewer))
        return Response(ScheduleDetailSerializer(self.get_object()).data)


def _done(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except ScheduleRefusedError as error:
        if error.code == "no_right":
            raise PermissionDenied(str(error)) from error
        raise ValidationError(error.errors) from error
