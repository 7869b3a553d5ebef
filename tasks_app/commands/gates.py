"""Risk gates: what is asked before an effect outside is repeated, and some before it is had at all.

A gate says why it is closed, in a sentence, or nothing. The storey that knows the rule registers it (document
003: "side-effecting execution retries remain gated").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tasks_app.commands.models import Command

SELLER = "seller_suspended"


@dataclass(frozen=True, kw_only=True)
class Gate:
    """`why_closed(command)`: why not, for people; empty while it is open. `always`: asked at the first
    attempt too, not only when an effect is repeated."""

    name: str
    label: str
    why_closed: Callable[[Command], str]
    always: bool = False


_gates: dict[str, Gate] = {}


def gate_register(gate: Gate) -> None:
    """Make `gate` known. Raises ValueError for a name that is taken by another."""
    if _gates.setdefault(gate.name, gate) != gate:
        raise ValueError(f"risk gate {gate.name} is registered already")


def gates_closed(command: Command, *, repeated: bool) -> dict[str, str]:
    """The gates that are closed to `command`, name to why, without those that a person said to pass."""
    asked = [
        gate for gate in _gates.values() if (gate.always or repeated) and gate.name not in command.overrides
    ]
    told = {gate.name: gate.why_closed(command) for gate in asked}
    return {name: why for name, why in told.items() if why}


def gate_label(name: str) -> str:
    """A gate in words."""
    gate = _gates.get(name)
    return gate.label if gate else name
