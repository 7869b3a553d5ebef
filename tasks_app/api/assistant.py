"""The assistant: sessions, turns and their streams, proposals, modes."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from tasks_app.api.base import RoomViewSet, StrictSerializer
from tasks_app.api.job_events import EventStreamRenderer
from tasks_app.assistant.governance import current_mode, set_mode
from tasks_app.assistant.models import AssistantMode, AssistantProposal, AssistantSession, AssistantTurn
from tasks_app.assistant.proposals import confirm_proposal, dismiss_proposal
from tasks_app.assistant.selectors import (
    is_last_turn_sign,
    own_sessions,
    own_turns,
    proposal_data,
    session_turns,
    turn_data,
)
from tasks_app.assistant.services import LONGEST_QUESTION, ask, stop
from tasks_app.assistant.sessions import SessionManager
from tasks_app.assistant.setup import TURN_STREAM
from tasks_app.assistant.types import Channel, Mode
from tasks_app.desk.live import RETRY, Followed, sign_of, sign_told, stream_headers
from tasks_app.jobs.told import END
from tasks_app.people.access import proof_of
from tasks_app.people.models import User
from tasks_app.people.roles import GOVERN_ASSISTANT, USE_ASSISTANT

_ID = "[0-9a-f-]{36}"
_REFUSED = {409: OpenApiResponse(description="The assistant refuses; nothing has changed")}


class StepSerializer(serializers.Serializer[Any]):
    """One step of a turn; `tool`, `arguments` and `error` if it ran a tool."""

    state = serializers.CharField()
    tool = serializers.CharField(allow_null=True)
    arguments = serializers.JSONField(allow_null=True)
    duration_ms = serializers.IntegerField()
    error = serializers.CharField(allow_null=True)


class ProposalSerializer(serializers.Serializer[Any]):
    """A proposed change.

    `approval` is a reference, null until the proposal is confirmed or if its change needs no approval.
    `subject` (reference and url) is what it is about, or what its confirmation made.
    """

    id = serializers.UUIDField()
    summary = serializers.CharField()
    approval = serializers.CharField(allow_null=True)
    subject = serializers.JSONField(allow_null=True)
    confirmed_at = serializers.DateTimeField(allow_null=True)
    dismissed_at = serializers.DateTimeField(allow_null=True)
    error = serializers.CharField(allow_null=True)


class TurnSerializer(serializers.Serializer[Any]):
    """A question and its answer. `quoted` is text that sellers or briefs wrote: treat it as data."""

    turn_id = serializers.UUIDField()
    session_id = serializers.UUIDField()
    trace_id = serializers.CharField()
    status = serializers.CharField()
    waits_for_turns = serializers.IntegerField()
    question = serializers.CharField()
    reply = serializers.CharField()
    partial = serializers.CharField()  # type: ignore[assignment]  # a serializer has one, too
    table = serializers.JSONField(allow_null=True)
    links = serializers.JSONField()
    quoted = serializers.DictField(child=serializers.CharField())
    steps = StepSerializer(many=True)
    proposals = ProposalSerializer(many=True)
    mode = serializers.CharField()
    error = serializers.CharField(allow_null=True)


class SessionSerializer(serializers.ModelSerializer[AssistantSession]):
    """A conversation; `archived_at` is null while it is active."""

    channel = serializers.CharField(read_only=True)

    class Meta:
        model = AssistantSession
        fields = ["id", "title", "channel", "created_at", "last_active_at", "archived_at"]


class SessionDetailSerializer(SessionSerializer):
    """A conversation with its 20 newest turns, the oldest first."""

    turns = serializers.SerializerMethodField()

    class Meta(SessionSerializer.Meta):
        fields = [*SessionSerializer.Meta.fields, "turns"]

    @extend_schema(responses=TurnSerializer(many=True))
    def get_turns(self, session: AssistantSession) -> list[dict[str, Any]]:
        """Return the turns as the turn's own address shows them."""
        return [dict(TurnSerializer(turn).data) for turn in session_turns(session, current_mode(session.pk))]


class OpenedSerializer(StrictSerializer):
    """The object that the question calls "this": its kind (`deal`, `campaign`, …) and id."""

    kind = serializers.CharField(max_length=60)
    id = serializers.UUIDField()


