"""A decision that says nothing of what was read, or something else than is asked: refused with what is asked
now, as a problem (RFC 9457)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers

from tasks_app.api.base import RoomViewSet
from tasks_app.api.problems import UnreadError
from tasks_app.api.serializers import AskedNowSerializer
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError

_DIGEST, _APPROVALS = "evidence_digest", "approvals"


class UnreadSerializer(serializers.Serializer[Any]):
    """The problem: `code` says why, `shown` what is asked now."""

    type = serializers.CharField()
    status = serializers.IntegerField()
    title = serializers.CharField()
    code = serializers.CharField()
    shown = AskedNowSerializer(many=True)


UNREAD_400 = OpenApiResponse(UnreadSerializer, "The digest of what was read is missing, or the body is wrong")


def decision_body(
    room: RoomViewSet[Any],
    serializer: type[serializers.Serializer[Any]],
    asked: Callable[[], Iterable[Approval]],
) -> dict[str, Any]:
    """The body of a decision. Raises UnreadError with what is `asked` now where it does not say what was
    read, ValidationError for what else is wrong."""
    try:
        return room.read_body(serializer)
    except serializers.ValidationError as error:
        if not _lacks_digest(error.detail):
            raise
        said = "Say what you were shown, of each: the digest of its evidence."
        told = {"errors": error.detail, "shown": shown(asked())}
        raise UnreadError(said, status=400, code="digest", **told) from error


def unread(error: DecisionRefusedError, now: Collection[Approval], **told: Any) -> UnreadError:
    """A refused decision as a problem, with what is asked now."""
    return UnreadError(str(error), code=error.code, shown=shown(now), **told)


def shown(approvals: Iterable[Approval]) -> Any:
    """What is asked, as the API tells it."""
    return AskedNowSerializer(list(approvals), many=True).data


def _lacks_digest(detail: Any) -> bool:
    """Whether what is wrong is that an approval, or all, is named without what was read of it."""
    if isinstance(detail, dict):
        named = detail.keys() & {_DIGEST, _APPROVALS}
        return bool(named) or any(map(_lacks_digest, detail.values()))
    return isinstance(detail, list) and any(map(_lacks_digest, detail))
