"""What all API views share: pages by key, errors as problem+json (RFC 9457)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import structlog
from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import exception_handler

from tasks_app.api.problems import UnreadError, problem
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.assistant.errors import AssistantRefusedError
from tasks_app.commands.services import CommandRefusedError, IdempotencyKeyConflictError
from tasks_app.database_connection import is_held_by_another
from tasks_app.lifecycle.refusals import refusal_of
from tasks_app.operations.services import OperationRefusedError
from tasks_app.tracing import trace_id

log = structlog.get_logger(__name__)
_LATER_S = "2"
_DECISION_STATUS = {
    "not_found": 404,
    "no_right": 403,
    "own_request": 403,
    "no_delegation": 403,
    "comment": 400,
    "digest": 400,
    "limits": 400,
}


class KeyPagination(CursorPagination):
    """Newest first, by the time-ordered key; no count, no offset."""

    ordering = "-id"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200

    def decode_cursor(self, request: Request) -> Cursor | None:
        """The page asked for. Raises NotFound for a cursor that is none of ours."""
        cursor = super().decode_cursor(request)
        if cursor is not None and cursor.position is not None:
            try:
                UUID(str(cursor.position))
            except ValueError:
                raise NotFound(self.invalid_cursor_message) from None
        return cursor


def problem_handler(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler: our refusals and DRF's own errors in one form; what nobody foresaw is
    logged, and told without its details."""
    known = _refusal(error)
    if known is not None:
        return known
    if is_held_by_another(error):
        log.warning("api_row_held", view=type(context.get("view")).__name__)
        later = problem(503, "Somebody else is changing this: come again in a moment.")
        later["Retry-After"] = _LATER_S
        return later
    response = exception_handler(error, context)
    if response is None:
        log.exception("api_error", view=type(context.get("view")).__name__, exc_info=error)
        return problem(500, "Something went wrong here; it was recorded.", trace_id=trace_id())
    detail = response.data
    title = (
        str(detail["detail"]) if isinstance(detail, dict) and "detail" in detail else "The request is wrong"
    )
    fields = {} if isinstance(detail, dict) and "detail" in detail else {"errors": detail}
    answer = problem(response.status_code, title, **fields)
    for name in ("WWW-Authenticate", "Retry-After"):
        if name in response.headers:
            answer[name] = response.headers[name]
    return answer


def _refusal(error: Exception) -> Response | None:
    refused = refusal_of(error)
    if refused is not None:
        return problem(
            409,
            str(refused),
            entity=refused.entity,
            id=refused.entity_id,
            status_now=refused.from_status,
            allowed=list(refused.allowed),
            why=refused.why,
        )
    if isinstance(error, UnreadError):
        return problem(error.status_code, str(error.detail), **error.told)
    if isinstance(error, DecisionRefusedError):
        return problem(_DECISION_STATUS.get(error.code, 409), str(error), code=error.code)
    if isinstance(error, IdempotencyKeyConflictError):
        return problem(409, str(error), code=error.code)
    if isinstance(error, AssistantRefusedError):
        return problem(error.status, str(error))
    if isinstance(error, OperationRefusedError | CommandRefusedError):
        return problem(409, str(error))
    return None
