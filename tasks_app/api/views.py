"""Jobs and approvals."""

from __future__ import annotations

from collections.abc import Callable
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
from tasks_app.api.selectors import approvals_of, job_graph, jobs_of
from tasks_app.api.serializers import (
    ApprovalDetailSerializer,
    ApprovalSerializer,
    DecideSerializer,
    GraphSerializer,
    JobDetailSerializer,
    JobSerializer,
    ReasonSerializer,
    RetrySerializer,
)
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.jobs.endings import JobRefusedError, job_cancel, job_hide
from tasks_app.jobs.models import Job, JobStatus
from tasks_app.jobs.retrying import job_retry
from tasks_app.lifecycle.transitions import allowed_transitions
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE, STEER_JOB

VIEW_JOB, VIEW_APPROVAL = "tasks_app.view_job", "tasks_app.view_approval"
_STEERED = {200: JobDetailSerializer, 409: OpenApiResponse(description="Its state does not allow it")}


class JobFilter(filters.FilterSet):
    """Of one status, one recipe, one subject."""

    status = filters.ChoiceFilter(choices=JobStatus.choices)
    recipe = filters.CharFilter()
    subject_id = filters.UUIDFilter()

    class Meta:
        model = Job
        fields: list[str] = []


@extend_schema_view(
    list=extend_schema(summary="Jobs, newest first"),
    retrieve=extend_schema(summary="One job, by id or reference"),
)
class JobViewSet(ListModelMixin, RetrieveModelMixin, RoomViewSet[Job]):
    """Runs of recipes."""

    queryset = Job.objects.all()
    rights = {
        "list": VIEW_JOB,
        "retrieve": VIEW_JOB,
        "graph": VIEW_JOB,
        "cancel": STEER_JOB,
        "retry": STEER_JOB,
        "hide": STEER_JOB,
    }
    filterset_class = JobFilter

    def rows(self, viewer: User) -> QuerySet[Job]:
        """Hidden ones are listed only when their status is asked for."""
        asked = self.action != "list" or "status" in self.request.query_params
        return jobs_of(viewer) if asked else jobs_of(viewer).exclude(status=JobStatus.DELETED)

    def get_serializer_class(self) -> type[JobSerializer]:
        return JobSerializer if self.action == "list" else JobDetailSerializer

    @extend_schema(summary="The job's graph", responses=GraphSerializer)
    @action(detail=True, filterset_class=None, pagination_class=None)
    def graph(self, request: Request, **_: Any) -> Response:
        """Nodes and edges; fan-outs and nested jobs included."""
        return Response(GraphSerializer(job_graph(self.get_object())).data)

    @extend_schema(summary="Cancel", request=ReasonSerializer, responses=_STEERED)
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def cancel(self, request: Request, **_: Any) -> Response:
        """Ends its open steps, withdraws what people were asked and what was not sent; nested jobs too."""
        said = self.read_body(ReasonSerializer)
        return self._steered(job_cancel, actor=self.viewer, reason=said["reason"])

    @extend_schema(summary="Retry", request=RetrySerializer, responses=_STEERED)
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def retry(self, request: Request, **_: Any) -> Response:
        """A new job that adopts what the failed one has done; answers the new one."""
        return self._steered(job_retry, actor=self.viewer, **self.read_body(RetrySerializer))

    @extend_schema(summary="Hide from lists", request=None, responses=_STEERED)
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def hide(self, request: Request, **_: Any) -> Response:
        """Hides a job that has ended; its trail stays."""
        return self._steered(job_hide, actor=self.viewer)

    def _steered(self, service: Callable[..., Job], **arguments: Any) -> Response:
        job = self.get_object()
        try:
            steered = service(job_id=job.pk, **arguments)
        except JobRefusedError as error:
            now = self.get_object()
            allowed = list(allowed_transitions(now))
            return problem(409, str(error), code="refused", status_now=now.status, allowed=allowed)
        return Response(JobDetailSerializer(self.rows(self.viewer).get(pk=steered.pk)).data)


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