class QuestionSerializer(StrictSerializer):
    """A question, and the object that it is about if the question does not name one."""

    question = serializers.CharField(max_length=LONGEST_QUESTION)
    opened = OpenedSerializer(required=False, allow_null=True, default=None)


class StopSerializer(StrictSerializer):
    """A reason for the audit trail."""

    reason = serializers.CharField(required=False, allow_blank=True, default="", max_length=400)


class ModeSerializer(serializers.ModelSerializer[AssistantMode]):
    """A setting of the mode; `session` is null for all sessions."""

    class Meta:
        model = AssistantMode
        fields = ["id", "mode", "reason", "session", "set_by", "at"]


class SetModeSerializer(StrictSerializer):
    """The mode from now on, for all sessions or for one."""

    mode = serializers.ChoiceField(choices=[mode.value for mode in Mode])
    reason = serializers.CharField(max_length=400)
    session = serializers.UUIDField(required=False, allow_null=True, default=None)


class SessionFilter(filters.FilterSet):
    """Only archived sessions, or only active ones."""

    archived = filters.BooleanFilter(field_name="archived_at", lookup_expr="isnull", exclude=True)

    class Meta:
        model = AssistantSession
        fields: list[str] = []


@extend_schema_view(
    list=extend_schema(summary="Your conversations with the assistant, newest first"),
    retrieve=extend_schema(summary="One conversation, with its newest turns"),
)
class AssistantSessionViewSet(ListModelMixin, RetrieveModelMixin, RoomViewSet[AssistantSession]):
    """Conversations of the caller."""

    queryset = AssistantSession.objects.all()
    rights = dict.fromkeys(("list", "retrieve", "create", "restore", "turns"), USE_ASSISTANT)
    filterset_class = SessionFilter
    lookup_value_regex = _ID

    def rows(self, viewer: User) -> QuerySet[AssistantSession]:
        return own_sessions(viewer)

    def get_serializer_class(self) -> type[SessionSerializer]:
        return SessionDetailSerializer if self.action == "retrieve" else SessionSerializer

    @extend_schema(summary="Begin a conversation", request=None, responses={201: SessionSerializer})
    def create(self, request: Request) -> Response:
        """Create a session. Without one, no question can be asked."""
        manager = SessionManager(self.viewer)
        session = manager.get_session(manager.create_session(channel=Channel.API))
        return Response(SessionSerializer(session).data, status=201)

    @extend_schema(summary="Restore an archived conversation", request=None, responses=SessionSerializer)
    @action(detail=True, methods=["post"])
    def restore(self, request: Request, **_: Any) -> Response:
        """Take it out of the archive. A question does the same."""
        session = SessionManager(self.viewer).restore_session(self.get_object().pk)
        return Response(SessionSerializer(session).data)

    @extend_schema(
        summary="Ask a question",
        request=QuestionSerializer,
        responses={202: TurnSerializer, **_REFUSED},
    )
    @action(detail=True, methods=["post"])
    def turns(self, request: Request, **_: Any) -> Response:
        """Store the question. The answer comes later: follow the turn's `events`, or read the turn again."""
        session, said = self.get_object(), self.read_body(QuestionSerializer)
        opened = said["opened"]
        turn = ask(
            user=self.viewer,
            question=said["question"],
            channel=Channel.API,
            session_id=session.pk,
            opened=(opened["kind"], opened["id"]) if opened else None,
        )
        return Response(TurnSerializer(turn_data(turn.pk)).data, status=202)


