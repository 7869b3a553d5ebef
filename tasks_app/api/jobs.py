"""Jobs: runs of recipes, their graphs, and what people do about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from tasks_app.api.base import RoomViewSet
from tasks_app.api.job_events import (
    EventPageSerializer,
    EventsAskedSerializer,
    EventStreamRenderer,
    events_answer,
)
from tasks_app.api.job_graph import (
    GraphAskedSerializer,
    GraphSerializer,
    NodeSerializer,
    StepsAskedSerializer,
)
from tasks_app.api.job_steering import (
    InputSerializer,
    PrioritySerializer,
    ResumedSerializer,
    ResumeSerializer,
    SkipSerializer,
)
from tasks_app.api.problems import problem
from tasks_app.api.selectors import jobs_of
from tasks_app.api.serializers import JobDetailSerializer, JobSerializer, ReasonSerializer, RetrySerializer
from tasks_app.jobs import finding
from tasks_app.jobs.endings import JobRefusedError, job_cancel, job_hide
from tasks_app.jobs.graph import graph_version, job_graph, job_steps
from tasks_app.jobs.models import Job, JobStatus, Step
from tasks_app.jobs.progress import resume_token, workflow_statuses
from tasks_app.jobs.resuming import job_resume
from tasks_app.jobs.retrying import job_retry
from tasks_app.jobs.steering import job_priority_set, step_input_give, step_skip
from tasks_app.jobs.waits import WAIT_TYPES
from tasks_app.lifecycle.transitions import allowed_transitions
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_JOB

VIEW_JOB = "tasks_app.view_job"
STEERED = {200: JobDetailSerializer, 409: OpenApiResponse(description="Its state does not allow it")}
MOST_HOURS = 24 * 3660
_LAST_ID = OpenApiParameter(
    "Last-Event-ID", int, OpenApiParameter.HEADER, description="Of a stream: the last event that was received"
)
_UNCHANGED = OpenApiParameter("If-None-Match", str, OpenApiParameter.HEADER, description="The ETag known")


class JobFilter(filters.FilterSet):
    """Of one status, recipe or subject; that wait for one kind of thing; that fail or try again; of an age.

    As the list of the pages finds them (`jobs.finding`). `failing`: the job failed, or is open and a step of
    it has; `retrying`: a step of an open job has failed and waits for its next try, or has it now;
    `older_than_h`: begun at least so many hours ago.
    """

    status = filters.ChoiceFilter(choices=JobStatus.choices)
    recipe = filters.CharFilter()
    subject_type = filters.CharFilter()
    subject_id = filters.UUIDFilter()
    waiting_for = filters.ChoiceFilter(choices=WAIT_TYPES, method="waiting_for_one")
    failing = filters.BooleanFilter(method="with_failed")
    retrying = filters.BooleanFilter(method="with_retried")
    older_than_h = filters.NumberFilter(method="of_age", min_value=0, max_value=MOST_HOURS)

    class Meta:
        model = Job
        fields: list[str] = []

    def waiting_for_one(self, queryset: QuerySet[Job], _name: str, value: str) -> QuerySet[Job]:
        return queryset.filter(finding.waiting_for(value))

    def with_failed(self, queryset: QuerySet[Job], _name: str, value: bool) -> QuerySet[Job]:
        return queryset.filter(finding.failing() if value else ~finding.failing())

    def with_retried(self, queryset: QuerySet[Job], _name: str, value: bool) -> QuerySet[Job]:
        return queryset.filter(finding.retrying() if value else ~finding.retrying())

    def of_age(self, queryset: QuerySet[Job], _name: str, value: Any) -> QuerySet[Job]:
        return queryset.filter(finding.older_than(timedelta(hours=float(value))))


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
        "events": VIEW_JOB,
        "cancel": STEER_JOB,
        "retry": STEER_JOB,
        "hide": STEER_JOB,
        "steps": VIEW_JOB,
        "skip": STEER_JOB,
        "give": STEER_JOB,
        "priority": STEER_JOB,
        "resume": STEER_JOB,
    }
    filterset_class = JobFilter

    def rows(self, viewer: User) -> QuerySet[Job]:
        """Hidden ones are listed only when their status is asked for."""
        if self.action != "list":
            return jobs_of(viewer)
        rows = jobs_of(viewer).defer("inputs", "outputs")
        return rows if "status" in self.request.query_params else rows.exclude(status=JobStatus.DELETED)

    def get_serializer_class(self) -> type[JobSerializer]:
        return JobSerializer if self.action == "list" else JobDetailSerializer

    def paginate_queryset(self, queryset: Any) -> Any:
        """A page, with each job's workflow status: one query for all of them."""
        page = super().paginate_queryset(queryset)
        return page if page is None else _with_workflow(page)

    def get_object(self) -> Job:
        return _with_workflow([super().get_object()])[0]

    @extend_schema(
        summary="The job's graph",
        parameters=[GraphAskedSerializer, _UNCHANGED],
        responses={200: GraphSerializer, 304: OpenApiResponse(description="Nothing has changed")},
    )
    @action(detail=True, filterset_class=None, pagination_class=None)
    def graph(self, request: Request, **_: Any) -> Response:
        """Nodes, edges, what each step waits for, and the critical path. Fan-outs of more than 50 items are
        folded to counts. Pollers send the ETag they know, and are told 304 while nothing has changed."""
        asked = GraphAskedSerializer(data=request.query_params)
        asked.is_valid(raise_exception=True)
        job = super().get_object()
        after, values = asked.validated_data.get("after"), asked.validated_data["values"]
        tag = f'W/"{graph_version(job)}-{after or ""}-{values:d}"'
        headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
        if _known(request.headers.get("If-None-Match", ""), tag):
            return Response(status=304, headers=headers)
        return Response(GraphSerializer(job_graph(job, after=after, values=values)).data, headers=headers)

    @extend_schema(
        summary="The job's events",
        description="Oldest first, by id. As text/event-stream: what has happened, then what happens until "
        "the job is over (`event: end`); a client that comes again with Last-Event-ID misses nothing and "
        "gets nothing twice.",
        parameters=[EventsAskedSerializer, _LAST_ID],
        responses={
            (200, "application/json"): EventPageSerializer,
            (200, "text/event-stream"): OpenApiTypes.STR,
        },
    )
    @action(
        detail=True,
        filterset_class=None,
        pagination_class=None,
        renderer_classes=[JSONRenderer, EventStreamRenderer],
    )
    def events(self, request: Request, **_: Any) -> Response:
        """Pages, or a stream that `tasks_app.api.streams` keeps open."""
        return events_answer(request, super().get_object())

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        if self.action == "events" and request.query_params.get("stream") in ("1", "true"):
            return EventStreamRenderer(), EventStreamRenderer.media_type
        return super().perform_content_negotiation(request, force)

    @extend_schema(summary="Cancel", request=ReasonSerializer, responses=STEERED)
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def cancel(self, request: Request, **_: Any) -> Response:
        """Ends its open steps, withdraws what people were asked and what was not sent; nested jobs too."""
        said = self.read_body(ReasonSerializer)
        return self._steered(job_cancel, actor=self.viewer, reason=said["reason"])

    @extend_schema(summary="Retry", request=RetrySerializer, responses=STEERED)
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def retry(self, request: Request, **_: Any) -> Response:
        """A new job that adopts what the failed one has done; answers the new one."""
        return self._steered(job_retry, actor=self.viewer, **self.read_body(RetrySerializer))

    @extend_schema(summary="Hide from lists", request=None, responses=STEERED)
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def hide(self, request: Request, **_: Any) -> Response:
        """Hides a job that has ended; its trail stays."""
        return self._steered(job_hide, actor=self.viewer)

    @extend_schema(
        summary="The job's steps", parameters=[StepsAskedSerializer], responses=NodeSerializer(many=True)
    )
    @action(detail=True, filterset_class=None)
    def steps(self, request: Request, **_: Any) -> Response:
        """Newest first, in pages: the way to the items of a fan-out that the graph folds."""
        asked = StepsAskedSerializer(data=request.query_params)
        asked.is_valid(raise_exception=True)
        job, said = super().get_object(), asked.validated_data
        narrowed = {name: said[name] for name in ("fan_out", "status") if name in said}
        rows: Any = Step.objects.filter(job=job, **narrowed)  # not of this room's model
        nodes: Any = job_steps(job, super().paginate_queryset(rows) or (), values=said["values"])
        return self.get_paginated_response(NodeSerializer(nodes, many=True).data)

    @extend_schema(summary="Skip a step", request=SkipSerializer, responses=STEERED)
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def skip(self, request: Request, **_: Any) -> Response:
        """Counts a step that waits for something, or for a worker, as done without its result."""
        said = self.read_body(SkipSerializer)
        step = self._step(said["step"])
        return self._answered(lambda: step_skip(step_id=step.pk, actor=self.viewer, reason=said["reason"]))

    @extend_schema(summary="Give a step its event", request=InputSerializer, responses=STEERED)
    @action(detail=True, methods=["post"], url_path="input", filterset_class=None, pagination_class=None)
    def give(self, request: Request, **_: Any) -> Response:
        """What a step waits for from outside, given by a person: this step alone goes on with it."""
        said = self.read_body(InputSerializer)
        given = {"step_id": self._step(said["step"]).pk, "payload": said["payload"]}
        return self._answered(lambda: step_input_give(**given, actor=self.viewer, reason=said["reason"]))

    @extend_schema(summary="Change its turn", request=PrioritySerializer, responses=STEERED)
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def priority(self, request: Request, **_: Any) -> Response:
        """The lower number goes first: the job, its steps that have not ended, and nested jobs."""
        return self._steered(job_priority_set, actor=self.viewer, **self.read_body(PrioritySerializer))

    @extend_schema(
        summary="Resume",
        request=ResumeSerializer,
        responses={200: ResumedSerializer, 409: STEERED[409]},
    )
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def resume(self, request: Request, **_: Any) -> Response:
        """Lets steps go on whose wait is over. Takes the graph's resume token; a doubled or older one wakes
        none."""
        said, job = self.read_body(ResumeSerializer), super().get_object()
        try:
            woken = job_resume(job_id=job.pk, token=said["resume_token"], actor=self.viewer)
        except JobRefusedError as error:
            return self._refused(error)
        return Response({"woken": woken, "resume_token": resume_token(job)})

    def _steered(self, service: Callable[..., Job], **arguments: Any) -> Response:
        job = super().get_object()
        return self._answered(lambda: service(job_id=job.pk, **arguments))

    def _answered(self, act: Callable[[], Job]) -> Response:
        try:
            steered = act()
        except JobRefusedError as error:
            return self._refused(error)
        now = _with_workflow([self.rows(self.viewer).get(pk=steered.pk)])[0]
        return Response(JobDetailSerializer(now).data)

    def _refused(self, error: JobRefusedError) -> Response:
        now = super().get_object()
        allowed = list(allowed_transitions(now))
        return problem(409, str(error), code="refused", status_now=now.status, allowed=allowed)

    def _step(self, name: str) -> Step:
        """The step of that id or key in the job asked for. Raises Http404, ValidationError."""
        steps = Step.objects.filter(job=super().get_object())
        try:
            found = steps.filter(pk=UUID(name)).first()
        except ValueError:
            found = steps.filter(key=name).first()
        if found is None:
            raise ValidationError({"step": ["The job has no such step."]})
        return found


def _with_workflow(jobs: Iterable[Job]) -> list[Job]:
    rows: list[Any] = list(jobs)  # shown by JobSerializer, no field of the model
    found = workflow_statuses(rows)
    for job in rows:
        job.workflow_status = found[job.pk]
    return rows


def _known(sent: str, tag: str) -> bool:
    """Whether If-None-Match names the tag; compared weakly, as RFC 9110 wants it."""
    known = {one.strip().removeprefix("W/") for one in sent.split(",")}
    return "*" in known or tag.removeprefix("W/") in known
