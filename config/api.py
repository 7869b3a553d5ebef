"""What all API views share: pages by key, errors as problem+json (RFC 9457)."""

from __future__ import annotations

from typing import Any

from rest_framework.pagination import CursorPagination
from rest_framework.response import Response
from rest_framework.views import exception_handler

from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.lifecycle.errors import TransitionError

_DECISION_STATUS = {"not_found": 404, "no_right": 403, "own_request": 403, "comment": 400}


class KeyPagination(CursorPagination):
    """Newest first, by the time-ordered key; no count, no offset."""

    ordering = "-id"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200


def problem(status: int, title: str, **extra: Any) -> Response:
    """An error as application/problem+json."""
    return Response(
        {"type": "about:blank", "status": status, "title": title, **extra},
        status=status,
        content_type="application/problem+json",
    )


def problem_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler: our refusals and DRF's own errors in one form."""
    if isinstance(error, TransitionError):
        return problem(
            409,
            str(error),
            entity=error.entity,
            id=error.entity_id,
            status_now=error.from_status,
            allowed=list(error.allowed),
            why=error.why,
        )
    if isinstance(error, DecisionRefusedError):
        return problem(_DECISION_STATUS.get(error.code, 409), str(error), code=error.code)
    response = exception_handler(error, context)
    if response is None:
        return None
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
