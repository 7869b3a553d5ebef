"""Errors as application/problem+json (RFC 9457), and the refusals the API has beside DRF's own."""

from __future__ import annotations

from typing import Any

from rest_framework import status as http
from rest_framework.exceptions import APIException
from rest_framework.response import Response


class TooLargeError(APIException):
    """The body is larger than what is taken."""

    status_code = http.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_detail = "The body is too large."
    default_code = "too_large"


class ConflictError(APIException):
    """What is asked contradicts what is there."""

    status_code = http.HTTP_409_CONFLICT
    default_detail = "That contradicts what is there."
    default_code = "conflict"


class UnreadError(APIException):
    """A decision on something else than is asked now, or on nothing that was said to be read: refused with
    `shown`, what is asked now."""

    status_code: int = http.HTTP_409_CONFLICT
    default_detail = "This is not what you were shown: read it again."
    default_code = "changed"

    def __init__(self, detail: str = "", *, status: int = 409, **told: Any) -> None:
        super().__init__(detail or None)
        self.status_code = status
        self.told = told


def problem(status: int, title: str, **extra: Any) -> Response:
    """An error as application/problem+json."""
    return Response(
        {"type": "about:blank", "status": status, "title": title, **extra},
        status=status,
        content_type="application/problem+json",
    )