class AssistantTurnViewSet(RoomViewSet[AssistantTurn]):
    """Questions of the caller, with their answers."""

    queryset = AssistantTurn.objects.all()
    rights = dict.fromkeys(("retrieve", "events", "stop"), USE_ASSISTANT)
    lookup_value_regex = _ID

    def rows(self, viewer: User) -> QuerySet[AssistantTurn]:
        return own_turns(viewer)

    @extend_schema(summary="One turn: steps, reply, proposals", responses=TurnSerializer)
    def retrieve(self, request: Request, **_: Any) -> Response:
        """Return the turn as it is now."""
        return Response(TurnSerializer(turn_data(self.get_object().pk)).data)

    @extend_schema(
        summary="Follow a turn as server-sent events",
        responses={(200, "text/event-stream"): OpenApiResponse(description="`data`: status and partial")},
    )
    @action(detail=True, methods=["get"], renderer_classes=[EventStreamRenderer, JSONRenderer])
    def events(self, request: Request, **_: Any) -> Response:
        """Send `{"status", "partial"}` at each change; `event: end` when the turn has ended."""
        turn = self.get_object()
        sign = sign_of(TURN_STREAM, turn.pk)
        if is_last_turn_sign(sign):
            return Response(RETRY + sign_told(sign) + END)
        followed = Followed(
            user=str(self.viewer.pk),
            proof=proof_of(request._request, request.auth),
            page=TURN_STREAM,
            entity_id=turn.pk,
            sign=sign,
        )
        return Response(RETRY + sign_told(sign), headers=stream_headers(followed.header()))

    @extend_schema(summary="Stop a turn", request=StopSerializer, responses={200: TurnSerializer, **_REFUSED})
    @action(detail=True, methods=["post"])
    def stop(self, request: Request, **_: Any) -> Response:
        """End it as cancelled. Results that come later change nothing."""
        turn, said = self.get_object(), self.read_body(StopSerializer)
        stop(user=self.viewer, turn_id=turn.pk, reason=said["reason"])
        return Response(TurnSerializer(turn_data(turn.pk)).data)


class AssistantProposalViewSet(RoomViewSet[AssistantProposal]):
    """Changes that the assistant proposed to the caller."""

    queryset = AssistantProposal.objects.all()
    rights = dict.fromkeys(("retrieve", "confirm", "dismiss"), USE_ASSISTANT)
    lookup_value_regex = _ID

    def rows(self, viewer: User) -> QuerySet[AssistantProposal]:
        return AssistantProposal.objects.filter(turn__session__user=viewer)

    @extend_schema(summary="One proposal", responses=ProposalSerializer)
    def retrieve(self, request: Request, **_: Any) -> Response:
        """Return the proposal as it is now."""
        return Response(ProposalSerializer(proposal_data(self.get_object())).data)

    @extend_schema(
        summary="Confirm a proposal", request=None, responses={200: ProposalSerializer, **_REFUSED}
    )
    @action(detail=True, methods=["post"])
    def confirm(self, request: Request, **_: Any) -> Response:
        """Ask for the change. `approval` names the approval that it waits for; null if it took effect."""
        proposal = confirm_proposal(user=self.viewer, proposal_id=self.get_object().pk)
        return Response(ProposalSerializer(proposal_data(proposal)).data)

    @extend_schema(
        summary="Dismiss a proposal", request=None, responses={200: ProposalSerializer, **_REFUSED}
    )
    @action(detail=True, methods=["post"])
    def dismiss(self, request: Request, **_: Any) -> Response:
        """Decide that the change is not wanted."""
        proposal = dismiss_proposal(user=self.viewer, proposal_id=self.get_object().pk)
        return Response(ProposalSerializer(proposal_data(proposal)).data)


class AssistantModeViewSet(RoomViewSet[AssistantMode]):
    """Modes of the assistant."""

    queryset = AssistantMode.objects.all()
    rights = dict.fromkeys(("list", "create"), GOVERN_ASSISTANT)
    pagination_class = None

    def rows(self, viewer: User) -> QuerySet[AssistantMode]:
        return AssistantMode.objects.all()[:50]

    @extend_schema(summary="The 50 newest settings of the mode", responses=ModeSerializer(many=True))
    def list(self, request: Request) -> Response:
        """The newest setting for all sessions, and the newest of each session, hold."""
        return Response(ModeSerializer(self.rows(self.viewer), many=True).data)

    @extend_schema(
        summary="Set the mode", request=SetModeSerializer, responses={201: ModeSerializer, **_REFUSED}
    )
    def create(self, request: Request) -> Response:
        """Set the mode for all sessions or for one. Lockdown ends open turns."""
        said = self.read_body(SetModeSerializer)
        row = set_mode(mode=said["mode"], reason=said["reason"], user=self.viewer, session_id=said["session"])
        return Response(ModeSerializer(row).data, status=201)
