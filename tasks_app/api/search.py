"""Global search, in the API."""

from __future__ import annotations

from typing import Any, cast

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tasks_app.desk.search import SearchRefusedError, search
from tasks_app.people.models import User


class HitSerializer(serializers.Serializer[Any]):
    """One thing found. `matched`: by which of its names; `exact`: by the whole of it."""

    kind = serializers.CharField()
    id = serializers.CharField()
    reference = serializers.CharField()
    title = serializers.CharField()
    matched = serializers.CharField()
    exact = serializers.BooleanField()


class SearchSerializer(serializers.Serializer[Any]):
    """Exact matches first; at most eight of each kind of name."""

    results = HitSerializer(many=True)


class SearchView(APIView):
    """By any id that a seller or a colleague may quote, or by the beginning of a name."""

    permission_classes = (IsAuthenticated,)

    @extend_schema(
        summary="Find anything by an id or a name",
        parameters=[OpenApiParameter("q", str, required=True, description="2 to 200 characters")],
        responses=SearchSerializer,
    )
    def get(self, request: Request) -> Response:
        """Ids and references whole (a reference also without its last digits), names by their beginning."""
        try:
            hits = search(request.query_params.get("q", ""), cast("User", request.user))
        except SearchRefusedError as error:
            raise serializers.ValidationError({"q": [str(error)]}) from error
        return Response(SearchSerializer({"results": hits}).data)
