"""Steering operations through the API: the acts of the operation's page, and contradictions."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound, PermissionDenied, ValidationError
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from tasks_app.api.base import RoomViewSet, StrictSerializer
from tasks_app.api.problems import ConflictError
from tasks_app.api.serializers import ReasonSerializer
from tasks_app.approvals.models import Approval
from tasks_app.operations import steering
from tasks_app.operations.answers import operation_answer
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.conflicts import choice_words, conflict_question, take_refusal
from tasks_app.operations.corrections import operation_correct, question_about_subject
from tasks_app.operations.models import Operation
from tasks_app.operations.selectors import conflicts_of
from tasks_app.operations.steered import SteeringRefusedError
from tasks_app.operations.writing import seller_write
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION

STEERING_RIGHTS = dict.fromkeys(
    ("poll", "resend", "stop", "settle", "answer", "write", "correct"), STEER_OPERATION
)
_REFUSED = OpenApiResponse(description="The operation’s state does not allow it; the title says why")
_FIELDS = {
    "reason": "reason",
    "evidence": "evidence",
    "answer": "text",
    "arguments": "arguments",
    "result": "result",
}


class SettleSerializer(StrictSerializer):
    """An end that the seller told by another way: `end` is an AdCP task status, `result` the task's own
    result, `evidence` says where the seller said so."""

    end = serializers.ChoiceField(choices=steering.ENDS)
    reason = serializers.CharField(max_length=500)
    evidence = serializers.CharField(max_length=1000)
    result = serializers.DictField(required=False, default=dict)


class AnswerSerializer(StrictSerializer):
    """An answer to the pause `generation`: words, and arguments of the task that replace those sent."""

    generation = serializers.IntegerField(min_value=1, max_value=32767)
    text = serializers.CharField(max_length=4000, required=False, allow_blank=True, default="")
    changes = serializers.DictField(required=False, default=dict)


class WriteSerializer(StrictSerializer):
    """A message in words: one line as its subject, plain text."""

    subject = serializers.CharField(max_length=200)
    body = serializers.CharField(max_length=20_000)


class CorrectSerializer(StrictSerializer):
    """The task's own arguments, as AdCP has them, all of them and corrected."""

    arguments = serializers.DictField()
    reason = serializers.CharField(max_length=500)


class SteeredSerializer(serializers.Serializer[Any]):
    """What was done: the operation's state, and the approval that waits for somebody else."""

    operation_id = serializers.UUIDField()
    reference = serializers.CharField()
    status = serializers.CharField()
    next_poll_at = serializers.DateTimeField(allow_null=True)
    deadline_at = serializers.DateTimeField(allow_null=True)
    approval_id = serializers.UUIDField(allow_null=True)


class SteeringActions(RoomViewSet[Operation]):
    """The acts, for the room of operations. Each takes the right to steer."""

    @extend_schema(summary="Poll now", request=None, responses={200: SteeredSerializer, 409: _REFUSED})
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def poll(self, request: Request, **_: Any) -> Response:
        """Makes an operation that the seller knows by a task due to be looked at."""
        return self._steered(lambda pk: steering.operation_poll(operation_id=pk, user=self.viewer))

    @extend_schema(
        summary="Send the same again",
        request=ReasonSerializer,
        responses={200: SteeredSerializer, 409: _REFUSED},
    )
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def resend(self, request: Request, **_: Any) -> Response:
        """The same bytes under the same key, while the seller replays it: it cannot buy twice."""
        said = self.read_body(ReasonSerializer)
        return self._steered(
            lambda pk: steering.operation_resend(operation_id=pk, user=self.viewer, reason=said["reason"])
        )

    @extend_schema(
        summary="Stop waiting",
        request=ReasonSerializer,
        responses={200: SteeredSerializer, 409: _REFUSED},
    )
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def stop(self, request: Request, **_: Any) -> Response:
        """Overdue now; somebody else decides whether it is given up. A read is given up at once."""
        said = self.read_body(ReasonSerializer)
        return self._steered(
            lambda pk: steering.operation_stop(operation_id=pk, user=self.viewer, reason=said["reason"])
        )

    @extend_schema(
        summary="Settle by hand",
        request=SettleSerializer,
        responses={200: SteeredSerializer, 409: _REFUSED},
    )
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def settle(self, request: Request, **_: Any) -> Response:
        """Proposes an end with its evidence; somebody else approves it. A read is settled at once, and
        never as completed: what it asked for only its seller tells."""
        said = self.read_body(SettleSerializer)
        return self._steered(lambda pk: steering.operation_settle(operation_id=pk, user=self.viewer, **said))

    @extend_schema(
        summary="Answer the seller",
        request=AnswerSerializer,
        responses={200: SteeredSerializer, 409: _REFUSED},
    )
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def answer(self, request: Request, **_: Any) -> Response:
        """Only where the seller’s transport gave a way to continue; somebody else releases it where money may
        move."""
        said = self.read_body(AnswerSerializer)
        return self._steered(lambda pk: operation_answer(operation_id=pk, user=self.viewer, **said))

    @extend_schema(
        summary="Write to the seller",
        request=WriteSerializer,
        responses={200: SteeredSerializer, 409: _REFUSED},
    )
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def write(self, request: Request, **_: Any) -> Response:
        """By mail, to the address the seller is known by; the same words on the same day are sent once."""
        said = self.read_body(WriteSerializer)
        return self._steered(lambda pk: seller_write(operation_id=pk, user=self.viewer, **said))

    @extend_schema(
        summary="Correct and ask anew",
        request=CorrectSerializer,
        responses={202: SteeredSerializer, 409: _REFUSED},
    )
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def correct(self, request: Request, **_: Any) -> Response:
        """Of what the seller refused as correctable: a new operation under a new key, sent as it is once
        somebody else has approved it. Answers the new one, and the approval it waits for."""
        said = self.read_body(CorrectSerializer)
        try:
            new = operation_correct(operation_id=self.get_object().pk, user=self.viewer, **said)
        except SteeringRefusedError as error:
            raise _api_error(error) from error
        return Response(_told(new, question_about_subject(new)), status=202)

    def _steered(self, act: Any) -> Response:
        operation = self.get_object()
        try:
            act(operation.pk)
        except SteeringRefusedError as error:
            raise _api_error(error) from error
        return Response(_told(self.get_object()))


