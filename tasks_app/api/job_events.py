"""A job's events in the API: pages by id, and a stream of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from tasks_app.api.streams import Going
from tasks_app.desk.live import stream_headers
from tasks_app.jobs.models import Job
from tasks_app.jobs.told import MOST, RETRY, as_stream, events_page
from tasks_app.people.access import proof_of

_MOST_ID = 2**63 - 1


class EventSerializer(serializers.Serializer[dict[str, Any]]):
    """One thing that happened to the graph; `payload`: what it carried, null above 100 kB."""

    id = serializers.IntegerField()
    type = serializers.CharField()
    at = serializers.DateTimeField()
    source = serializers.CharField()  # type: ignore[assignment]  # an event has one too
    step = serializers.CharField()
    step_id = serializers.UUIDField(allow_null=True)
    attempt = serializers.IntegerField()
    payload = serializers.JSONField(allow_null=True)
    correlation = serializers.JSONField()


class EventPageSerializer(serializers.Serializer[Any]):
    """Events, oldest first. Ask for the next page, or for what came since, with `after`; `more`: there are
    more now; `over`: the job has ended."""

    results = EventSerializer(many=True, source="events")
    after = serializers.IntegerField()
    more = serializers.BooleanField()
    over = serializers.BooleanField()


class EventsAskedSerializer(serializers.Serializer[Any]):
    """`after`: the id of the last event known; `limit`: at most so many; `stream`: as server-sent events,
    also where the Accept header does not say so."""

    after = serializers.IntegerField(required=False, default=0, min_value=0, max_value=_MOST_ID)
    limit = serializers.IntegerField(required=False, default=100, min_value=1, max_value=MOST)
    stream = serializers.BooleanField(required=False, default=False)


class EventStreamRenderer(BaseRenderer):
    """Server-sent events; an error stays JSON."""

    media_type = "text/event-stream"
    format = "stream"
    charset = "utf-8"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        if isinstance(data, bytes):
            return data
        return json.dumps(data, default=str).encode()


def events_answer(request: Request, job: Job) -> Response:
    """A page of the job's events or, where a stream is asked for, its beginning. Raises ValidationError."""
    streamed = isinstance(request.accepted_renderer, EventStreamRenderer)
    said = {**request.query_params.dict()}
    if streamed and request.headers.get("Last-Event-ID"):
        said["after"] = request.headers["Last-Event-ID"]
    asked = EventsAskedSerializer(data=said)
    asked.is_valid(raise_exception=True)
    after = asked.validated_data["after"]
    if not streamed:
        return Response(
            EventPageSerializer(events_page(job, after=after, limit=asked.validated_data["limit"])).data
        )
    page = events_page(job, after=after)
    going = Going(
        user=str(request.user.pk),
        proof=proof_of(request._request, request.auth),
        job_id=job.pk,
        after=page.after,
        ended_at=page.ended_at,
        over=page.over,
    )
    return Response(RETRY + as_stream(page.events), headers=stream_headers(going.header()))
