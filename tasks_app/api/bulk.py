"""Retrying or cancelling many jobs through the API."""

from __future__ import annotations

import uuid
from typing import Any, cast

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from tasks_app.api.base import HasRight, StrictSerializer
from tasks_app.api.jobs import MOST_HOURS, JobFilter
from tasks_app.api.problems import ConflictError
from tasks_app.api.selectors import jobs_of
from tasks_app.jobs.bulk import MOST, REASON_LENGTH, BulkConflictError, Found, bulk_start
from tasks_app.jobs.endings import JobRefusedError
from tasks_app.jobs.models import JobStatus
from tasks_app.jobs.waits import WAIT_TYPES
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_JOB


class JobsWantedSerializer(StrictSerializer):
    """Which jobs, as the list of jobs is filtered; all of it holds."""

    status = serializers.ChoiceField(choices=JobStatus.choices, required=False)
    recipe = serializers.CharField(max_length=60, required=False)
    subject_type = serializers.CharField(max_length=32, required=False)
    subject_id = serializers.UUIDField(required=False)
    waiting_for = serializers.ChoiceField(choices=WAIT_TYPES, required=False)
    failing = serializers.BooleanField(required=False)
    retrying = serializers.BooleanField(required=False)
    older_than_h = serializers.FloatField(min_value=0, max_value=MOST_HOURS, required=False)


class BulkSerializer(StrictSerializer):
    """What to do, to which (`ids`, or a `filter` that says something), and why. `request_id` makes it safe to
    send twice: the second answers the first one's job."""

    action = serializers.ChoiceField(choices=["retry", "cancel"])
    ids = serializers.ListField(
        child=serializers.UUIDField(), allow_empty=False, max_length=MOST, required=False
    )
    filter = JobsWantedSerializer(required=False)
    reason = serializers.CharField(max_length=REASON_LENGTH)
    request_id = serializers.UUIDField(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("ids" in attrs) == bool(attrs.get("filter")):
            raise serializers.ValidationError({"ids": ["Say ids or a filter that asks for something."]})
        return attrs


class BulkStartedSerializer(serializers.Serializer[Any]):
    """The job that does it: its steps report on each of the `jobs`."""

    id = serializers.UUIDField()
    reference = serializers.CharField()
    jobs = serializers.IntegerField()


class BulkViewSet(ViewSet):
    """Many jobs at once."""

    permission_classes: tuple[type[BasePermission], ...] = (HasRight,)
    rights = {"create": STEER_JOB}

    @extend_schema(
        summary="Retry or cancel many jobs",
        request=BulkSerializer,
        responses={
            202: BulkStartedSerializer,
            409: OpenApiResponse(description="Nothing found, too many, of several teams, or another request"),
        },
    )
    def create(self, request: Request) -> Response:
        """Starts a job that does it to each in turn, as the one who asked, and reports done or refused."""
        read = BulkSerializer(data=request.data)
        read.is_valid(raise_exception=True)
        said, user = read.validated_data, cast("User", request.user)
        try:
            job = bulk_start(
                act=said["action"],
                ids=said.get("ids", ()),
                found=_found(said["filter"], user) if "filter" in said else None,
                reason=said["reason"],
                user=user,
                request_id=said.get("request_id") or uuid.uuid4(),
            )
        except (JobRefusedError, BulkConflictError) as error:
            raise ConflictError(str(error)) from error
        told = {"id": job.pk, "reference": job.reference, "jobs": len(job.inputs["jobs"])}
        return Response(BulkStartedSerializer(told).data, status=202)


def _found(wanted: dict[str, Any], user: User) -> Found:
    """What the list's own filter finds, hidden jobs never. Raises ValidationError for what that cannot read:
    it would leave it out, and find everything."""
    said = {name: str(value) for name, value in wanted.items()}
    chosen = JobFilter(said, queryset=jobs_of(user).exclude(status=JobStatus.DELETED))
    if not chosen.is_valid():
        unread = {name: list(why) for name, why in chosen.errors.items()}
        raise serializers.ValidationError({"filter": unread})
    return Found(rows=chosen.qs, said=said)
