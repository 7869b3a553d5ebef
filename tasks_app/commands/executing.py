"""The one place where a command's effect begins."""

from __future__ import annotations

from tasks_app import clock
from tasks_app.commands.adapters import adapter_of
from tasks_app.commands.decisions import Code, decided
from tasks_app.commands.models import Command


def execute_now(command: Command) -> None:
    """Have the effect of a locked command whose gates are open, or passed by a person. Raises what the
    adapter raises."""
    command.executed_at, command.waiting_since = clock.now(), None
    command.save(update_fields=["executed_at", "waiting_since"])
    adapter_of(command).execute(command)
    passed = f"Passed by a person: {', '.join(command.overrides)}" if command.overrides else ""
    decided(command, Code.EXECUTED, note=passed)
