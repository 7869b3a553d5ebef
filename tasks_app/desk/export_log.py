"""The one place where an export is put on record."""

from __future__ import annotations

import structlog

from tasks_app.people.actors import actor_key
from tasks_app.people.models import User

log = structlog.get_logger(__name__)


def export_recorded(*, user: User, page: str, query: str, columns: list[str]) -> None:
    """Record that `user` began to export a list (`page`: its model, `query`: its filter)."""
    log.info("list_exported", actor=actor_key(user), page=page, query=query, columns=columns)
