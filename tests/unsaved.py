"""Rows that no database ever has, for parameters and constants: the same whenever and wherever they are
collected."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from itertools import count
from typing import Any, TypeVar

from django.db.models import Model

Row = TypeVar("Row", bound=Model)
_MADE_AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
_numbers = count(1)


def unsaved(model: type[Row], **columns: Any) -> Row:
    """A row with these columns. Its id, and each moment that is not given, tell no clock."""
    row = model(**columns)
    for field in row._meta.concrete_fields:
        if field.name in columns or field.attname in columns:
            continue
        value = getattr(row, field.attname)
        if isinstance(value, datetime):
            setattr(row, field.attname, _MADE_AT)
        elif isinstance(value, uuid.UUID):
            setattr(row, field.attname, uuid.UUID(int=next(_numbers)))
    return row
