"""Deciding through the API: one or many approvals, whole or in part; claims; threads."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from tasks_app.api.base import RoomViewSet, StrictSerializer
from tasks_app.api.people import PersonField
from tasks_app.api.problems import problem
from tasks_app.api.serializers import (
    ApprovalDetailSerializer,
    AskedNowSerializer,
    DecideSerializer,
    NoteSerializer,
    ShownSerializer,
    VerdictSerializer,
    budgets_of,
)
from tasks_app.api.unread import UNREAD_400, UnreadSerializer, decision_body, unread
from tasks_app.approvals.claims import approval_claim, approval_reassign, approval_release
from tasks_app.approvals.models import Approval
from tasks_app.approvals.notes import LONGEST, VIEW, approval_comment
from tasks_app.approvals.records import DecisionBatch
from tasks_app.approvals.selectors import asked_now
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.approvals.together import MOST, Reported, batch_decide, batch_of, report_of
from tasks_app.lifecycle.transitions import allowed_transitions
from tasks_app.people.roles import DECIDE

DECIDING_RIGHTS = {
    **dict.fromkeys(("decide", "decide_many", "claim", "release", "reassign"), DECIDE),
    "report": DECIDE,
    "comment": VIEW,
}
_CONFLICTS = ("not_open", "already_decided", "changed", "claimed", "cannot_decide")
_TAKEN = OpenApiResponse(description="Closed, somebody else has it, or they cannot decide on it")


class ReassignSerializer(StrictSerializer):
    """To whom, by username, and why."""

    to = PersonField()
    comment = serializers.CharField(required=False, allow_blank=True, default="", max_length=500)


class CommentSerializer(StrictSerializer):
    """What is said."""

    body = serializers.CharField(max_length=LONGEST)


class DecideManySerializer(VerdictSerializer):
    """One word on several approvals, each with the digest of what was read of it."""

    approvals = serializers.ListField(child=ShownSerializer(), allow_empty=False, max_length=MOST)


class ReportedSerializer(serializers.Serializer[Reported]):
    """What became of one: `code` and `message` are empty where the decision was recorded; `not_reached`: the
    process ended before. `status`: the approval's now, empty where the viewer sees no such approval. `shown`:
    what is asked now, where the decision was on something else."""

    id = serializers.UUIDField(source="approval_id")
    reference = serializers.CharField(source="approval.reference", default="")
    status = serializers.CharField(source="approval.status", default="")
    code = serializers.CharField()
    message = serializers.CharField()
    shown = AskedNowSerializer(source="now", allow_null=True)


class BatchSerializer(serializers.Serializer[Any]):
    """A report, kept under its `id`."""

    id = serializers.UUIDField()
    verdict = serializers.CharField()
    recorded = serializers.IntegerField()
    refused = serializers.IntegerField()
    results = ReportedSerializer(many=True)


def _uuid(said: object) -> uuid.UUID | None:
    try:
        return uuid.UUID(str(said))
    except ValueError:
        return None


class DecidingActions(RoomViewSet[Approval]):
    """The acts, for the room of approvals."""

    @extend_schema(
        summary="Approve or reject",
        request=DecideSerializer,
        responses={
            200: ApprovalDetailSerializer,
            400: UNREAD_400,
            409: OpenApiResponse(
                UnreadSerializer,
                "Decided already, expired, or what was shown has changed: then `shown` is what is asked now",
            ),
        },
    )
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def decide(self, request: Request, **_: Any) -> Response:
        """Records the viewer's decision; where it settles the question, its effect in the same commit. With
        `budgets` it is approved in part: answers the question about those amounts, which takes its place.
        `evidence_digest` says what was read: another, or none, is refused with what is asked now."""
        said = decision_body(self, DecideSerializer, lambda: self._now([self.get_object()]))
        lines = said.get("budgets")
        budgets = budgets_of(lines, self.get_object().currency) if lines else None
        return self._answered(
            lambda pk: approval_decide(
                approval_id=pk,
                user=self.viewer,
                verdict=said["verdict"],
                comment=said["comment"],
                expected_digest=said["evidence_digest"],
                on_behalf_of=said["on_behalf_of"],
                budgets=budgets,
            )
        )

    @extend_schema(
        operation_id="approvals_decide_many",
        summary="Decide on several",
        request=DecideManySerializer,
        responses={200: BatchSerializer, 400: UNREAD_400},
    )
    @action(detail=False, methods=["post"], url_path="decide", filterset_class=None, pagination_class=None)
    def decide_many(self, request: Request, **_: Any) -> Response:
        """Each by a decision of its own, in its own commit; what became of each is answered and kept. One
        whose digest is not of what is asked now is refused, with what is."""
        said = decision_body(self, DecideManySerializer, self._named)
        batch = batch_decide(
            shown={one["id"]: one["evidence_digest"] for one in said["approvals"]},
            user=self.viewer,
            verdict=said["verdict"],
            comment=said["comment"],
            on_behalf_of=said["on_behalf_of"],
        )
        return self._report(batch)

    @extend_schema(summary="What became of several", responses=BatchSerializer)
    @action(
        detail=False,
        methods=["get"],
        url_path="decided/(?P<batch>[0-9a-fA-F-]{36})",
        filterset_class=None,
        pagination_class=None,
    )
    def report(self, request: Request, batch: str = "", **_: Any) -> Response:
        """The report of the viewer's own, by its id."""
        try:
            found = batch_of(self.viewer, uuid.UUID(batch))
        except ValueError:
            found = None
        if found is None:
            raise NotFound
        return self._report(found)

    @extend_schema(summary="Claim", request=None, responses={200: ApprovalDetailSerializer, 409: _TAKEN})
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def claim(self, request: Request, **_: Any) -> Response:
        """Says that the viewer has it in hand, for a while. Others may decide all the same."""
        return self._answered(lambda pk: approval_claim(approval_id=pk, user=self.viewer))

    @extend_schema(summary="Release", request=None, responses={200: ApprovalDetailSerializer, 409: _TAKEN})
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def release(self, request: Request, **_: Any) -> Response:
        """Gives back what the viewer has claimed."""
        return self._answered(lambda pk: approval_release(approval_id=pk, user=self.viewer))

    @extend_schema(
        summary="Reassign",
        request=ReassignSerializer,
        responses={200: ApprovalDetailSerializer, 409: _TAKEN},
    )
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def reassign(self, request: Request, **_: Any) -> Response:
        """Gives it to somebody who can decide on it; they are told."""
        said = self.read_body(ReassignSerializer)
        return self._answered(lambda pk: approval_reassign(approval_id=pk, user=self.viewer, **said))

    @extend_schema(summary="Comment", request=CommentSerializer, responses={201: NoteSerializer})
    @action(detail=True, methods=["post"], filterset_class=None, pagination_class=None)
    def comment(self, request: Request, **_: Any) -> Response:
        """Adds to the thread, open or closed; whoever takes part is told. It is never changed."""
        said = self.read_body(CommentSerializer)
        note = approval_comment(approval_id=self.get_object().pk, user=self.viewer, body=said["body"])
        return Response(NoteSerializer(note).data, status=201)

    def _answered(self, act: Callable[[uuid.UUID], Approval]) -> Response:
        """The approval as it is after the act; a conflict says how it is now."""
        approval = self.get_object()
        try:
            after = act(approval.pk)
        except DecisionRefusedError as error:
            if error.code not in _CONFLICTS:
                raise
            now = self.get_object()
            if error.code == "changed":
                raise unread(error, self._now([now]), status_now=now.status) from error
            return problem(
                409,
                str(error),
                code=error.code,
                status_now=now.status,
                allowed=list(allowed_transitions(now)),
            )
        return Response(ApprovalDetailSerializer(self.get_queryset().get(pk=after.pk)).data)

    def _now(self, approvals: list[Approval]) -> list[Approval]:
        return list(asked_now(approvals, self.viewer).values())

    def _named(self) -> list[Approval]:
        """What is asked now about those that the body names, however it names them."""
        said = self.request.data.get("approvals") if isinstance(self.request.data, dict) else None
        named = [one.get("id") for one in said if isinstance(one, dict)] if isinstance(said, list) else []
        ids = [pk for pk in map(_uuid, named[:MOST]) if pk]
        return self._now(list(self.get_queryset().filter(pk__in=ids).order_by("pk")))

    def _report(self, batch: DecisionBatch) -> Response:
        report = report_of(batch, self.viewer)
        refused = sum(1 for one in report if one.code)
        told = {
            "id": batch.pk,
            "verdict": batch.verdict,
            "recorded": len(report) - refused,
            "refused": refused,
            "results": report,
        }
        return Response(BatchSerializer(told).data)
