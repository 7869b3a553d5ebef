"""Explain, in the API."""

from __future__ import annotations

from typing import Any, cast

from django.http import Http404
from django.utils import timezone
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tasks_app.desk.explain import Explanation, NotExplainedError, explain
from tasks_app.people.models import User


class WhoSerializer(serializers.Serializer[Any]):
    """Who can move it: in words, with the people and roles behind them where it is people."""

    who = serializers.CharField()
    does = serializers.CharField()
    people = serializers.ListField(child=serializers.CharField())
    roles = serializers.ListField(child=serializers.CharField())


class ExplanationSerializer(serializers.Serializer[Any]):
    """The five answers; times within the sentences are in `zone`."""

    entity = serializers.CharField()
    id = serializers.CharField()
    reference = serializers.CharField()
    title = serializers.CharField()
    state = serializers.CharField()
    since = serializers.DateTimeField(allow_null=True)
    waiting_for = serializers.CharField()
    who_can_move_it = WhoSerializer(many=True)
    if_nobody_does = serializers.CharField()
    deadline = serializers.DateTimeField(allow_null=True)
    zone = serializers.CharField()


def explanation_data(told: Explanation) -> dict[str, Any]:
    """An explanation as the API and the command answer it."""
    return {
        "entity": told.entity,
        "id": told.id,
        "reference": told.reference,
        "title": told.title,
        "state": told.state,
        "since": told.since,
        "waiting_for": told.waiting_for,
        "who_can_move_it": [
            {"who": one.who, "does": one.does, "people": list(one.people), "roles": list(one.roles)}
            for one in told.who
        ],
        "if_nobody_does": told.otherwise,
        "deadline": told.deadline,
        "zone": timezone.get_current_timezone_name(),
    }


class ExplainView(APIView):
    """What state something is in, and why."""

    permission_classes = (IsAuthenticated,)

    @extend_schema(
        summary="Explain anything, by id, reference or a seller's short name",
        responses={
            200: ExplanationSerializer,
            404: OpenApiResponse(description="There is none, or you may not see it"),
        },
    )
    def get(self, request: Request, named: str) -> Response:
        """State, since when, what it waits for, who can move it, and what happens if nobody does."""
        try:
            told = explain(named, cast("User", request.user))
        except NotExplainedError as error:
            raise Http404 from error
        return Response(ExplanationSerializer(explanation_data(told)).data)
