"""What PostgreSQL itself refused (sql/), told as every other refusal of a status change is.

The functions of the lifecycle raise through fd_refuse, which names the rule as a constraint fd_… and says in
the detail, as JSON, what was tried; an entry without a reason or a typed actor breaks a constraint of the
trail's table. Only these are known here: any other error of the database stays what it is.
"""

from __future__ import annotations

import json
from typing import Any

import psycopg

from tasks_app.lifecycle.declarations import ENTITIES, lifecycle
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.models import AuditEntry

_OURS = "fd_"
_TRAIL = {
    "audit_reason_given": "its entry has no reason",
    "audit_actor_typed": "its entry names no actor: system, human:<id> or agent:<id>",
    "audit_once_per_version": "there is an entry of this version already",
}


class DatabaseRefusedError(TransitionError):
    """PostgreSQL refused what a status change would have left behind; nothing of its transaction was written.

    Where the refusal does not know the entity, its attributes are empty. `rule`: the name of what refused.
    """

    def __init__(self, rule: str, tried: dict[str, Any], why: str) -> None:
        entity, frm, to = (_text(tried, name) for name in ("entity", "from", "to"))
        known = entity in ENTITIES and frm in lifecycle(entity).states
        allowed = lifecycle(entity).targets(frm) if known else ()
        super().__init__(entity, _text(tried, "id"), frm, to, why, allowed)
        self.rule = rule

    def __str__(self) -> str:
        what = f"{self.entity} {self.entity_id}".strip() or "a status change"
        return f"The database refused {what}: {self.why}"


def refusal_of(error: BaseException) -> TransitionError | None:
    """The refused status change that `error` tells of: itself, or what PostgreSQL refused; else None.

    Django's error holds psycopg's as its cause.
    """
    if isinstance(error, TransitionError):
        return error
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    if not isinstance(cause, psycopg.Error):
        return None
    rule = cause.diag.constraint_name or ""
    if cause.diag.table_name == AuditEntry._meta.db_table and rule in _TRAIL:
        return DatabaseRefusedError(rule, {}, _TRAIL[rule])
    if not rule.startswith(_OURS):
        return None
    tried = _tried(cause.diag.message_detail)
    return DatabaseRefusedError(rule, tried, _text(tried, "why") or cause.diag.message_primary or rule)


def _tried(detail: str | None) -> dict[str, Any]:
    """Empty where the server's log settings or a proxy left no detail."""
    try:
        tried = json.loads(detail or "{}")
    except ValueError:
        return {}
    return tried if isinstance(tried, dict) else {}


def _text(tried: dict[str, Any], name: str) -> str:
    return str(tried.get(name) or "")
