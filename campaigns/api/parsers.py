"""A brief as the body of a request: JSON, or YAML as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from campaigns.parsing import UnparseableBriefError, brief_parse
from tasks_app.api.parsers import read_bounded


class JSONBriefParser(BaseParser):
    """Raises TooLargeError beyond settings.MAX_BRIEF_BYTES, ParseError for what is no brief at all."""

    media_type = "application/json"
    name = "body.json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        try:
            return brief_parse(read_bounded(stream, settings.MAX_BRIEF_BYTES), name=self.name)
        except UnparseableBriefError as error:
            raise ParseError(f"{error}.") from error


class YAMLBriefParser(JSONBriefParser):
    """The same for YAML."""

    media_type = "application/yaml"
    name = "body.yaml"
