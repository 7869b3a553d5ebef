"""Bodies that strangers send: bounded, one reading only, nothing that the database cannot hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from tasks_app.adcp.strict_json import MalformedBody, parse_object
from tasks_app.api.problems import TooLargeError
from tasks_app.storable import is_storable

_MAX_DEPTH = 32


class StrictJSONParser(BaseParser):
    """A JSON object of at most settings.API_MAX_BYTES: no NaN, no repeated keys, no endless nesting.

    Raises TooLargeError and ParseError.
    """

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        body = read_bounded(stream, settings.API_MAX_BYTES)
        try:
            data = parse_object(body, max_depth=_MAX_DEPTH)
        except MalformedBody as error:
            raise ParseError(f"{error}.") from error
        if not _storable(data):
            raise ParseError("A text in it holds U+0000 or half a surrogate pair.")
        return data


def read_bounded(stream: IO[bytes], limit: int) -> bytes:
    """The whole body. Raises TooLargeError beyond `limit` bytes, without reading the rest."""
    body = stream.read(limit + 1)
    if len(body) > limit:
        raise TooLargeError(f"The body may have {limit} bytes.")
    return body


def _storable(value: Any) -> bool:
    """Whether PostgreSQL's text and jsonb can hold every text in it."""
    if isinstance(value, str):
        return is_storable(value)
    if isinstance(value, dict):
        return all(_storable(part) for pair in value.items() for part in pair)
    return all(_storable(part) for part in value) if isinstance(value, list) else True
