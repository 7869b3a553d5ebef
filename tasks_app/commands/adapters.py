"""How commands reach the world: an adapter per provider. Nobody else calls one (lint-imports).

Source: document 003, "Execution Command Boundary".
"""

from __future__ import annotations

from typing import Any, Protocol

from tasks_app.commands.models import Command


class ExecutionAdapter(Protocol):
    """Carries commands out. Every method writes rows only, in the caller's transaction: what it makes due is
    sent afterwards, outside of any. `kinds`: the commands it knows."""

    name: str
    kinds: frozenset[str]

    def prepare(self, command: Command) -> dict[str, Any]:
        """Make what will be sent durable, and send nothing: the command's result, JSON."""

    def execute(self, command: Command) -> None:
        """Let it be sent. Raises what the provider's rules refuse."""

    def resume(self, command: Command) -> None:
        """It was held back on its way (again): let it be sent."""

    def withdraw(self, command: Command, *, reason: str, actor: str) -> bool:
        """It is not to be sent (again): `actor`, a key, wanted it so. What may have left is followed to its
        end. Answers whether the command is over with that: else something else of it was on its way, such as
        an answer, that may be given anew."""

    def ended(self, command: Command) -> bool:
        """Whether what carries it has ended without it: nothing is to be sent any more."""

    def stands(self, command: Command) -> bool:
        """Whether its effect is there, or may be: a step that runs again does not ask for it twice."""


_adapters: dict[str, ExecutionAdapter] = {}


def adapter_register(adapter: ExecutionAdapter) -> None:
    """Make `adapter` known. Raises ValueError for a name that is taken by another."""
    if _adapters.setdefault(adapter.name, adapter) is not adapter:
        raise ValueError(f"adapter {adapter.name} is registered already")


def adapter_of(command: Command) -> ExecutionAdapter:
    """The adapter of a command. Raises KeyError: nobody registered it, or it does not know the kind."""
    adapter = _adapters[command.adapter]
    if command.kind not in adapter.kinds:
        raise KeyError(f"the adapter {adapter.name} knows no {command.kind}")
    return adapter