def _told(operation: Operation, question: Approval | None = None) -> Any:
    question = question or steering.question_of(operation)
    return SteeredSerializer(
        {
            "operation_id": operation.pk,
            "reference": operation.reference,
            "status": operation.status,
            "next_poll_at": operation.next_poll_at,
            "deadline_at": operation.deadline_at,
            "approval_id": question.pk if question else None,
        }
    ).data


def _api_error(error: SteeringRefusedError) -> Exception:
    if error.code == "not_found":
        return NotFound(str(error))
    if error.code == "no_right":
        return PermissionDenied(str(error))
    if error.code in _FIELDS:
        return ValidationError({_FIELDS[error.code]: [str(error)]})
    return ConflictError(str(error))


class ConflictSerializer(serializers.ModelSerializer[Conflict]):
    """A contradiction; what was first and what came second, which may be large, is told of one by itself."""

    operation_id = serializers.UUIDField(read_only=True)
    operation = serializers.CharField(source="operation.reference", read_only=True)
    seller = serializers.SlugField(source="operation.seller.slug", read_only=True)

    class Meta:
        model = Conflict
        fields = [
            "id",
            "reference",
            "operation_id",
            "operation",
            "seller",
            "kind",
            "note",
            "at",
            "resolution",
            "resolved_by",
            "resolved_at",
            "reason",
            "asked_at",
        ]


class ConflictDetailSerializer(ConflictSerializer):
    """With `first` and `second`, each {channel, at, status, task_id, value, body} with the body as received,
    what each choice will do, and the approval that decides: approve keeps what was first, reject takes what
    came second."""

    first = serializers.SerializerMethodField()
    second = serializers.SerializerMethodField()
    approval_id = serializers.SerializerMethodField()
    keep = serializers.SerializerMethodField()
    take = serializers.SerializerMethodField()
    take_refusal = serializers.SerializerMethodField()

    class Meta(ConflictSerializer.Meta):
        fields = [
            *ConflictSerializer.Meta.fields,
            *("first", "second", "approval_id", "keep", "take", "take_refusal"),
        ]

    @extend_schema_field(serializers.DictField())
    def get_first(self, conflict: Conflict) -> dict[str, Any]:
        return dict(conflict.first)

    @extend_schema_field(serializers.DictField())
    def get_second(self, conflict: Conflict) -> dict[str, Any]:
        return dict(conflict.second)

    @extend_schema_field(serializers.UUIDField(allow_null=True))
    def get_approval_id(self, conflict: Conflict) -> Any:
        question = conflict_question(conflict)
        return question.pk if question else None

    @extend_schema_field(serializers.CharField())
    def get_keep(self, conflict: Conflict) -> str:
        return choice_words(conflict)[0]

    @extend_schema_field(serializers.CharField())
    def get_take(self, conflict: Conflict) -> str:
        return choice_words(conflict)[1]

    @extend_schema_field(serializers.CharField())
    def get_take_refusal(self, conflict: Conflict) -> str:
        return take_refusal(conflict)


@extend_schema_view(
    list=extend_schema(summary="Contradictions of sellers, newest first"),
    retrieve=extend_schema(summary="One contradiction, by id or reference: both payloads, whole"),
)
class ConflictViewSet(ListModelMixin, RetrieveModelMixin, RoomViewSet[Conflict]):
    """What sellers said twice and differently. The decision is taken at its approval."""

    queryset = Conflict.objects.all()
    rights = {
        "list": "tasks_app.view_operation",
        "retrieve": "tasks_app.view_operation",
        "ask": STEER_OPERATION,
    }

    def rows(self, viewer: User) -> QuerySet[Conflict]:
        rows = conflicts_of(viewer)
        return rows.defer("first", "second") if self.action == "list" else rows

    def get_serializer_class(self) -> type[ConflictSerializer]:
        return ConflictSerializer if self.action == "list" else ConflictDetailSerializer

    @extend_schema(
        summary="The seller was asked",
        request=ReasonSerializer,
        responses={200: ConflictDetailSerializer, 409: _REFUSED},
    )
    @action(detail=True, methods=["post"], pagination_class=None)
    def ask(self, request: Request, **_: Any) -> Response:
        """Records that somebody wrote to the seller; it stays open."""
        said = self.read_body(ReasonSerializer)
        conflict = self.get_object()
        try:
            steering.conflict_write(conflict_id=conflict.pk, user=self.viewer, reason=said["reason"])
        except SteeringRefusedError as error:
            raise _api_error(error) from error
        return Response(ConflictDetailSerializer(self.get_object()).data)
