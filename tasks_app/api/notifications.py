"""Notifications: what the viewer is told, and what they have read of it."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from tasks_app.api.base import MayMark, RoomViewSet, StrictSerializer
from tasks_app.notifications.models import Notification
from tasks_app.notifications.moments import render_moments
from tasks_app.notifications.selectors import notifications_of, unread_latest, with_read
from tasks_app.notifications.services import notifications_mark_read
from tasks_app.people.models import User


class NotificationSerializer(serializers.ModelSerializer[Notification]):
    """One thing that people are told; `read`: by the viewer."""

    read = serializers.BooleanField(read_only=True)
    body = serializers.SerializerMethodField()

    def get_body(self, note: Notification) -> str:
        """The text, with its moments in the viewer's time zone."""
        return render_moments(note.body, self.context["request"].user.time_zone)

    class Meta:
        model = Notification
        fields = ["id", "at", "level", "kind", "title", "body", "subject_type", "subject_id", "read"]


class ReadSerializer(StrictSerializer):
    """Which were read: `ids`, or every one with `all: true`."""

    ids = serializers.ListField(child=serializers.UUIDField(), required=False, min_length=1, max_length=200)
    all = serializers.BooleanField(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if bool(attrs.get("ids")) == bool(attrs.get("all")):
            raise serializers.ValidationError({"ids": ["Name them, or say all."]})
        return attrs


class ReadAnswerSerializer(serializers.Serializer[dict[str, int]]):
    """How many of them were unread."""

    marked = serializers.IntegerField()


class NotificationFilter(filters.FilterSet):
    """Of one level or kind, about one subject, unread by the viewer (of the 1,000 newest)."""

    level = filters.ChoiceFilter(choices=Notification.Level.choices)
    kind = filters.CharFilter()
    subject_id = filters.UUIDFilter()
    unread = filters.BooleanFilter(method="unread_only")

    class Meta:
        model = Notification
        fields: list[str] = []

    def unread_only(
        self, queryset: QuerySet[Notification], _name: str, value: bool
    ) -> QuerySet[Notification]:
        return queryset.filter(pk__in=unread_latest(self.request.user).values("pk")) if value else queryset


@extend_schema_view(
    list=extend_schema(summary="What you are told, newest first"),
    retrieve=extend_schema(summary="One notification, by id"),
)
class NotificationViewSet(ListModelMixin, RetrieveModelMixin, RoomViewSet[Notification]):
    """What the viewer is told: of their teams, and for the rights they hold. It takes no right to read it."""

    queryset = Notification.objects.all()
    permission_classes = (MayMark,)
    serializer_class = NotificationSerializer
    filterset_class = NotificationFilter
    lookup_value_regex = "[0-9a-fA-F-]{36}"

    def rows(self, viewer: User) -> QuerySet[Notification]:
        return with_read(notifications_of(viewer), viewer)

    @extend_schema(summary="Mark as read", request=ReadSerializer, responses=ReadAnswerSerializer)
    @action(detail=False, methods=["post"], filterset_class=None, pagination_class=None)
    def read(self, request: Request, **_: Any) -> Response:
        """Those named, or all; others' are not found and not counted."""
        said = self.read_body(ReadSerializer)
        marked = notifications_mark_read(user=self.viewer, ids=said.get("ids"))
        return Response({"marked": marked})
