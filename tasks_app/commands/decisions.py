"""The trace of decisions about commands: append-only rows, with the request, tenant and user of each."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from tasks_app import clock
from tasks_app.commands.models import Command, CommandDecision
from tasks_app.tracing import trace

log = structlog.get_logger(__name__)
Code = CommandDecision.Code


def decided(
    command: Command, code: str, *, gates: Mapping[str, str] | None = None, note: str = "", user: str = ""
) -> CommandDecision:
    """Record a decision, in the caller's commit. `user`: who decided, where that is not who asked."""
    back = trace(team=command.team_id, user=user or command.requested_by)
    log.info("command_decided", command=str(command.pk), kind=command.kind, code=str(code), **back.as_dict())
    return CommandDecision.objects.create(
        command=command,
        code=code,
        gates=dict(gates or {}),
        note=note,
        at=clock.now(),
        **back.as_dict(),
    )
