"""Risk gates: what is asked before an effect outside is repeated, and some before it is had at all.

A gate says why it is closed, in a sentence, or nothing. The storey that knows the rule registers it (document
003: "side-effecting execution retries remain gated").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tasks_app.commands.models import Command
from tasks_app.desk.explain import Mover

SELLER = "seller_suspended"


@dataclass(frozen=True, kw_only=True)
class Gate:
    """`why_closed(command)`: why not, for people; empty while it is open. `always`: asked at the first
    attempt too, not only when an effect is repeated. `closings(command)`: by which of its closings it is
    closed now, where who lets a command pass means those alone. `opens(command)`: who opens it for all,
    where somebody can."""

    name: str
    label: str
    why_closed: Callable[[Command], str]
    always: bool = False
    closings: Callable[[Command], Sequence[str]] | None = None
    opens: Callable[[Command], Sequence[Mover]] = lambda _command: ()

    def passes(self, command: Command) -> list[str]:
        """What a person's word to pass the gate is kept as on the command."""
        if self.closings is None:
            return [self.name]
        return [f"{self.name} {closing}" for closing in self.closings(command)]

    def is_passed(self, command: Command) -> bool:
        """Whether a person said so of all by which it is closed."""
        return set(self.passes(command)) <= set(command.overrides)


_gates: dict[str, Gate] = {}


def gate_register(gate: Gate) -> None:
    """Make `gate` known. Raises ValueError for a name that is taken by another."""
    if _gates.setdefault(gate.name, gate) != gate:
        raise ValueError(f"risk gate {gate.name} is registered already")


def gates_closed(command: Command, *, repeated: bool) -> dict[str, str]:
    """The gates that are closed to `command`, name to why, without those that a person said to pass."""
    asked = [gate for gate in _gates.values() if (gate.always or repeated) and not gate.is_passed(command)]
    told = {gate.name: gate.why_closed(command) for gate in asked}
    return {name: why for name, why in told.items() if why}


def passed_as_repeated(command: Command) -> bool:
    """Whether people said to pass a gate that is closed to repeats alone: a word about a repeat."""
    passed = (gate for gate in _gates.values() if not gate.always and gate.passes(command))
    return any(gate.is_passed(command) for gate in passed)


def gates_passes(command: Command, names: Iterable[str]) -> list[str]:
    """What a person's word to pass the named gates is kept as, in order."""
    known = [_gates[name] for name in names if name in _gates]
    return sorted(kept for gate in known for kept in gate.passes(command))


def gates_open(command: Command) -> list[Mover]:
    """Who opens the gates at which a command waits now."""
    closed = gates_closed(command, repeated=command.repeated)
    return [mover for name in closed for mover in _gates[name].opens(command)]


def gate_label(name: str) -> str:
    """A gate in words."""
    gate = _gates.get(name)
    return gate.label if gate else name
