"""The Idempotency-Key of a request that makes something."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

from tasks_app.request_keys import KEY_FORM, is_request_key

_NAME = "Idempotency-Key"


def key_parameter(what: str) -> OpenApiParameter:
    """The header in the schema: the same key with the same request answers `what` it made before."""
    told = f"The same key with the same request answers the {what} it made before."
    return OpenApiParameter(_NAME, str, OpenApiParameter.HEADER, description=told)


def key_of(request: Request) -> str:
    """The key that the caller gave; empty where there is none. Raises ValidationError."""
    key = request.headers.get(_NAME, "").strip()
    if key and not is_request_key(key):
        raise ValidationError({_NAME: [KEY_FORM]})
    return key
