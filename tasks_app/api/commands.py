"""Commands, with every decision about them, and the kill switch."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from tasks_app.api.base import RoomViewSet, StrictSerializer
from tasks_app.api.problems import ConflictError
from tasks_app.commands.kill_switch import KillSwitchRefusedError, kill_switch_set
from tasks_app.commands.models import Command, CommandDecision, KillSwitch
from tasks_app.commands.selectors import commands_of, kill_switch_latest, kill_switch_turns
from tasks_app.people.models import Team, User
from tasks_app.people.roles import TURN_KILL_SWITCH
from tasks_app.people.scope import visible

VIEW_COMMAND, VIEW_SWITCH = "tasks_app.view_command", "tasks_app.view_killswitch"


class CommandDecisionSerializer(serializers.ModelSerializer[CommandDecision]):
    """One decision, with the request, team and user it goes back to; `gates`: gate to why it was closed."""

    class Meta:
        model = CommandDecision
        fields = ["at", "code", "gates", "note", "trace_id", "request", "team", "user"]


class CommandSerializer(serializers.ModelSerializer[Command]):
    """One effect outside, under its key."""

    seller = serializers.SlugField(source="seller.slug", default=None, read_only=True)

    class Meta:
        model = Command
        fields = [
            "id",
            "key",
            "kind",
            "adapter",
            "seller",
            "team",
            "subject_type",
            "subject_id",
            "requested_by",
            "at",
            "result",
            "executed_at",
            "replays",
            "waiting_since",
            "refused_at",
            "refused_why",
        ]


class CommandDetailSerializer(CommandSerializer):
    """With what was asked, and every decision about it, oldest first."""

    decisions = CommandDecisionSerializer(many=True, read_only=True)

    class Meta(CommandSerializer.Meta):
        fields = [*CommandSerializer.Meta.fields, "payload", "digest", "decisions"]


class CommandFilter(filters.FilterSet):
    """Of one kind, about one subject, those that wait at a gate."""

    kind = filters.CharFilter()
    subject_id = filters.UUIDFilter()
    waiting = filters.BooleanFilter(field_name="waiting_since", lookup_expr="isnull", exclude=True)

    class Meta:
        model = Command
        fields: list[str] = []


@extend_schema_view(
    list=extend_schema(summary="Commands, newest first"),
    retrieve=extend_schema(summary="One command, with every decision about it"),
)
class CommandViewSet(ListModelMixin, RetrieveModelMixin, RoomViewSet[Command]):
    """Every effect outside."""

    queryset = Command.objects.all()
    rights = {"list": VIEW_COMMAND, "retrieve": VIEW_COMMAND}
    filterset_class = CommandFilter
    lookup_value_regex = "[0-9a-f-]{36}"

    def rows(self, viewer: User) -> QuerySet[Command]:
        return commands_of(viewer).defer("payload") if self.action == "list" else commands_of(viewer)

    def get_serializer_class(self) -> type[CommandSerializer]:
        return CommandSerializer if self.action == "list" else CommandDetailSerializer


class KillSwitchSerializer(serializers.ModelSerializer[KillSwitch]):
    """One turn, by its number; `team` is null for all teams."""

    class Meta:
        model = KillSwitch
        fields = ["turn", "team", "on", "reason", "actor", "at"]


class TurnSerializer(StrictSerializer):
    """Turn it for one team, or without `team` for all."""

    on = serializers.BooleanField()
    reason = serializers.CharField(max_length=500)
    team = serializers.UUIDField(required=False, allow_null=True, default=None)
    seen = serializers.IntegerField(
        required=False,
        allow_null=True,
        default=None,
        min_value=1,
        max_value=2**63 - 1,
        help_text="Off: the number of the turn that is let go, as you have read it.",
    )


class KillSwitchViewSet(RoomViewSet[KillSwitch]):
    """Stops new commands; reads and polls go on."""

    queryset = KillSwitch.objects.all()
    rights = {"list": VIEW_SWITCH, "create": TURN_KILL_SWITCH}
    serializer_class = KillSwitchSerializer
    pagination_class = None

    def rows(self, viewer: User) -> QuerySet[KillSwitch]:
        return kill_switch_turns(viewer)

    @extend_schema(summary="How the kill switch stands", responses=KillSwitchSerializer(many=True))
    def list(self, request: Request) -> Response:
        """The latest turn for all teams, and of each of yours; none: it was never turned."""
        return Response(KillSwitchSerializer(kill_switch_latest(self.viewer), many=True).data)

    @extend_schema(
        summary="Turn the kill switch",
        request=TurnSerializer,
        responses={
            201: KillSwitchSerializer,
            409: OpenApiResponse(description="It stands so already, or was turned again since"),
        },
    )
    def create(self, request: Request) -> Response:
        """On: new commands wait, and what has not left. Off: they go on by themselves; `seen` names the turn
        that is let go."""
        said: dict[str, Any] = self.read_body(TurnSerializer)
        team = None
        if said["team"] is not None:
            team = visible(Team.objects.all(), self.viewer, team="pk").filter(pk=said["team"]).first()
            if team is None:
                raise Http404
        try:
            turned = kill_switch_set(
                on=said["on"],
                reason=said["reason"],
                actor=self.viewer,
                team=team,
                seen=str(said["seen"] or ""),
            )
        except KillSwitchRefusedError as error:
            raise ConflictError(str(error)) from error
        return Response(KillSwitchSerializer(turned).data, status=201)
